"""Walking the batches of a log file by their headers, without reading the records between them.

`Segment` uses it to get from an index entry to the batch it wants, and to replay batches for the producer state.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.records.header import (
    EXTENT_BYTES,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    BatchHeader,
    read_header_of_any_magic,
    unpack_extent,
)
from tidelog.storage._files import LogFile
from tidelog.wire.errors import ApiError, ErrorCode

_SMALLEST_LEGACY_LENGTH: Final = 14
_WINDOW_BYTES: Final = 6144
_new = tuple.__new__
_SCAN_WINDOW_BYTES: Final = 64 * 1024


class BatchPosition(NamedTuple):
    """Where a batch lies in its file."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int


def find_batch(file: LogFile, offset: int, position: int, end: int, following: int = -1) -> BatchPosition | None:
    """The first batch at or after `position` whose last offset is `offset` or larger; None when there is none.

    With small batches, one read covers the bytes between two index entries. Larger batches have an index entry each, so
    the wanted batch is most likely that of the `following` entry: its header is read first.
    """
    window = b""
    if position + _WINDOW_BYTES < following < end - EXTENT_BYTES:
        window = file.read(following, EXTENT_BYTES)
        if unpack_extent(window)[0] <= offset:
            position = following
        else:
            window = b""
    while position + LENGTH_PREFIX_BYTES < end:
        window = window or file.read(position, min(_WINDOW_BYTES, end - position))
        if len(window) < EXTENT_BYTES:
            window = window.ljust(EXTENT_BYTES, b"\0")
        limit = len(window) - EXTENT_BYTES
        start = 0
        while start <= limit:
            base_offset, length, magic, last_delta = unpack_extent(window, start)
            if length < _SMALLEST_LEGACY_LENGTH:
                raise _corrupt(file, position + start, length)
            size = length + LENGTH_PREFIX_BYTES
            last_offset = base_offset + last_delta if magic >= 2 else base_offset
            if last_offset >= offset:
                if position + start + size > end:
                    return None
                return _new(BatchPosition, (position + start, size, base_offset, last_offset))
            start += size
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
            header = read_header_of_any_magic(window, start)
            if header.batch_length < _SMALLEST_LEGACY_LENGTH:
                raise _corrupt(file, position + start, header.batch_length)
            size = header.batch_length + LENGTH_PREFIX_BYTES
            if position + start + size > end:
                return
            yield position + start, header
            start += size
        position += start


def _corrupt(file: LogFile, position: int, length: int) -> ApiError:
    return ApiError(
        ErrorCode.CORRUPT_MESSAGE, f"{file.path}: the batch at byte {position} claims a length of {length} bytes"
    )
