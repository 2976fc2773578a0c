"""Reading records for a page: a bounded number, from chosen places, forwards or backwards, with or without a filter.

`scan` decides what to read. Work is bounded by records, bytes and time, whatever the topic holds; a search that stops
early says how far it came.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.aio.consumer.consumer import AsyncConsumer
from tidelog.client.types import TopicPartition
from tidelog.console.cluster_view import API_TIMEOUT_MS, ClusterView
from tidelog.console.scan import (
    RECORDS_MAX,
    STEP_BYTES_MAX,
    Bounds,
    Cursor,
    Found,
    Matches,
    Record,
    Scan,
    Span,
    size_of,
)

SECONDS_MAX: Final = 2.0
"""After this a scan begins no further step."""
_STUCK_S: Final = API_TIMEOUT_MS / 1000
"""A step that takes so long is given up."""
_POLL_S: Final = 0.3
_FILTER_CHARACTERS_MAX: Final = 500
_WORD: Final = re.compile(r'(-?)(?:"([^"]*)"|([^\s"]+))')
_CONSUMER: Final[Mapping[str, Any]] = {
    "max.poll.records": 1000,
    "fetch.max.wait.ms": 20,
    "max.partition.fetch.bytes": 256 * 1024,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}


async def read(
    view: ClusterView,
    topic: str,
    begin: Cursor,
    bounds: Bounds,
    count: int,
    matches: Matches | None = None,
    *,
    newest_first: bool,
) -> Found:
    """The first `count` records by time from `begin` on, or the last before it, that match; fewer if work ends."""
    scan = Scan(begin, bounds, count, matches, newest_first=newest_first)
    if not scan.partitions:
        return scan.found()
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    async with view.consumer(**_CONSUMER) as consumer:
        assigned = [TopicPartition(topic, each) for each in scan.partitions]
        await consumer.assign(assigned)
        consumer.pause(*assigned)
        while spans := scan.spans():
            await _take_step(consumer, topic, spans, scan, began_at + SECONDS_MAX + _STUCK_S)
            now = loop.time()
            if now > began_at + SECONDS_MAX and (scan.has_moved or now > began_at + SECONDS_MAX + _STUCK_S):
                break
    return scan.found()


async def _take_step(
    consumer: "AsyncConsumer[bytes, bytes]", topic: str, spans: Mapping[int, Span], scan: Scan, until: float
) -> None:
    """Read spans, all of them at the same time, and hand them to the scan."""
    loop = asyncio.get_running_loop()
    read_of: dict[int, list[Record]] = {each: [] for each in spans}
    reached = {each: span.start for each, span in spans.items()}
    records = size_bytes = 0
    unread = set(spans)
    for each, span in spans.items():
        consumer.seek(TopicPartition(topic, each), span.start)
    consumer.resume(*(TopicPartition(topic, each) for each in spans))
    while unread and records < RECORDS_MAX and size_bytes < 2 * STEP_BYTES_MAX and loop.time() < until:
        polled = await consumer.poll(_POLL_S)
        for record in polled:
            span = spans[record.partition]
            if span.start <= record.offset < span.stop:
                read_of[record.partition].append(record)
                records += 1
                size_bytes += size_of(record)
        for where, place in polled.next_offsets.items():
            index = where.partition
            reached[index] = max(reached[index], place.offset)
            if place.offset >= spans[index].stop:
                unread.discard(index)
                consumer.pause(where)
    consumer.pause(*(TopicPartition(topic, each) for each in unread))
    for each, span in spans.items():
        scan.take(each, span, read_of[each], reached[each])


async def bounds_of(view: ClusterView, topic: str, numbers: list[int]) -> Bounds:
    """Where partitions begin and end."""
    wanted = [TopicPartition(topic, each) for each in numbers]
    first, end = await asyncio.gather(view.offsets_at(wanted, EARLIEST), view.offsets_at(wanted, LATEST))
    both = [each for each in wanted if each in first and each in end]
    return Bounds({each.partition: first[each] for each in both}, {each.partition: end[each] for each in both})


async def offsets_at_time(view: ClusterView, topic: str, bounds: Bounds, time_ms: int) -> dict[int, int]:
    """The first offsets at or after a time; the end where there is no such record."""
    found = await view.offsets_at([TopicPartition(topic, each) for each in bounds.end], time_ms)
    places = {where.partition: offset for where, offset in found.items()}
    return {each: places[each] if places.get(each, -1) >= 0 else end for each, end in bounds.end.items()}


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
