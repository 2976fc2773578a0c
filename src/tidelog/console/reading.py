"""Reading records for a page: a bounded number, from chosen places, forwards or backwards, with or without a filter.

A page shows the records of several partitions by time. Where it continues is a `Cursor`: an offset for each partition.
Work is bounded by records, bytes and time, whatever the topic holds; a search that stops early says how far it came.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tidelog.client.aio.consumer.types import ConsumerRecord
from tidelog.client.types import TopicPartition
from tidelog.console.cluster_view import ClusterView

SCANNED_MAX: Final = 20_000
SECONDS_MAX: Final = 2.0
_POLL_S: Final = 0.3
_WINDOW_MAX: Final = 1 << 40
_FILTER_CHARACTERS_MAX: Final = 500
_WORD: Final = re.compile(r'(-?)(?:"([^"]*)"|([^\s"]+))')
_CONSUMER: Final[Mapping[str, Any]] = {
    "max.poll.records": 1000,
    "fetch.max.wait.ms": 20,
    "max.partition.fetch.bytes": 256 * 1024,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}

Record = ConsumerRecord[bytes, bytes]
Cursor = Mapping[int, int]
Matches = Callable[[Record], bool]


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


class Found(NamedTuple):
    """The records of a page, and where older and newer ones begin; None if there are none."""

    records: Sequence[Record]
    older: Cursor | None
    newer: Cursor | None
    scanned: int


async def read_forward(view: ClusterView, topic: str, starts: Cursor, bounds: Bounds, count: int) -> Found:
    """The first `count` records by time from `starts` on."""
    starts = bounds.clamp(starts)
    done = await _read(view, topic, starts, bounds.end, _everything, of_each=count)
    chosen = sorted(done.records, key=_by_time)[:count]
    newer = done.reached
    for record in _without(done.records, chosen):
        newer[record.partition] = min(newer[record.partition], record.offset)
    has_newer = any(newer[each] < bounds.end[each] for each in newer)
    has_older = any(starts[each] > bounds.first[each] for each in starts)
    return Found(chosen, starts if has_older else None, newer if has_newer else None, done.scanned)


async def read_backward(view: ClusterView, topic: str, uppers: Cursor, bounds: Bounds, count: int) -> Found:
    """The last `count` records by time before `uppers`, newest first."""
    uppers = bounds.clamp(uppers)
    window = count
    while True:
        starts = {each: max(bounds.first[each], upper - window) for each, upper in uppers.items()}
        done = await _read(view, topic, starts, uppers, _everything)
        is_at_start = all(starts[each] == bounds.first[each] for each in starts)
        if len(done.records) >= count or is_at_start or done.scanned >= SCANNED_MAX or window > _WINDOW_MAX:
            break
        window *= 16  # compaction and transaction markers leave gaps between offsets
    chosen = sorted(done.records, key=_by_time, reverse=True)[:count]
    older = dict(starts)
    for record in _without(done.records, chosen):
        older[record.partition] = max(older[record.partition], record.offset + 1)
    has_older = any(older[each] > bounds.first[each] for each in older)
    has_newer = any(uppers[each] < bounds.end[each] for each in uppers)
    return Found(chosen, older if has_older else None, uppers if has_newer else None, done.scanned)


async def search(view: ClusterView, topic: str, starts: Cursor, bounds: Bounds, count: int, matches: Matches) -> Found:
    """The first `count` records from `starts` on that match, or those that the bounded work finds."""
    starts = bounds.clamp(starts)
    done = await _read(view, topic, starts, bounds.end, matches, in_all=count)
    chosen = sorted(done.records, key=_by_time)[:count]
    newer = done.reached
    for record in _without(done.records, chosen):
        newer[record.partition] = min(newer[record.partition], record.offset)
    has_newer = any(newer[each] < bounds.end[each] for each in newer)
    return Found(chosen, None, newer if has_newer else None, done.scanned)


class _Read(NamedTuple):
    records: list[Record]
    reached: dict[int, int]
    scanned: int


async def _read(
    view: ClusterView,
    topic: str,
    starts: Cursor,
    stops: Cursor,
    matches: Matches,
    *,
    of_each: int | None = None,
    in_all: int | None = None,
) -> _Read:
    """Matching records of [start, stop) of each partition, until there are enough of each partition or in all."""
    done = _Read([], dict(starts), 0)
    unread = {each for each, start in starts.items() if start < stops[each]}
    if not unread:
        return done
    loop = asyncio.get_running_loop()
    scanned = 0
    matched: Counter[int] = Counter()
    async with view.consumer(**_CONSUMER) as consumer:
        await consumer.assign([TopicPartition(topic, each) for each in sorted(unread)])
        for each in unread:
            consumer.seek(TopicPartition(topic, each), starts[each])
        deadline = loop.time() + SECONDS_MAX
        while unread and scanned < SCANNED_MAX and loop.time() < deadline:
            polled = await consumer.poll(_POLL_S)
            for record in polled:
                if record.offset < stops[record.partition]:
                    scanned += 1
                    if matches(record):
                        done.records.append(record)
                        matched[record.partition] += 1
            for where, place in polled.next_offsets.items():
                index, stop = where.partition, stops[where.partition]
                done.reached[index] = min(max(done.reached[index], place.offset), stop)
                if place.offset >= stop or (of_each is not None and matched[index] >= of_each):
                    unread.discard(index)
                    consumer.pause(where)
            if in_all is not None and len(done.records) >= in_all:
                break
    return done._replace(scanned=scanned)


def _everything(_record: Record) -> bool:
    return True


def _without(records: Iterable[Record], chosen: Iterable[Record]) -> list[Record]:
    kept = {(record.partition, record.offset) for record in chosen}
    return [record for record in records if (record.partition, record.offset) not in kept]


def _by_time(record: Record) -> tuple[int, int, int]:
    return record.timestamp, record.partition, record.offset


class FilterError(ValueError):
    """A filter that cannot be used."""


def make_filter(text: str, where: str, key: str) -> Matches:
    """Records whose key, value or headers contain all words of `text`, and whose key is `key` if one is given.

    `"two words"` are found as they are; `-word` leaves records out that contain it. Case does not matter. Words are
    matched in bytes, without decoding, at a cost that no text can drive up: a search reads thousands of records.
    Raises FilterError.
    """
    if len(text) > _FILTER_CHARACTERS_MAX:
        raise FilterError(f"the filter has {len(text)} characters; at most {_FILTER_CHARACTERS_MAX} are allowed")
    wanted_key = key.encode() if key else None
    words = [(bool(match[1]), (match[2] or match[3] or "").lower().encode()) for match in _WORD.finditer(text)]
    parts = _PARTS.get(where, _PARTS["all"])

    def matches(record: Record) -> bool:
        if wanted_key is not None and (record.key is None or bytes(record.key) != wanted_key):
            return False
        if not words:
            return True
        texts = [bytes(part).lower() for part in parts(record)]
        return all(any(word in each for each in texts) is not is_left_out for is_left_out, word in words)

    return matches


def _headers_of(record: Record) -> Iterable[bytes]:
    for name, value in record.headers:
        yield name.encode()
        if value is not None:
            yield value


_PARTS: Final[Mapping[str, Callable[[Record], Iterable[bytes]]]] = {
    "key": lambda record: () if record.key is None else (record.key,),
    "value": lambda record: () if record.value is None else (record.value,),
    "headers": _headers_of,
    "all": lambda record: (
        *(() if record.key is None else (record.key,)),
        *(() if record.value is None else (record.value,)),
        *_headers_of(record),
    ),
}
