"""`python -m benchmarks hostile`: send every hostile request and write the table. `hostile connections` has its own.

Without `--kafka` Tidelog runs alone. A request that went beyond a limit of ours is sent up to two more times, and the
least counts: on a machine that does other things too, one long wait proves nothing. Outcomes go to a journal as they
come, so that a run which was interrupted can go on with `--resume`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks import apache_kafka, tidelog_broker
from benchmarks.hostile import report, siege
from benchmarks.hostile.attack import Attack
from benchmarks.hostile.contestants import contestants
from benchmarks.hostile.journal import Journal
from benchmarks.hostile.measuring import Outcome
from benchmarks.hostile.progress import Progress
from benchmarks.hostile.requests import VERSIONS, HostileRequest, generated, named
from benchmarks.report import OURS, THEIRS

PAGE: Final = Path(__file__).resolve().parent.parent / "HOSTILE.md"
JOURNAL: Final = PAGE.with_suffix(".jsonl")
_OUR_TRIES: Final = 3


def main(arguments: Sequence[str]) -> int:
    if list(arguments[:1]) == ["connections"]:
        return siege.main(arguments[1:], PAGE)
    options = _options(arguments)
    tidelog_broker.use_source_tree()
    requests = [*generated(versions=options.versions), *named()]
    requests = [each for each in requests if not options.only or any(word in each.name for word in options.only)]
    names, notes = [OURS], []
    if options.kafka:
        reason = apache_kafka.unavailable_reason()
        if reason is None:
            names.append(THEIRS)
            notes.append(f"Apache Kafka {apache_kafka.VERSION} in ZooKeeper mode, 1 GB heap")
        else:
            notes.append(f"without Apache Kafka: {reason}")
    journal = Journal(options.journal, requests)
    if not options.resume:
        journal.clear()
    with tempfile.TemporaryDirectory(prefix="tidelog-hostile-") as directory:
        for name in names:
            _attack(name, Path(directory) / name, requests, journal)
    page = report.page(journal.outcomes, journal.baselines, notes)
    print(page)
    output = options.output or (None if options.only else PAGE)
    if output is not None:
        output.write_text(f"{page.rstrip()}\n\n{siege.part_of(output)}".rstrip() + "\n")
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks hostile", description=__doc__)
    parser.add_argument("--kafka", action="store_true", help="send the same to Apache Kafka")
    parser.add_argument(
        "--versions",
        choices=VERSIONS,
        default="typical",
        help="of each API: the newest; the oldest, the last before compact lengths and the newest; or all "
        "(default %(default)s)",
    )
    parser.add_argument("--only", action="append", metavar="TEXT", help="requests whose name contains this")
    parser.add_argument("--resume", action="store_true", help="keep what the journal holds and measure the rest")
    parser.add_argument("--journal", type=Path, default=JOURNAL, help="where outcomes go as they come (%(default)s)")
    parser.add_argument("--output", type=Path, help=f"where the page goes (default {PAGE.name} after a whole run)")
    return parser.parse_args(arguments)


def _attack(name: str, directory: Path, requests: Sequence[HostileRequest], journal: Journal) -> None:
    """Send one broker what the journal does not hold yet."""
    missing = [request for request in requests if not journal.holds(name, request)]
    progress = Progress(name, len(requests), len(requests) - len(missing))
    if not missing:
        return
    with Attack(contestants(name, directory), tries=_OUR_TRIES if name == OURS else 1) as attack:
        journal.add_baseline(name, attack.baseline_ms)
        for request in missing:
            outcome = attack.measure(request)
            journal.add(name, outcome)
            progress.show(_line(outcome))


def _line(outcome: Outcome) -> str:
    return (
        f"{outcome.request.name}: {outcome.size_bytes} B, {outcome.fate} ({outcome.reply_bytes} B), "
        f"{outcome.worst_ms:.1f} ms, {outcome.worst_work_ms:.1f} ms work, {outcome.grown_bytes / 1e6:.1f} MB"
        f"{f', {outcome.failure}' if outcome.failure else ''}"
    )
