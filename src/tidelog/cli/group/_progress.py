"""How far groups are: the lag of each partition, once or again and again."""

import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

from tidelog.cli._options import Format
from tidelog.cli.output import live_table, print_json_lines, print_line, print_table
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import LATEST, GroupDescription, MemberDescription
from tidelog.client.types import TopicPartition
from tidelog.wire.errors import ApiError, ErrorCode


class Progress(NamedTuple):
    """One partition of a group. None: no committed offset, no such partition, or no member."""

    group: str
    topic: str
    partition: int
    committed: int | None
    end: int | None
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        """Records behind the end."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


def describe_group(admin: Admin, group: str) -> GroupDescription:
    """A group; ApiError if there is no such group."""
    described = admin.describe_groups([group])[group]
    if described.state == "Dead" and not admin.list_consumer_group_offsets(group):
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group!r} does not exist")
    return described


def progress_of(admin: Admin, described: GroupDescription) -> list[Progress]:
    """Every partition that the group has committed or reads now."""
    group = described.group_id
    committed = admin.list_consumer_group_offsets(group)
    readers = {partition: member for member in described.members for partition in member.assignment}
    partitions = sorted(committed.keys() | readers.keys())
    ends = end_offsets(admin, partitions)
    return [
        Progress(
            group,
            partition.topic,
            partition.partition,
            committed[partition].offset if partition in committed else None,
            ends.get(partition),
            readers.get(partition),
        )
        for partition in partitions
    ]


def end_offsets(admin: Admin, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Where partitions end; those of topics that were deleted are left out."""
    existing = {topic.name for topic in admin.list_topics(include_internal=True)}
    there = [partition for partition in partitions if partition.topic in existing]
    if not there:
        return {}
    return {partition: place.offset for partition, place in admin.list_offsets(dict.fromkeys(there, LATEST)).items()}


def or_dash(number: float | None) -> object:
    """A cell of a table."""
    return "-" if number is None else number


def progress_as_json(each: Progress) -> dict[str, Any]:
    """One partition of a group as a JSON object."""
    member = each.member
    return {
        "group": each.group,
        "topic": each.topic,
        "partition": each.partition,
        "committed": each.committed,
        "end": each.end,
        "lag": each.lag,
        "member_id": None if member is None else member.member_id,
        "host": None if member is None else member.client_host,
        "client_id": None if member is None else member.client_id,
    }


HEADINGS: Final = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "READ/S",
    "CLIENT-ID",
)

Looked = Sequence[tuple[Progress, int | None]]
"""Partitions, and the records per second that the group reads of each; None in the first update."""


class Show(Protocol):
    """Shows one update to the user."""

    def __call__(self, looked: Looked, /) -> None: ...


class ReadRates:
    """Records read per second between two updates."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str, int], tuple[float, int]] = {}

    def look(self, rows: Sequence[Progress], now_s: float) -> Looked:
        """The rows with their rates since the last update."""
        looked = [(row, self._rate(row, now_s)) for row in rows]
        self._before = {row[:3]: (now_s, row.committed) for row in rows if row.committed is not None}
        return looked

    def _rate(self, row: Progress, now_s: float) -> int | None:
        before = self._before.get(row[:3])
        if before is None or row.committed is None or now_s <= before[0]:
            return None
        return round((row.committed - before[1]) / (now_s - before[0]))


def watch_groups(admin: Admin, groups: Sequence[str], every_s: float, times: int | None, output: Format) -> None:
    """Update the table `times` times, or until interrupted."""
    rates = ReadRates()
    looks = 0
    with _showing(output) as show:
        while True:
            rows = [row for group in groups for row in progress_of(admin, describe_group(admin, group))]
            show(rates.look(rows, time.monotonic()))
            looks += 1
            if looks == times:
                return
            time.sleep(every_s)


@contextmanager
def _showing(output: Format) -> Iterator[Show]:
    if output is Format.JSON:
        yield _show_json
    elif not sys.stdout.isatty():
        yield _show_table
    else:
        with _terminal() as show:
            yield show


def _show_json(looked: Looked) -> None:
    print_json_lines({**progress_as_json(row), "read_per_s": rate} for row, rate in looked)
    sys.stdout.flush()


def _show_table(looked: Looked) -> None:
    print_table(HEADINGS, [cells(row, rate) for row, rate in looked])
    print_line()
    sys.stdout.flush()


@contextmanager
def _terminal() -> Iterator[Show]:
    from rich.live import Live

    with Live(auto_refresh=False) as live:

        def show(looked: Looked) -> None:
            rows = [cells(row, rate) for row, rate in looked]
            behind = {number for number, (row, _) in enumerate(looked) if row.lag}
            caption = f"{time.strftime('%H:%M:%S')}, Ctrl-C ends"
            live.update(live_table(HEADINGS, rows, caption=caption, marked=behind), refresh=True)

        yield show


def cells(row: Progress, rate: int | None) -> tuple[object, ...]:
    """One line of the table."""
    numbers = map(or_dash, (row.committed, row.end, row.lag, rate))
    return row.group, row.topic, row.partition, *numbers, "-" if row.member is None else row.member.client_id
