"""The new offsets of a group: the options of `tidelog group reset` converted to an offset per partition.

Each option is a function of the partitions and their offsets. An offset outside a partition is moved to its nearest
end, as Kafka's tool does.
"""

import csv
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tidelog.cli.errors import CommandError
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.aio.consumer.offset_reset import parse_duration_ms
from tidelog.client.types import TopicPartition

Offsets = dict[TopicPartition, int]


class Bounds(NamedTuple):
    """The first and the last offset of each partition."""

    first: Mapping[TopicPartition, int]
    last: Mapping[TopicPartition, int]

    def clamp(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        """The offsets, moved inside their partitions."""
        return {each: min(max(offset, self.first[each]), self.last[each]) for each, offset in offsets.items()}


class Wanted(NamedTuple):
    """The options for the new offsets; exactly one must be given."""

    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_offset: int | None = None
    shift_by: int | None = None
    by_duration: str | None = None
    to_datetime: str | None = None
    from_file: Path | None = None

    def check(self) -> None:
        """Raise CommandError unless one of them is given."""
        given = [name for name, value in self._asdict().items() if value is not None and value is not False]
        if len(given) != 1:
            options = ", ".join("--" + name.replace("_", "-") for name in self._fields)
            raise CommandError(f"give exactly one of {options}")


def find_targets(
    admin: Admin, wanted: Wanted, committed: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]
) -> Offsets:
    """The new offset of each partition."""
    if wanted.from_file is not None:
        partitions = (planned := read_plan(wanted.from_file)).keys()
    bounds = Bounds(*(_offsets_at(admin, partitions, time_) for time_ in (EARLIEST, LATEST)))
    ways: list[tuple[bool, Callable[[], Mapping[TopicPartition, int]]]] = [
        (wanted.to_earliest, lambda: bounds.first),
        (wanted.to_latest, lambda: bounds.last),
        (wanted.to_current, lambda: {each: committed.get(each, bounds.last[each]) for each in partitions}),
        (wanted.to_offset is not None, lambda: dict.fromkeys(partitions, wanted.to_offset or 0)),
        (wanted.shift_by is not None, lambda: _shifted(partitions, committed, wanted.shift_by or 0)),
        (wanted.from_file is not None, lambda: planned),
    ]
    for is_chosen, way in ways:
        if is_chosen:
            return bounds.clamp(way())
    return bounds.clamp(_by_time(admin, partitions, _time_ms(wanted), bounds))


def _shifted(
    partitions: Collection[TopicPartition], committed: Mapping[TopicPartition, int], shift: int
) -> Mapping[TopicPartition, int]:
    missing = [str(each) for each in partitions if each not in committed]
    if missing:
        raise CommandError(f"--shift-by needs committed offsets; there are none for {', '.join(missing)}")
    return {each: committed[each] + shift for each in partitions}


def _time_ms(wanted: Wanted) -> int:
    if wanted.by_duration is not None:
        try:
            return time.time_ns() // 1_000_000 - parse_duration_ms(wanted.by_duration)
        except ValueError as error:
            raise CommandError(f"--by-duration: {error}") from None
    text = wanted.to_datetime or ""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"--to-datetime {text!r} is not ISO 8601, such as 2026-01-31T12:00:00Z") from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _by_time(
    admin: Admin, partitions: Collection[TopicPartition], time_ms: int, bounds: Bounds
) -> Mapping[TopicPartition, int]:
    """The first record at or after the time; the end, where there is none."""
    found = _offsets_at(admin, partitions, max(0, time_ms))
    return {each: offset if offset >= 0 else bounds.last[each] for each, offset in found.items()}


def _offsets_at(admin: Admin, partitions: Collection[TopicPartition], time_ms: int) -> Offsets:
    return {each: place.offset for each, place in admin.list_offsets(dict.fromkeys(partitions, time_ms)).items()}


def read_plan(path: Path) -> Offsets:
    """A plan as `--export` writes it: lines of topic,partition,offset."""
    plan: Offsets = {}
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.reader(file), 1):
            if not row:
                continue
            if len(row) != 3 or not (_is_number(row[1]) and _is_number(row[2])):
                raise CommandError(f"{path}, line {number}: {','.join(row)!r} is not topic,partition,offset")
            plan[TopicPartition(row[0].strip(), int(row[1]))] = int(row[2])
    if not plan:
        raise CommandError(f"{path} has no lines of topic,partition,offset")
    return plan


def _is_number(text: str) -> bool:
    return text.strip().isascii() and text.strip().isdigit()
