"""Iteration over the batches of a buffer and the records of a batch of magic 2. See `header` for the layout.

`iterate_batches` is for logs in today's format: headers of magic 2. `iterate_extents` is for bytes of any magic, as a
broker or a producer sent them: it finds where batches lie and which offsets they cover, and looks at nothing else.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.records.compression import DECOMPRESSED_BYTES_MAX, Buffer, decompress
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import (
    CODEC_MASK,
    EXTENT_BYTES,
    HEADER_BYTES,
    LEGACY_BYTES_MIN,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    read_header,
    unpack_extent,
    unpack_header,
    unpack_offset_and_length,
)
from tidelog.records.record import Record, decode_records

__all__ = ["BatchExtent", "Record", "iterate_batches", "iterate_extents", "iterate_records", "record_data"]

_LENGTH_MIN = LEGACY_BYTES_MIN[0] - LENGTH_PREFIX_BYTES
_new_tuple = tuple.__new__


class BatchExtent(NamedTuple):
    """Where a batch, or a message of magic 0 or 1, lies in a buffer, and which offsets it covers."""

    position: int
    end: int
    magic: int
    base_offset: int
    last_offset: int
    """Of a message, its own offset, which for a wrapper is that of the last message inside."""


def iterate_extents(buffer: Buffer) -> Iterator[BatchExtent]:
    """Yield the extent of each whole batch or message; an incomplete one at the end is left out.

    Raises CorruptRecordError at a length that no batch and no message has: no later batch can be found.
    """
    position = 0
    size = len(buffer)
    while position + MAGIC_POSITION < size:
        if position + EXTENT_BYTES <= size:
            base_offset, length, magic, last_delta = unpack_extent(buffer, position)
        else:
            # Only a message of magic 0 without key and value is so short.
            base_offset, length = unpack_offset_and_length(buffer, position)
            magic, last_delta = buffer[position + MAGIC_POSITION], 0
        if length < _LENGTH_MIN:
            raise CorruptRecordError(f"batch at byte {position} claims a length of {length}, less than any batch has")
        end = position + length + LENGTH_PREFIX_BYTES
        if end > size:
            return
        last_offset = base_offset + last_delta if magic >= MAGIC else base_offset
        yield _new_tuple(BatchExtent, (position, end, magic, base_offset, last_offset))
        position = end


def iterate_batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch from `position` on; an incomplete one at the end is left out.

    Raises CorruptRecordError at bytes that cannot be the start of a batch: no later batch can be found.
    """
    size = len(buffer)
    while position + HEADER_BYTES <= size:
        header: BatchHeader = _new_tuple(BatchHeader, unpack_header(buffer, position))
        length = header.batch_length
        if length < HEADER_BYTES - LENGTH_PREFIX_BYTES:
            raise CorruptRecordError(f"batch at byte {position} claims a length of {length}, less than its header")
        if header.magic != MAGIC:
            raise CorruptRecordError(f"batch at byte {position} has magic {header.magic}, not {MAGIC}")
        end = position + length + LENGTH_PREFIX_BYTES
        if end > size:
            return
        yield position, header
        position = end


def iterate_records(
    buffer: Buffer, position: int = 0, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """Yield the records of the batch at `position`, decompressed; the checksum is not checked."""
    header = read_header(buffer, position)
    data = record_data(buffer, position, header, limit_bytes)
    log_append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME_BIT else None
    return decode_records(data, header.record_count, header.base_offset, header.base_timestamp, log_append_time)


def record_data(buffer: Buffer, position: int, header: BatchHeader, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The encoded records of a batch, decompressed. Raises CorruptRecordError if it is not a whole batch of magic 2."""
    if header.magic != MAGIC:
        raise CorruptRecordError(f"batch at byte {position} has magic {header.magic}, not {MAGIC}")
    if header.record_count < 0:
        raise CorruptRecordError(f"batch at byte {position} claims {header.record_count} records")
    end = position + header.batch_length + LENGTH_PREFIX_BYTES
    start = position + HEADER_BYTES
    if not start <= end <= len(buffer):
        raise CorruptRecordError(f"batch of {header.size_bytes} bytes at byte {position} of {len(buffer)} is not whole")
    data = memoryview(buffer)[start:end]
    if header.attributes & CODEC_MASK == 0:
        return bytes(data)
    # A batch that compaction emptied keeps its codec but has no data, which decoders reject.
    return decompress(header.codec, data, limit_bytes) if header.record_count else b""
