"""Scans of the messages page beside a sorted list: nothing is left out, nothing comes twice, the order is by time."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.client.aio.consumer.types import ConsumerRecord, TimestampType
from tidelog.console import scan as scan_module
from tidelog.console.scan import Bounds, Record, Scan

PLENTY = 40
"""So many records are enough to be certain of one in each step."""
STEP_RECORDS_MAX = 12


class Topic(NamedTuple):
    """The records of each partition, in order of offsets, which have gaps."""

    partitions: dict[int, list[Record]]
    bounds: Bounds
    is_ordered: bool


def record(partition: int, offset: int, timestamp: int, is_match: bool) -> Record:
    value = b"needle" if is_match else b"hay"
    return ConsumerRecord("t", partition, offset, timestamp, None, value, (), TimestampType.CREATE_TIME, 0)


def is_needle(each: Record) -> bool:
    return each.value == b"needle"


@st.composite
def topics(draw: st.DrawFn) -> Topic:
    is_ordered = draw(st.booleans())
    partitions, first, end = {}, {}, {}
    for index in range(draw(st.integers(1, 4))):
        offset = first[index] = draw(st.integers(0, 5))
        at = draw(st.integers(0, 100))
        rows = []
        for gap, step, is_match in draw(
            st.lists(st.tuples(st.sampled_from([0] * 6 + [1, 200]), st.integers(0, 9), st.booleans()), max_size=60)
        ):
            offset += gap
            at = at + step if is_ordered else draw(st.integers(0, 300))
            rows.append(record(index, offset, at, is_match))
            offset += 1
        partitions[index], end[index] = rows, offset + draw(st.integers(0, 3))
    return Topic(partitions, Bounds(first, end), is_ordered)


def read_all(topic: Topic, count: int, *, is_search: bool, newest_first: bool, read_max: int) -> list[list[Record]]:
    """All pages, each from where the one before it ended; a step reads at most `read_max` records."""
    matches = is_needle if is_search else None
    cursor = topic.bounds.end if newest_first else topic.bounds.first
    whole = sum(topic.bounds.end[each] - topic.bounds.first[each] for each in topic.bounds.end)
    pages, searched = [], 0
    while True:
        scan = Scan(cursor, topic.bounds, count, matches, newest_first=newest_first)
        read = 0
        while spans := scan.spans():
            left = read_max
            for index, span in spans.items():
                inside = [each for each in topic.partitions[index] if span.start <= each.offset < span.stop]
                taken, left = inside[:left], left - len(inside[:left])
                read += len(taken)
                reached = span.stop if len(taken) == len(inside) else inside[len(taken)].offset
                scan.take(index, span, taken, reached)
        found = scan.found()
        assert read <= scan_module.RECORDS_MAX + read_max + len(topic.partitions), "one page has read too much"
        assert len(found.records) <= count
        searched += found.searched
        assert searched + found.left == whole
        pages.append(list(found.records))
        if found.onward is None:
            return pages
        assert found.searched, "a page that moves nothing would come again and again"
        cursor = found.onward


@settings(max_examples=examples(300), deadline=None)
@given(
    topics(),
    st.integers(1, 30),
    st.booleans(),
    st.booleans(),
    st.sampled_from([2, 10, 1000]),
    st.sampled_from([2, 6, PLENTY]),
)
def test_pages_hold_every_match_once_in_the_order_of_time(
    topic: Topic, count: int, is_search: bool, newest_first: bool, read_max: int, records_max: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_module, "RECORDS_MAX", records_max)
        patch.setattr(scan_module, "STEP_RECORDS_MAX", STEP_RECORDS_MAX)
        patch.setattr(scan_module, "SEARCH_FIRST", 5)
        pages = read_all(topic, count, is_search=is_search, newest_first=newest_first, read_max=read_max)
    sign = -1 if newest_first else 1
    everything = [each for rows in topic.partitions.values() for each in rows if not is_search or is_needle(each)]
    expected = sorted(everything, key=lambda each: (sign * each.timestamp, sign * each.partition, sign * each.offset))
    seen = [each for page in pages for each in page]
    assert len(seen) == len(set(seen))
    assert set(seen) == set(expected)
    for page in pages:
        assert page == sorted(page, key=lambda each: sign * each.timestamp)
    if topic.is_ordered and min(read_max, records_max) >= PLENTY:
        assert seen == expected
