"""Walking the batches of a log file by their headers, without reading the records between them.

`Segment` uses it to get from an index entry to the batch it wants, and to replay batches for the producer state.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from tidelog.records.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES, BatchHeader
from tidelog.storage._files import Buffer, LogFile
from tidelog.wire.errors import ApiError, ErrorCode

_PREFIX: Final = Struct(">qi4xb6xi")
"""Base offset, length, magic and last offset delta, which are enough to get from one batch to the next."""

_HEADER: Final = Struct(">qiibIhiqqqhii")
_LEGACY_TIMESTAMP: Final = Struct(">q")
_LEGACY_TIMESTAMP_POSITION: Final = 18
_SMALLEST_LEGACY_LENGTH: Final = 14
_WINDOW_BYTES: Final = 6144
_SCAN_WINDOW_BYTES: Final = 64 * 1024
_unpack_prefix = _PREFIX.unpack_from


class BatchPosition(NamedTuple):
    """Where a batch lies in its file."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int


def find_batch(file: LogFile, offset: int, position: int, end: int, following: int = -1) -> BatchPosition | None:
    """The first batch at or after `position` whose last offset is `offset` or larger; None when there is none.

    One read covers what lies between two index entries of small batches. Larger batches have an index entry each, so
    that the batch looked for is most likely the one of the `following` entry: its header is looked at first.
    """
    window = b""
    if position + _WINDOW_BYTES < following < end - _PREFIX.size:
        window = file.read(following, _PREFIX.size)
        if _unpack_prefix(window)[0] <= offset:
            position = following
        else:
            window = b""
    while position + LENGTH_PREFIX_BYTES < end:
        window = window or file.read(position, min(_WINDOW_BYTES, end - position))
        if len(window) < _PREFIX.size:
            window = window.ljust(_PREFIX.size, b"\0")
        limit = len(window) - _PREFIX.size
        start = 0
        while start <= limit:
            base_offset, length, magic, last_delta = _unpack_prefix(window, start)
            last_offset = base_offset + last_delta if magic >= 2 else base_offset
            if length < _SMALLEST_LEGACY_LENGTH:
                raise _corrupt(file, position + start, length)
            if last_offset >= offset:
                if position + start + length + LENGTH_PREFIX_BYTES > end:
                    return None
                return BatchPosition(position + start, length + LENGTH_PREFIX_BYTES, base_offset, last_offset)
            start += length + LENGTH_PREFIX_BYTES
        position += start
        window = b""
    return None


def iterate_headers(file: LogFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch in [position, end). Messages older than magic 2 look like batches of one.

    The header of such a message has no producer and no leader epoch, and its own offset as first and last offset.
    """
    while position + LENGTH_PREFIX_BYTES < end:
        window = file.read(position, min(_SCAN_WINDOW_BYTES, end - position))
        if len(window) < HEADER_BYTES:
            window = window.ljust(HEADER_BYTES, b"\0")
        limit = len(window) - HEADER_BYTES
        start = 0
        while start <= limit:
            header = parse_header(window, start)
            if header.batch_length < _SMALLEST_LEGACY_LENGTH:
                raise _corrupt(file, position + start, header.batch_length)
            size = header.batch_length + LENGTH_PREFIX_BYTES
            if position + start + size > end:
                return
            yield position + start, header
            start += size
        position += start


def parse_header(data: Buffer, position: int) -> BatchHeader:
    """The header at `position`, where messages of magic 0 and 1 are shown as batches of one record."""
    header = BatchHeader(*_HEADER.unpack_from(data, position))
    if header.magic >= 2:
        return header
    timestamp = -1
    if header.magic == 1:
        (timestamp,) = _LEGACY_TIMESTAMP.unpack_from(data, position + _LEGACY_TIMESTAMP_POSITION)
    return BatchHeader(
        header.base_offset,
        header.batch_length,
        -1,
        header.magic,
        0,
        data[position + 17],
        0,
        timestamp,
        timestamp,
        -1,
        -1,
        -1,
        1,
    )


def _corrupt(file: LogFile, position: int, length: int) -> ApiError:
    return ApiError(
        ErrorCode.CORRUPT_MESSAGE, f"{file.path}: the batch at byte {position} claims a length of {length} bytes"
    )
