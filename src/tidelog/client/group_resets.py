"""New offsets of a group: a way to choose them, resolved to one offset per partition, and plans as text. Pure.

An offset outside a partition is moved to the nearest end of the partition, as Kafka's tool does. A plan is Kafka's too:
lines of `topic,partition,offset`.
"""

import csv
import io
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from tidelog.client.aio.consumer.offset_reset import parse_duration_ms
from tidelog.client.durations import parse_moment_ms
from tidelog.client.types import TopicPartition

Offsets = dict[TopicPartition, int]

RESETTABLE_STATES: Final = frozenset({"Empty", "Dead"})
"""States of a group without members. Commits of members would undo a reset at once."""

_DIGITS_MAX: Final = 18
_NAMES_MAX: Final = 5


class Way(StrEnum):
    """How the new offsets are chosen."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    """The committed offset; the latest where there is none."""
    OFFSET = "offset"
    SHIFT = "shift"
    """The committed offset plus a number of records."""
    TIME = "time"
    """The first record at or after a time; the latest offset where there is none."""
    DURATION = "duration"
    """As TIME, so long ago."""


class Bounds(NamedTuple):
    """The first and the last offset of each partition."""

    first: Mapping[TopicPartition, int]
    last: Mapping[TopicPartition, int]

    def clamp(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        """The offsets, moved inside their partitions."""
        return {each: min(max(offset, self.first[each]), self.last[each]) for each, offset in offsets.items()}


class Target(NamedTuple):
    """A way with its argument."""

    way: Way
    number: int = 0
    """An offset, a count of records or a time in milliseconds."""

    @property
    def time_ms(self) -> int | None:
        """The time whose offsets `resolve` needs; None if it needs none."""
        return self.number if self.way in (Way.TIME, Way.DURATION) else None

    def resolve(
        self, bounds: Bounds, committed: Mapping[TopicPartition, int], at_time: Mapping[TopicPartition, int]
    ) -> Offsets:
        """The new offset of every partition of `bounds`; `at_time` holds the offsets at `time_ms`, -1 for none.

        Raises ValueError if a shift has no committed offset to begin with.
        """
        partitions = sorted(bounds.first.keys() & bounds.last.keys())
        if self.way is Way.SHIFT:
            _check_committed(partitions, committed)
        return bounds.clamp({each: self._chosen(each, bounds, committed, at_time) for each in partitions})

    def _chosen(
        self,
        where: TopicPartition,
        bounds: Bounds,
        committed: Mapping[TopicPartition, int],
        at_time: Mapping[TopicPartition, int],
    ) -> int:
        match self.way:
            case Way.EARLIEST:
                return bounds.first[where]
            case Way.LATEST:
                return bounds.last[where]
            case Way.CURRENT:
                return committed.get(where, bounds.last[where])
            case Way.OFFSET:
                return self.number
            case Way.SHIFT:
                return committed[where] + self.number
            case Way.TIME | Way.DURATION:
                found = at_time.get(where, -1)
                return found if found >= 0 else bounds.last[where]


def parse_target(way: str, argument: str, now_ms: int) -> Target:
    """A target from the name of a way and its argument. Raises ValueError if one of them does not fit."""
    if way not in list(Way):
        raise ValueError(f"{way!r} is not one of {', '.join(Way)}")
    chosen = Way(way)
    if chosen is Way.TIME:
        return Target(chosen, max(0, parse_moment_ms(argument)))
    if chosen is Way.DURATION:
        return Target(chosen, max(0, now_ms - parse_duration_ms(argument)))
    if chosen in (Way.OFFSET, Way.SHIFT):
        return Target(chosen, _whole_number(argument, is_signed=chosen is Way.SHIFT))
    return Target(chosen)


def write_plan(targets: Mapping[TopicPartition, int]) -> str:
    """A plan as text."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((*each, offset) for each, offset in sorted(targets.items()))
    return text.getvalue()


def parse_plan(text: str) -> Offsets:
    """A plan from its text. Raises ValueError naming the line that is not one."""
    plan: Offsets = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if not row:
            continue
        if len(row) != 3 or not row[0].strip() or not (_is_offset(row[1]) and _is_offset(row[2])):
            raise ValueError(f"line {number}: {','.join(row)!r} is not topic,partition,offset")
        plan[TopicPartition(row[0].strip(), int(row[1]))] = int(row[2])
    if not plan:
        raise ValueError("there are no lines of topic,partition,offset")
    return plan


def _check_committed(partitions: Collection[TopicPartition], committed: Mapping[TopicPartition, int]) -> None:
    missing = [str(each) for each in partitions if each not in committed]
    if missing:
        named = ", ".join(missing[:_NAMES_MAX]) + (", …" if len(missing) > _NAMES_MAX else "")
        raise ValueError(f"a shift needs committed offsets; there are none for {named}")


def _whole_number(text: str, *, is_signed: bool) -> int:
    sign, digits = ("-", text.strip()[1:]) if is_signed and text.strip()[:1] == "-" else ("", text.strip())
    if not _is_offset(digits):
        raise ValueError(f"{text!r} is not a whole number" + ("" if is_signed else " of 0 or more"))
    return int(sign + digits)


def _is_offset(text: str) -> bool:
    digits = text.strip()
    return digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX
