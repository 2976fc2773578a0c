"""Which offsets of a topic to read next, and which of the records that were read come next by time. Pure.

A scan merges the partitions of a topic by time, newest or oldest first, and keeps the records that match. It reads in
steps: each is a span of offsets of some partitions, those that are behind the others in time. Spans grow while records
are small and sparse, and shrink when one could not be read whole. A scan ends when it is certain of as many records as
were wanted, when nothing is left, or when it has read as much as it may; `Found.onward` is where another one goes on.

A match is certain once no unread record can come before it, provided that time does not fall within a partition. Where
it does, records come as late as those in front of them: none is left out and none comes twice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.client.aio.consumer.types import ConsumerRecord

RECORDS_MAX: Final = 20_000
"""What one scan reads at most, but for the span that takes it there."""
BYTES_MAX: Final = 64 * 1024 * 1024
STEP_RECORDS_MAX: Final = 5_000
STEP_BYTES_MAX: Final = 16 * 1024 * 1024
SEARCH_FIRST: Final = 500
"""A search begins with so many records of each partition: matches are rarer than records."""
_GROWTH: Final = 4
_GAPS_GROWTH: Final = 16
_GAPS_MAX: Final = 1 << 40
_RECORD_OVERHEAD_BYTES: Final = 70

Record = ConsumerRecord[bytes, bytes]
Cursor = Mapping[int, int]
Matches = Callable[[Record], bool]
Rank = tuple[int, ...]
"""What records are ordered by; the empty one comes before all others."""


class CursorError(ValueError):
    """A text that is not a cursor."""


def write_cursor(cursor: Cursor) -> str:
    """`0:17,1:42`."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(cursor.items()))


