"""The C scanner returns what the Python one returns, and both accept what the decoder accepts, whatever the bytes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.property.records.strategies import record_lists, timestamps
from tests.unit.records.scans import SCANS
from tidelog.records.errors import CorruptRecordError
from tidelog.records.record import Record, decode_records, encode_record
from tidelog.records.scanner import TIMESTAMP_MAX, TIMESTAMP_MIN, Fault, scan_in_python

some = settings(max_examples=examples(300), deadline=None)
ANY_TIME = (TIMESTAMP_MIN, TIMESTAMP_MAX)
needs_c = pytest.mark.skipif("c" not in SCANS, reason="the C module was not built")

int64s = st.one_of(st.integers(-10, 10), st.integers(TIMESTAMP_MIN, TIMESTAMP_MAX), timestamps)
edits = st.lists(
    st.tuples(
        st.integers(0, 2**16),
        st.sampled_from(["set", "insert", "delete"]),
        st.one_of(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFE, 0xFF]), st.integers(0, 255)),
    ),
    max_size=4,
)


def encoded(records: list[Record]) -> bytes:
    base = records[0].timestamp if records else 0
    return b"".join(
        encode_record(timestamp - base, offset, key, value, headers)
        for offset, timestamp, key, value, headers in records
    )


def edited(data: bytes, changes: list[tuple[int, str, int]]) -> bytes:
    changed = bytearray(data)
    for where, how, byte in changes:
        place = where % (len(changed) + 1)
        if how == "insert":
            changed.insert(place, byte)
        elif place < len(changed):
            if how == "set":
                changed[place] = byte
            else:
                del changed[place]
    return bytes(changed)


@needs_c
@some
@given(
    data=st.one_of(
        st.binary(max_size=60), st.builds(edited, record_lists(max_size=6).map(encoded), edits), st.binary().map(bytes)
    ),
    position=st.integers(0, 20),
    index=st.integers(0, 3),
    count=st.one_of(st.integers(-1, 8), st.just(2**31 - 1)),
    base_timestamp=int64s,
    limits=st.tuples(int64s, int64s),
    needs_key=st.booleans(),
    max_timestamp=int64s,
    headers_max=st.one_of(st.integers(0, 5), st.just(2**62)),
)
def test_the_c_scanner_equals_the_python_one(
    data: bytes,
    position: int,
    index: int,
    count: int,
    base_timestamp: int,
    limits: tuple[int, int],
    needs_key: bool,
    max_timestamp: int,
    headers_max: int,
) -> None:
    place = (min(position, len(data)), index, count)
    arguments: tuple[Any, ...] = (*place, base_timestamp, *sorted(limits), needs_key, max_timestamp, headers_max)
    expected = scan_in_python(data, *arguments)
    for buffer in (data, bytearray(data), memoryview(data)):
        assert SCANS["c"](buffer, *arguments) == expected


@some
@given(record_lists(max_size=6).map(encoded), edits)
def test_what_a_scan_accepts_is_what_the_decoder_accepts(records: bytes, changes: list[tuple[int, str, int]]) -> None:
    data = edited(records, changes)
    count = max(1, len(changes))
    try:
        decoded = list(decode_records(data, count, 0, 0, None))
        is_readable = all(TIMESTAMP_MIN <= record.timestamp <= TIMESTAMP_MAX for record in decoded)
        is_even = [record.offset for record in decoded] == list(range(count))
    except CorruptRecordError:
        is_readable = is_even = False
    for scan in SCANS.values():
        position, index, max_timestamp, fault = scan(data, 0, 0, count, 0, *ANY_TIME, False, -1, 2**62)
        if is_readable and is_even:
            times = [record.timestamp for record in decoded]
            assert (position, index, max_timestamp, fault) == (len(data), count, max(-1, *times), Fault.NONE)
        else:
            assert fault != Fault.NONE or position != len(data)
