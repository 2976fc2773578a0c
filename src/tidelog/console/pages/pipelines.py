"""Pipelines, as their topics and headers show them from outside: rows, lag, retries, dead letters and their replay.

A pipeline with a failure policy has topics beside its source: `orders.retry.1`, `orders.retry.parked`, `orders.dlq`.
Records in them carry headers that name the pipeline, the failure and the origin. From outside, rows that wait look like
rows that were read again; the page shows how many were written. What expectations found is in the status topic.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from tidelog.client.aio.admin.types import EARLIEST
from tidelog.client.cluster import Cluster
from tidelog.client.retry.headers import REPLAYED_BY
from tidelog.client.security_settings import SecuritySettings
from tidelog.client.types import TopicPartition
from tidelog.console.cluster_view import Snapshot
from tidelog.console.errors import PageError, explain
from tidelog.console.formats import Format, Shown, show
from tidelog.console.forms import Act, Done, Field, Form, Values
from tidelog.console.pages.routing import Area
from tidelog.console.reading import bounds_of, read
from tidelog.console.scan import CursorError, Record, parse_cursor, write_cursor
from tidelog.console.settings import Login
from tidelog.console.web import Ask, link
from tidelog.spark.pipeline.failing.dead_letters import DeadLetter, FilterError, parse_filter, read_letter
from tidelog.spark.pipeline.failing.replay import Replay, Replayed
from tidelog.spark.pipeline.failing.replay_progress import ReplayProgress
from tidelog.spark.pipeline.running.status_topic import STATUS_TOPIC, Seen, read_statuses

LETTERS_PER_PAGE: Final = 25
CHOICE: Final = "letter."
WINDOWS_MAX: Final = 50
"""So many windows of a replay's progress are asked for: a million letters."""
REPLAY_OFFSETS_MAX: Final = 50_000
"""What a preview reads while a person waits; `tidelog pipeline replay` has no such limit."""
REPLAY_WAIT_S: Final = 2.0
"""A replay that takes longer is followed on a page of its own."""
_OWN: Final = re.compile(r"(?P<stem>.+)\.(?P<role>dlq|retry\.(?:parked|keys|[0-9]+))")


@dataclass(slots=True)
class PipelineTopics:
    """The topics of one failure policy, by what they are for."""

    stem: str
    retries: list[str] = field(default_factory=list)
    dead_letters: str | None = None
    parked: str | None = None
    keys: str | None = None

    @property
    def names(self) -> list[str]:
        """All of them but the compacted topic of keys."""
        return [*self.retries, *(each for each in (self.parked, self.dead_letters) if each)]


class PipelineRow(NamedTuple):
    """A pipeline in the list."""

    topics: PipelineTopics
    has_source: bool
    rate: float | None
    lags: Mapping[str, int]
    retried: int
    parked: int
    dead: int
    unsent: int | None
    """Dead letters that no replay has sent or passed; None if there are none."""


class LetterRow(NamedTuple):
    """A dead letter."""

    record: Record
    letter: DeadLetter
    value: Shown
    was_sent: bool
    """Whether a replay has sent it back."""


def find_pipelines(names: list[str]) -> list[PipelineTopics]:
    """The failure policies whose topics are among these names."""
    found: dict[str, PipelineTopics] = {}
    for name in sorted(names):
        match = _OWN.fullmatch(name)
        if match is None:
            continue
        topics = found.setdefault(match["stem"], PipelineTopics(match["stem"]))
        if match["role"] == "dlq":
            topics.dead_letters = name
        elif match["role"] == "retry.parked":
            topics.parked = name
        elif match["role"] == "retry.keys":
            topics.keys = name
        else:
            topics.retries.append(name)
    return list(found.values())


async def show_list(ask: Ask) -> Response:
    """All pipelines whose topics have the usual names."""
    snapshot = await ask.view.snapshot.get()
    pipelines = find_pipelines(list(snapshot.topics))
    counts = await _counts(ask, snapshot, [name for each in pipelines for name in each.names])
    rows = [await _row(ask, snapshot, each, counts) for each in pipelines]
    has_status = STATUS_TOPIC in snapshot.topics
    running = await asyncio.to_thread(_statuses, ask.view.client_settings) if has_status else []
    return ask.render("pipelines.html", area="pipelines", rows=rows, running=[each for each in running if each.rules])


def _statuses(settings: Mapping[str, Any]) -> list[Seen]:
    """What the processes of pipelines have last said of themselves. Runs in a thread."""
    with Cluster(dict(settings)) as cluster:
        return read_statuses(cluster)


