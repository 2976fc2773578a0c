"""The table of hostile requests: one row for each, the worst of its versions, Tidelog beside Apache Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.hostile.measuring import STOPPED_SERVING, Outcome
from benchmarks.report import OURS, THEIRS, machine

WAIT_MS_MAX: Final = 20.0
GROWN_BYTES_MAX: Final = 100_000_000
_SMALL_FRAME_BYTES: Final = 1_000_000
_MB: Final = 1_000_000


def is_within_bounds(outcome: Outcome, baseline_ms: float) -> bool:
    """Whether a request kept to what we promise: the wait of others, and memory for frames below a megabyte."""
    is_small = outcome.size_bytes < _SMALL_FRAME_BYTES
    # The work does not depend on what else the machine does; where it is unknown, a wait in peace is the measure.
    limit_ms = WAIT_MS_MAX if outcome.worst_work_ms else max(WAIT_MS_MAX, baseline_ms)
    return (
        waited_ms(outcome) <= limit_ms
        and outcome.failure is None
        and outcome.fate not in ("silent", STOPPED_SERVING)
        and not (is_small and outcome.grown_bytes > GROWN_BYTES_MAX)
    )


def waited_ms(outcome: Outcome) -> float:
    """How long the bystander had to wait for the broker, be the machine busy or not."""
    return min(outcome.worst_ms, outcome.worst_work_ms or outcome.worst_ms)


def page(outcomes: Mapping[str, Sequence[Outcome]], baselines: Mapping[str, float], notes: Sequence[str]) -> str:
    """The whole page."""
    ours = outcomes.get(OURS, ())
    beyond = [outcome for outcome in ours if not is_within_bounds(outcome, baselines.get(OURS, 0.0))]
    return "\n".join(
        [
            "# Hostile requests",
            "",
            "Written by `python -m benchmarks hostile`; see `benchmarks/hostile`. Each request is well-formed or",
            "nearly so, and is sent beside a bystander on another connection that produces, fetches and asks for",
            "metadata.",
            "",
            *(f"- {fact}" for fact in machine()),
            *(
                f"- {name}: without an attack the bystander waits {ms:.0f} ms at worst"
                for name, ms in baselines.items()
            ),
            *(f"- {note}" for note in notes),
            f"- {len(ours)} requests to Tidelog; {len(beyond)} of them beyond {WAIT_MS_MAX:.0f} ms of waiting or, for",
            f"  requests below a megabyte, {GROWN_BYTES_MAX // _MB} MB of memory",
            "",
            "Wait: the bystander's longest, in ms; the least of up to three tries where the first was above the limit.",
            "Work: the most processor time, in ms, that the broker's main thread took within one such wait: what the",
            "wait would be on a machine that does nothing else. A JVM works in many threads, its main one only waits.",
            "Memory: the broker's peak above what it had before, in MB. A row shows the version that was worst for us.",
            "Silent: no answer within 20 s, or 5 s from Apache Kafka. Stopped serving: some of eight other clients got",
            "no answer within 3 s, and a new broker took its place. With !: the bystander's own connection failed.",
            "",
            *_table(outcomes),
            "",
        ]
    )


def _table(outcomes: Mapping[str, Sequence[Outcome]]) -> list[str]:
    names = [name for name in (OURS, THEIRS) if name in outcomes]
    words = {OURS: ("wait", "work", "memory", "answer"), THEIRS: ("wait", "memory", "answer")}
    head = ["request", "size"] + [f"{name}: {word}" for name in names for word in words[name]]
    rows = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    by_request = {name: {outcome.request.name: outcome for outcome in outcomes[name]} for name in names}
    for shown in _worst_of_versions(outcomes[names[0]]):
        cells = [shown.request.name, _size(shown.size_bytes)]
        for name in names:
            outcome = by_request[name].get(shown.request.name)
            cells += _cells(outcome, with_work=name == OURS)
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def _worst_of_versions(outcomes: Sequence[Outcome]) -> list[Outcome]:
    worst: dict[tuple[str, str], Outcome] = {}
    for outcome in outcomes:
        key = (outcome.request.api, outcome.request.kind)
        if key not in worst or _badness(outcome) > _badness(worst[key]):
            worst[key] = outcome
    return list(worst.values())


def _badness(outcome: Outcome) -> float:
    return max(waited_ms(outcome) / WAIT_MS_MAX, outcome.grown_bytes / GROWN_BYTES_MAX)


def _cells(outcome: Outcome | None, with_work: bool) -> list[str]:
    if outcome is None:
        return [""] * (4 if with_work else 3)
    if outcome.fate == STOPPED_SERVING:
        return [*[""] * (3 if with_work else 2), STOPPED_SERVING]
    fate = outcome.fate if outcome.fate != "answered" else _size(outcome.reply_bytes)
    work = [f"{outcome.worst_work_ms:.1f}"] if with_work else []
    memory = f"{outcome.grown_bytes / _MB:.1f}"
    return [f"{outcome.worst_ms:.1f}", *work, memory, fate + (" !" if outcome.failure else "")]


def _size(size_bytes: int) -> str:
    if size_bytes >= _MB:
        return f"{size_bytes / _MB:.1f} MB"
    return f"{size_bytes / 1000:.1f} kB" if size_bytes >= 1000 else f"{size_bytes} B"