def parse_cursor(text: str) -> dict[int, int]:
    """The offsets of partitions that a text names. Raises CursorError."""
    found: dict[int, int] = {}
    for part in text.split(",") if text else ():
        partition, colon, offset = part.partition(":")
        if not colon or not all(each.isascii() and each.isdigit() and len(each) < 20 for each in (partition, offset)):
            raise CursorError(f"{part!r} is not PARTITION:OFFSET")
        found[int(partition)] = int(offset)
    return found


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first offsets and the ends of the partitions that are read."""

    first: Cursor
    end: Cursor

    def clamp(self, cursor: Cursor) -> dict[int, int]:
        """The cursor, moved inside the partitions."""
        return {
            each: min(max(offset, self.first[each]), self.end[each])
            for each, offset in cursor.items()
            if each in self.first and each in self.end
        }


class Span(NamedTuple):
    """Offsets to read: from `start` up to `stop`, which is not part of it."""

    start: int
    stop: int


class Found(NamedTuple):
    """The records of a page in their order, and what of the topic was looked at for them, in offsets."""

    records: Sequence[Record] = ()
    onward: Cursor | None = None
    """Where the next page in the same direction begins; None if nothing is left."""
    searched: int = 0
    left: int = 0


class _Match(NamedTuple):
    rank: Rank
    """That of the record, or of a later one by time that stands before it in its partition."""
    place: int
    record: Record


@dataclass(slots=True)
class _Partition:
    """How far one partition was read, and how much of it to read next."""

    begin: int
    limit: int
    position: int
    wanted: int
    edge: Rank = ()
    """No unread record comes before this one."""
    gaps: int = 1
    """Offsets for each record: compaction and markers leave gaps."""

    @property
    def has_rest(self) -> bool:
        return self.position != self.limit

    def span(self, records_max: int) -> Span:
        """The next offsets, with about so many records at most."""
        length = max(1, min(self.wanted, records_max)) * self.gaps
        if self.limit < self.position:
            return Span(max(self.limit, self.position - length), self.position)
        return Span(self.position, min(self.limit, self.position + length))

    def learn(self, span: Span, records: int, size_bytes: int) -> None:
        """Choose the length of the next span by what was in this one."""
        gaps = (span.stop - span.start) // records if records else _GAPS_MAX
        self.gaps = max(1, min(gaps, self.gaps * _GAPS_GROWTH))
        self.wanted = _fitting(self.wanted * _GROWTH, records, size_bytes)

    def shrink(self, records: int, size_bytes: int) -> None:
        """The span was too long to be read whole."""
        self.gaps = max(1, self.gaps // _GAPS_GROWTH)
        self.wanted = _fitting(self.wanted // _GROWTH, records, size_bytes)


def _fitting(wanted: int, records: int, size_bytes: int) -> int:
    """How many records to read in one step, where so many took so many bytes."""
    fitting = STEP_BYTES_MAX * records // size_bytes if size_bytes else STEP_RECORDS_MAX
    return max(1, min(wanted, fitting, STEP_RECORDS_MAX))


class Scan:
    """One scan. Read `spans`, hand each to `take`, until there are none or it takes too long; then ask `found`."""

    def __init__(
        self, begin: Cursor, bounds: Bounds, count: int, matches: Matches | None = None, *, newest_first: bool
    ) -> None:
        limits = bounds.first if newest_first else bounds.end
        defaults = bounds.end if newest_first else bounds.first
        begin = {**defaults, **bounds.clamp(begin)}
        first = count if matches is None else max(count, SEARCH_FIRST)
        # Something of each partition must be read before any record is certain; leave half for what follows.
        first = max(1, min(first, RECORDS_MAX // (2 * max(1, len(begin)))))
        self._parts = {each: _Partition(at, limits[each], at, first) for each, at in begin.items()}
        self._count = count
        self._matches_record = matches
        self._sign = -1 if newest_first else 1
        self._matches: list[_Match] = []
        self._records_read = 0
        self._bytes_read = 0
        self._has_moved = False

    @property
    def partitions(self) -> Sequence[int]:
        """The partitions of which something may be read."""
        return sorted(each for each, part in self._parts.items() if part.has_rest)

    @property
    def has_moved(self) -> bool:
        """Whether anything was read: a scan that ends before would begin at the same place again."""
        return self._has_moved

    def spans(self) -> dict[int, Span]:
        """What to read next; nothing once the scan is over."""
        rest = [part for part in self._parts.values() if part.has_rest]
        is_used_up = self._records_read >= RECORDS_MAX or self._bytes_read >= BYTES_MAX
        if not rest or (is_used_up and self._has_moved):
            return {}
        certain = self._certain()
        if len(certain) >= self._count:
            return {}
        behind = rest
        if len(self._matches) >= self._count:
            last = sorted(self._matches)[self._count - 1].rank
            behind = [part for part in rest if part.edge < last]
        middle = sorted(part.edge for part in behind)[(len(behind) - 1) // 2]
        chosen = {each: part for each, part in self._parts.items() if part.has_rest and part.edge <= middle}
        share = max(1, RECORDS_MAX - self._records_read) // len(chosen)
        return {each: part.span(share) for each, part in chosen.items()}

    def take(self, partition: int, span: Span, records: Sequence[Record], reached: int) -> None:
        """What was read of a span, in order, and up to which offset.

        Of a span that was not read whole, a scan backwards can use nothing: what is missing comes first.
        """
        part = self._parts[partition]
        size_bytes = sum(size_of(record) for record in records)
        self._records_read += len(records)
        self._bytes_read += size_bytes
        position = span.start if self._sign < 0 else min(reached, span.stop)
        is_lost = reached < span.stop and (self._sign < 0 or position <= span.start)
        if is_lost:
            part.shrink(len(records), size_bytes)
            return
        for record in records if self._sign > 0 else reversed(records):
            part.edge = max(part.edge, self._rank(record))
            if self._matches_record is None or self._matches_record(record):
                self._matches.append(_Match(part.edge, self._sign * record.offset, record))
        part.position = position
        part.learn(span, len(records), size_bytes)
        self._has_moved = True

    def found(self) -> Found:
        """The records that come first, and where to go on."""
        made = self._found(self._certain()[: self._count])
        if not made.records and not made.searched and self._matches:
            # Too many partitions to be certain within one scan: going on is worth more than the exact order.
            made = self._found(sorted(self._matches)[: self._count])
        return made

    def _found(self, chosen: Sequence[_Match]) -> Found:
        onward = {each: part.position for each, part in self._parts.items()}
        for match in sorted(self._left_out(chosen), reverse=True):
            offset = match.record.offset
            onward[match.record.partition] = offset if self._sign > 0 else offset + 1
        searched = sum(abs(part.begin - onward[each]) for each, part in self._parts.items())
        left = sum(abs(part.limit - onward[each]) for each, part in self._parts.items())
        by_time = sorted((match.record for match in chosen), key=self._rank)
        return Found(by_time, onward if left else None, searched, left)

    def _left_out(self, chosen: Sequence[_Match]) -> Iterator[_Match]:
        last = chosen[-1] if chosen else None
        return (match for match in self._matches if last is None or match > last)

    def _certain(self) -> list[_Match]:
        """The matches that no unread record can come before, in order."""
        edges = [part.edge for part in self._parts.values() if part.has_rest]
        least = min(edges, default=None)
        return sorted(match for match in self._matches if least is None or match.rank <= least)

    def _rank(self, record: Record) -> Rank:
        return self._sign * record.timestamp, self._sign * record.partition, self._sign * record.offset


def size_of(record: Record) -> int:
    """About how many bytes a record takes."""
    return _RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