async def _row(ask: Ask, snapshot: Snapshot, topics: PipelineTopics, counts: Mapping[str, int]) -> PipelineRow:
    sampler = ask.view.sampler
    return PipelineRow(
        topics,
        topics.stem in snapshot.topics,
        sampler.throughput.rate_of(topics.stem),
        sampler.lags_of_topic(topics.stem),
        sum(counts.get(name, 0) for name in topics.retries),
        counts.get(topics.parked or "", 0),
        counts.get(topics.dead_letters or "", 0),
        (await _progress(ask, snapshot, topics.dead_letters))[1] if topics.dead_letters else None,
    )


async def _counts(ask: Ask, snapshot: Snapshot, names: list[str]) -> dict[str, int]:
    """How many offsets each topic spans."""
    wanted = [
        TopicPartition(name, each.partition)
        for name in names
        for each in snapshot.topics[name].partitions
        if each.leader_id >= 0
    ]
    firsts, ends = await asyncio.gather(ask.view.offsets_at(wanted, EARLIEST), ask.view.end_offsets(wanted))
    counts: dict[str, int] = {}
    for where in wanted:
        counts[where.topic] = counts.get(where.topic, 0) + ends.get(where, 0) - firsts.get(where, 0)
    return counts


async def _progress(ask: Ask, snapshot: Snapshot, topic: str) -> tuple[ReplayProgress, int]:
    """What replays have sent of a dead-letter topic, and how many offsets they have not."""
    wanted = [TopicPartition(topic, each.partition) for each in snapshot.topic(topic).partitions]
    firsts, ends = await asyncio.gather(ask.view.offsets_at(wanted, EARLIEST), ask.view.end_offsets(wanted))
    spans = {where.partition: (firsts.get(where, 0), end) for where, end in ends.items()}
    group_id = _replay(ask, topic, {}).group_id
    progress = ReplayProgress(topic, group_id)
    admin = await ask.view.admin()
    progress.take(group_id, await admin.list_consumer_group_offsets(group_id))
    for each in progress.groups(progress.rest(spans))[1:][:WINDOWS_MAX]:
        progress.take(each, await admin.list_consumer_group_offsets(each))
    return progress, progress.unsent(spans)


async def show_dead_letters(ask: Ask) -> Response:
    """The newest dead letters of a topic."""
    snapshot = await ask.view.snapshot.get()
    topic = snapshot.topic(ask.query("topic"))
    bounds = await bounds_of(ask.view, topic.name, [each.partition for each in topic.partitions])
    try:
        uppers = parse_cursor(ask.query("before")) or bounds.end
    except CursorError as error:
        raise PageError(400, "The address cannot be read", f"{error}.") from None
    found = await read(ask.view, topic.name, uppers, bounds, LETTERS_PER_PAGE, newest_first=True)
    progress, unsent = await _progress(ask, snapshot, topic.name)
    rows = [
        LetterRow(
            each,
            read_letter(each.key, each.value, each.headers),
            show(each.value, Format.AUTO),
            progress.was_sent(each.partition, each.offset),
        )
        for each in found.records
    ]
    return ask.render(
        "dead_letters.html",
        area="pipelines",
        topic=topic,
        rows=rows,
        total=sum(bounds.end[each] - bounds.first[each] for each in bounds.end),
        unsent=unsent,
        older=link("/dead-letters", topic=topic.name, before=write_cursor(found.onward)) if found.onward else "",
    )


# Replay.


def _replay(ask: Ask, topic: str, values: Values) -> Replay:
    """The replay that a form describes. Raises PageError."""
    try:
        filters = [parse_filter(line.strip()) for line in values.get("filters", "").splitlines() if line.strip()]
    except FilterError as error:
        raise PageError(400, "The filter cannot be used", f"{error}.") from None
    to = values.get("to", "").strip() or None
    if to == topic:
        raise PageError(400, "The target cannot be used", f"{topic} is the dead-letter topic itself.")
    client = ask.view.client_settings
    secure = {name: value for name, value in client.items() if name in SecuritySettings.settings}
    servers = client.get("bootstrap.servers", "")
    return Replay(
        servers if isinstance(servers, str) else ",".join(servers),
        topic,
        to,
        filters,
        values.get("from_beginning") == "1",
        secure,
        _chosen(values),
        ask.user or "console",
    )


