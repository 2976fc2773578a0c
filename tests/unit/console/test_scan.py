"""Cursors of the messages page, and how much one scan asks for."""

import pytest

from tidelog.client.aio.consumer.types import ConsumerRecord, TimestampType
from tidelog.console.scan import (
    BYTES_MAX,
    RECORDS_MAX,
    STEP_BYTES_MAX,
    Bounds,
    CursorError,
    Scan,
    parse_cursor,
    write_cursor,
)


def test_cursors_are_written_and_read_and_kept_inside_their_partitions():
    cursor = {3: 17, 0: 5}
    assert write_cursor(cursor) == "0:5,3:17"
    assert parse_cursor("0:5,3:17") == cursor
    assert Bounds({0: 10, 3: 0}, {0: 20, 3: 4}).clamp({**cursor, 9: 1}) == {0: 10, 3: 4}


@pytest.mark.parametrize("text", ["x", "1", "1:", "1:x", "-1:2", "1:2,", "1:" + "9" * 20])
def test_anything_else_is_no_cursor(text):
    with pytest.raises(CursorError):
        parse_cursor(text)


def records_of(partition, span, value=b"hay"):
    return [
        ConsumerRecord("t", partition, each, each, None, value, (), TimestampType.CREATE_TIME, 0)
        for each in range(span.start, span.stop)
    ]


def read_whole(scan, value=b"hay"):
    """Run a scan on partitions whose every offset has a record; returns the lengths of its spans."""
    lengths = []
    while spans := scan.spans():
        for index, span in spans.items():
            lengths.append(span.stop - span.start)
            scan.take(index, span, records_of(index, span, value), span.stop)
    return lengths


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("partitions", [1, 3, 40])
def test_a_search_in_vain_reads_no_more_than_its_limit(newest_first, partitions):
    bounds = Bounds(dict.fromkeys(range(partitions), 0), dict.fromkeys(range(partitions), 1_000_000))
    scan = Scan({}, bounds, 25, lambda _: False, newest_first=newest_first)
    assert RECORDS_MAX * 0.9 <= sum(read_whole(scan)) <= RECORDS_MAX + partitions
    found = scan.found()
    assert found.onward is not None
    assert found.searched + found.left == partitions * 1_000_000


def test_spans_become_shorter_where_records_are_large():
    """A step is cut off when it has read too much; what it read of the span is lost to a scan backwards."""
    value = bytes(1 << 20)
    scan = Scan({}, Bounds({0: 0}, {0: 1_000}), 8, lambda _: False, newest_first=True)
    (span,) = scan.spans().values()
    cut_at = span.start + 2 * STEP_BYTES_MAX // len(value)
    assert cut_at < span.stop
    scan.take(0, span, records_of(0, span._replace(stop=cut_at), value), cut_at)
    lengths = read_whole(scan, value)
    assert max(lengths) <= STEP_BYTES_MAX // len(value)
    assert sum(lengths) <= (BYTES_MAX - STEP_BYTES_MAX) // len(value)
    assert scan.found().searched == sum(lengths)


def test_a_page_without_a_filter_reads_little_more_than_it_shows():
    bounds = Bounds({0: 0, 1: 0}, {0: 1_000_000, 1: 1_000_000})
    scan = Scan({}, bounds, 25, newest_first=True)
    assert read_whole(scan) == [25, 25]
    assert len(scan.found().records) == 25
