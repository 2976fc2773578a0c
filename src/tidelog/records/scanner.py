"""The check of the records inside a batch, without decoding them: `scan`.

`scan` is the C function of `_speedups` where that module was built, and `scan_in_python` elsewhere. The Python function
defines the result, and a property test compares the two.

A scan reads varints and skips keys, values and the contents of headers, so its cost depends on the number of records
and not on their size: 7 to 10 ns a record in C, 0.7 µs in Python. The C function releases the interpreter lock while
it scans 16,384 records or more.
"""

from collections.abc import Callable
from enum import IntEnum

from tidelog.records._native import speedups
from tidelog.records._varint import UNZIGZAG, decode_varint, decode_varlong
from tidelog.records.compression import Buffer
from tidelog.records.errors import CorruptRecordError

RECORD_BYTES_MIN = 7
"""The smallest record: length, attributes, two deltas, null key, null value, no headers, a byte each."""
TIMESTAMP_MIN = -(2**63)
TIMESTAMP_MAX = 2**63 - 1

ScanResult = tuple[int, int, int, int]
"""Position, index, max timestamp and fault."""


class Fault(IntEnum):
    """Why a scan stopped before a record."""

    NONE = 0
    CUT_OFF = 1
    """The data ends inside the record."""
    MALFORMED = 2
    """The record breaks the format: a length, size or count in it does not fit."""
    UNEVEN_OFFSET = 3
    """The offset delta of the record is not its index."""
    NO_KEY = 4
    TIMESTAMP_OUT_OF_RANGE = 5
    MANY_HEADERS = 6
    """The record claims more headers than are left of `headers_max`; checking them would take too long."""


def scan_in_python(  # noqa: C901 - a call for each varint would double its cost
    data: Buffer,
    position: int,
    index: int,
    count: int,
    base_timestamp: int,
    earliest: int,
    latest: int,
    needs_key: bool,
    max_timestamp: int,
    headers_max: int,
    /,
) -> ScanResult:
    """Scan the records `index` to `count` - 1 of a batch, the first of which begins at `position` of `data`.

    Returns `(position, index, max_timestamp, fault)`: where the scan ended, and the largest of the argument and of the
    timestamps up to there. With a fault, that is in front of the record at fault. -1, no timestamp, is always in range;
    a timestamp that does not fit 64 bits is malformed. `headers_max` bounds the headers of all records together.
    """
    size = len(data)
    if not 0 <= position <= size or index < 0 or headers_max < 0:
        raise ValueError("scan() must begin inside the data, at an index and with a limit that are not negative")
    headers_left = headers_max
    unzigzag = UNZIGZAG
    try:
        while index < count:
            start = position
            if (low := data[position]) < 0x80:
                end = unzigzag[low] + position + 1
                position += 2
            elif (high := data[position + 1]) < 0x80:
                end = (unzigzag[low & 1] ^ (high << 6 | (low & 0x7F) >> 1)) + position + 2
                position += 3
            else:
                length, position = decode_varint(data, position)
                end = length + position
                position += 1
            if end > size:
                return start, index, max_timestamp, _CUT_OFF
            if end < position:
                return start, index, max_timestamp, _MALFORMED
            if (low := data[position]) < 0x80:
                timestamp = base_timestamp + unzigzag[low]
                position += 1
            elif (high := data[position + 1]) < 0x80:
                timestamp = base_timestamp + (unzigzag[low & 1] ^ (high << 6 | (low & 0x7F) >> 1))
                position += 2
            else:
                timestamp, position = decode_varlong(data, position)
                timestamp += base_timestamp
            if (low := data[position]) < 0x80:
                offset_delta = unzigzag[low]
                position += 1
            elif (high := data[position + 1]) < 0x80:
                offset_delta = unzigzag[low & 1] ^ (high << 6 | (low & 0x7F) >> 1)
                position += 2
            else:
                offset_delta, position = decode_varint(data, position)
            if (key_bytes := data[position]) < 0x80:
                key_bytes = unzigzag[key_bytes]
                position += 1
            else:
                key_bytes, position = decode_varint(data, position)
            if key_bytes > 0:
                position += key_bytes
            elif key_bytes < -1:
                return start, index, max_timestamp, _MALFORMED
            if (low := data[position]) < 0x80:
                value_bytes = unzigzag[low]
                position += 1
            elif (high := data[position + 1]) < 0x80:
                value_bytes = unzigzag[low & 1] ^ (high << 6 | (low & 0x7F) >> 1)
                position += 2
            else:
                value_bytes, position = decode_varint(data, position)
            if value_bytes > 0:
                position += value_bytes
            elif value_bytes < -1:
                return start, index, max_timestamp, _MALFORMED
            if data[position] == 0:
                position += 1
            else:
                count_of_headers, position = decode_varint(data, position)
                if position > end:
                    return start, index, max_timestamp, _MALFORMED
                headers_left -= max(count_of_headers, 0)
                if headers_left < 0:
                    return start, index, max_timestamp, _MANY_HEADERS
                position = _skip_headers(data, position, count_of_headers)
            if position != end:
                return start, index, max_timestamp, _MALFORMED
            if (
                offset_delta != index
                or (key_bytes < 0 and needs_key)
                or not (earliest <= timestamp <= latest or timestamp == -1)
            ):
                fault = _fault(timestamp, offset_delta != index, key_bytes < 0 and needs_key)
                return start, index, max_timestamp, fault
            index += 1
            if timestamp > max_timestamp:
                max_timestamp = timestamp
    except IndexError:
        return start, index, max_timestamp, _CUT_OFF if _is_length_cut_off(data, start) else _MALFORMED
    except CorruptRecordError:
        return start, index, max_timestamp, _MALFORMED
    return position, index, max_timestamp, _NONE


_NONE, _CUT_OFF, _MALFORMED, _UNEVEN_OFFSET, _NO_KEY, _TIMESTAMP_OUT_OF_RANGE, _MANY_HEADERS = map(int, Fault)


def _fault(timestamp: int, is_uneven: bool, lacks_key: bool) -> int:
    """The fault to report for a whole record that has one or more."""
    if not TIMESTAMP_MIN <= timestamp <= TIMESTAMP_MAX:
        return _MALFORMED
    if is_uneven:
        return _UNEVEN_OFFSET
    return _NO_KEY if lacks_key else _TIMESTAMP_OUT_OF_RANGE


def _skip_headers(data: Buffer, position: int, count: int) -> int:
    """The position behind `count` headers of a record."""
    if count < 0:
        raise CorruptRecordError(f"a record claims {count} headers")
    for _ in range(count):
        size, position = decode_varint(data, position)
        if size < 0:
            raise CorruptRecordError(f"a record has a header key of {size} bytes")
        size, position = decode_varint(data, position + size)
        if size < -1:
            raise CorruptRecordError(f"a record has a header value of {size} bytes")
        position += max(size, 0)
    return position


def _is_length_cut_off(data: Buffer, start: int) -> bool:
    """Whether the data ends inside the length of the record at `start`."""
    try:
        decode_varint(data, start)
    except IndexError:
        return True
    return False


scan: Callable[..., ScanResult] = scan_in_python if speedups is None else speedups.scan
HAS_SPEEDUPS = speedups is not None