def _chosen(values: Values) -> frozenset[tuple[int, int]] | None:
    """The letters that were ticked, or that the preview has kept; None if none was, which means all."""
    given = [name.removeprefix(CHOICE) for name in values if name.startswith(CHOICE)]
    given += [each for each in values.get("only", "").split(",") if each]
    try:
        places = [parse_cursor(each) for each in given]
    except CursorError as error:
        raise PageError(400, "The form cannot be read", f"{error}.") from None
    if not places and values.get("choose"):
        raise PageError(400, "Nothing was chosen", "Tick the letters to replay.")
    return frozenset(place for each in places for place in each.items()) or None


async def _replay_form(ask: Ask) -> Form:
    topic = await ask.view.topic(ask.query("topic"))
    return Form(
        f"Replay dead letters of {topic.name}",
        [
            Field(
                "filters",
                "Filters",
                kind="textarea",
                required=False,
                hint="One per line, all must match: error.type=TimeoutError, key!=42, error.message~time.?out, "
                "header.tenant=a, value~words, failed>2026-01-31T12:00:00Z.",
            ),
            Field("to", "Send to", required=False, hint="A topic. Empty: where each letter came from."),
            Field("from_beginning", "Also letters that were sent back before", kind="checkbox", required=False),
        ],
        "Preview",
        link("/dead-letters", topic=topic.name),
        [
            "Letters are sent back as they were before they failed, each once, also over several replays.",
            f"Each has a header that says who sent it: {REPLAYED_BY}={ask.user or 'console'}.",
            "The next page counts them before anything is sent.",
        ],
        area="pipelines",
    )


async def _preview(ask: Ask, values: Values) -> Form:
    topic = ask.query("topic")
    replay = _replay(ask, topic, values)
    seen = await asyncio.to_thread(_look, replay)
    only = ",".join(f"{partition}:{offset}" for partition, offset in sorted(replay.only or ()))
    kept = {**{name: values.get(name, "") for name in ("filters", "to", "from_beginning")}, "only": only}
    return Form(
        f"Replay dead letters of {topic}",
        [Field(name, name, value, "hidden", required=False) for name, value in kept.items()],
        f"Send {seen.total:,} {'letter' if seen.total == 1 else 'letters'}",
        link("/dead-letters/replay", topic=topic),
        [
            f"{seen.kept:,} stay dead letters.",
            *([f"{seen.without_origin:,} have no origin in their headers: name a topic."] * bool(seen.without_origin)),
        ],
        is_danger=True,
        headings=("Send to", "Letters"),
        rows=[(target, f"{count:,}") for target, count in sorted(seen.sent.items())] or [("–", "0")],
        area="pipelines",
        action=link("/dead-letters/replay/send", topic=topic),
    )


def _look(replay: Replay) -> Replayed:
    """Runs in a thread."""
    spans = replay.spans()
    total = sum(end - start for start, end in spans.values())
    if total > REPLAY_OFFSETS_MAX:
        raise PageError(
            413,
            "There are too many dead letters",
            f"{total:,} letters are more than the console replays; it stops at {REPLAY_OFFSETS_MAX:,}.",
            f"Run `tidelog pipeline replay --topic {replay.dead_letters}` instead.",
        )
    return replay.look(spans, lambda _: None)


async def _send_form(ask: Ask) -> Form:
    return await _replay_form(ask)


async def _send(ask: Ask, values: Values) -> Done:
    topic = ask.query("topic")
    run = ask.cluster.replays.start(_replay(ask, topic, values))
    await run.wait(REPLAY_WAIT_S)
    if run.failure is not None:
        raise run.failure
    if run.done is None:
        return Done("/dead-letters/replays", f"The dead letters of {topic} are being replayed.")
    targets = ", ".join(sorted(run.done.sent)) or "any topic"
    message = f"{run.done.total:,} dead letters of {topic} were sent to {targets}."
    return Done(link("/dead-letters", topic=topic), message)


async def show_replays(ask: Ask) -> Response:
    """The replays of this console, with how far they are: of the user, where users have rights of their own."""
    runs = ask.cluster.replays.seen_by(ask.user if ask.cluster.login is Login.SASL else None)
    rows = [(each, "" if each.failure is None else _failure(each.failure)) for each in runs]
    return ask.render("replays.html", area="pipelines", rows=rows)


def _failure(error: Exception) -> str:
    explained = explain(error)
    return explained.text if explained is not None else "This is a fault of the console; its log has the details."


AREA = Area(
    pages={"/pipelines": show_list, "/dead-letters": show_dead_letters, "/dead-letters/replays": show_replays},
    acts=[
        Act("/dead-letters/replay", _replay_form, _preview),
        Act("/dead-letters/replay/send", _send_form, _send),
    ],
)
