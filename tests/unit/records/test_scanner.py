"""What a scan of records returns, from the Python function and from the C function where it was built."""

from typing import Any

import pytest

from tests.unit.records.golden import GOLDEN, RECORDS
from tests.unit.records.scans import SCANS, Scan
from tidelog.records.batch import record_data
from tidelog.records.header import read_header
from tidelog.records.record import encode_record
from tidelog.records.scanner import RECORD_BYTES_MIN, TIMESTAMP_MAX, TIMESTAMP_MIN, Fault, ScanResult

scans = pytest.mark.parametrize("scan", SCANS.values(), ids=SCANS.keys())
FIRST = encode_record(5, 0, b"k", b"v")
SECOND = encode_record(9, 1, None, b"v" * 300, (("header", b"value"), ("null", None)))
THIRD = encode_record(-7, 2, b"", None)
DATA = FIRST + SECOND + THIRD


def scanned(
    scan: Scan,
    data: bytes | memoryview,
    count: int = 3,
    *,
    position: int = 0,
    index: int = 0,
    base_timestamp: int = 1000,
    time_range: tuple[int, int] = (TIMESTAMP_MIN, TIMESTAMP_MAX),
    needs_key: bool = False,
    headers_max: int = 100,
) -> ScanResult:
    return scan(data, position, index, count, base_timestamp, *time_range, needs_key, -1, headers_max)


@scans
def test_a_scan_ends_behind_the_last_record_with_the_largest_timestamp(scan: Scan) -> None:
    assert scanned(scan, DATA) == (len(DATA), 3, 1009, Fault.NONE)
    assert scanned(scan, memoryview(bytearray(b"before" + DATA)), position=6) == (len(DATA) + 6, 3, 1009, Fault.NONE)
    assert scanned(scan, DATA + b"after") == (len(DATA), 3, 1009, Fault.NONE)
    assert scanned(scan, THIRD, position=0, index=2) == (len(THIRD), 3, 993, Fault.NONE)


@scans
def test_records_that_kafka_wrote_have_no_fault(scan: Scan) -> None:
    batch = GOLDEN["magic 2 zstd"]
    header = read_header(batch)
    data = record_data(batch, 0, header)
    result = scanned(scan, data, header.record_count, base_timestamp=header.base_timestamp)
    assert result == (len(data), len(RECORDS), header.max_timestamp, Fault.NONE)


@scans
def test_the_smallest_record(scan: Scan) -> None:
    smallest = encode_record(0, 0, None, None)
    assert len(smallest) == RECORD_BYTES_MIN
    assert scanned(scan, smallest, 1) == (RECORD_BYTES_MIN, 1, 1000, Fault.NONE)
    assert scanned(scan, b"", 0) == (0, 0, -1, Fault.NONE)


@scans
def test_data_that_ends_inside_a_record_is_cut_off(scan: Scan) -> None:
    for size in range(len(FIRST), len(FIRST + SECOND)):
        assert scanned(scan, DATA[:size]) == (len(FIRST), 1, 1005, Fault.CUT_OFF)
    assert scanned(scan, b"\xff\xff", 1) == (0, 0, -1, Fault.CUT_OFF)
    assert scanned(scan, DATA, 2**31 - 1) == (len(DATA), 3, 1009, Fault.CUT_OFF)


@scans
def test_a_length_that_is_too_long_or_negative_is_malformed(scan: Scan) -> None:
    for data in (b"\xff" * 5, b"\xff" * 40, b"\x01" + FIRST[1:], b"\0" + FIRST[1:], b"\xfe\xff\xff\xff\x7f" + FIRST):
        assert scanned(scan, data, 1) == (0, 0, -1, Fault.MALFORMED)


@scans
def test_an_offset_delta_must_be_the_index_of_its_record(scan: Scan) -> None:
    assert scanned(scan, FIRST + THIRD) == (len(FIRST), 1, 1005, Fault.UNEVEN_OFFSET)
    assert scanned(scan, DATA, index=1) == (0, 1, -1, Fault.UNEVEN_OFFSET)


@scans
def test_a_missing_key_is_a_fault_where_keys_are_needed(scan: Scan) -> None:
    assert scanned(scan, DATA, needs_key=True) == (len(FIRST), 1, 1005, Fault.NO_KEY)
    assert scanned(scan, THIRD, index=2, needs_key=True)[3] == Fault.NONE


@scans
def test_timestamps_must_be_in_range(scan: Scan) -> None:
    assert scanned(scan, DATA, time_range=(1000, 1008)) == (len(FIRST), 1, 1005, Fault.TIMESTAMP_OUT_OF_RANGE)
    assert scanned(scan, DATA, time_range=(1000, 1009))[:2] == (len(FIRST + SECOND), 2)
    assert scanned(scan, FIRST, 1, base_timestamp=-6, time_range=(1000, 1008)) == (len(FIRST), 1, -1, Fault.NONE)


@scans
def test_the_headers_of_all_records_together_are_bounded(scan: Scan) -> None:
    data = encode_record(0, 0, b"k", b"v", (("h", b"v"),)) + encode_record(0, 1, b"k", b"v", (("h", b"v"), ("g", None)))
    assert scanned(scan, data, 2, headers_max=3)[3] == Fault.NONE
    first = len(encode_record(0, 0, b"k", b"v", (("h", b"v"),)))
    assert scanned(scan, data, 2, headers_max=2) == (first, 1, 1000, Fault.MANY_HEADERS)
    assert scanned(scan, data, 2, headers_max=0) == (0, 0, -1, Fault.MANY_HEADERS)
    assert scanned(scan, FIRST, 1, headers_max=0)[3] == Fault.NONE


@scans
def test_a_timestamp_beyond_64_bits_is_malformed(scan: Scan) -> None:
    assert scanned(scan, FIRST, 1, base_timestamp=TIMESTAMP_MAX - 5)[3] == Fault.NONE
    assert scanned(scan, FIRST, 1, base_timestamp=TIMESTAMP_MAX - 4)[3] == Fault.MALFORMED
    assert scanned(scan, THIRD, index=2, base_timestamp=TIMESTAMP_MIN + 6)[3] == Fault.MALFORMED


@scans
def test_a_scan_outside_the_data_is_a_mistake_of_the_caller(scan: Scan) -> None:
    places: list[dict[str, Any]] = [{"position": -1}, {"position": len(DATA) + 1}, {"index": -1}, {"headers_max": -1}]
    for place in places:
        with pytest.raises(ValueError, match="inside the data"):
            scanned(scan, DATA, **place)


@scans
def test_a_large_batch_is_scanned_to_its_end(scan: Scan) -> None:
    """Beyond 16,384 records the C function releases the interpreter lock."""
    data = b"".join(encode_record(index & 0xFF, index, b"key", b"v" * (index % 90)) for index in range(20_000))
    assert scanned(scan, data, 20_000) == (len(data), 20_000, 1255, Fault.NONE)
