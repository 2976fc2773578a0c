"""Iteration over the batches of a buffer and the records of a batch of magic 2. See `header` for the layout."""

from collections.abc import Iterator

from tidelog.records.compression import DECOMPRESSED_BYTES_MAX, Buffer, decompress
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    BatchHeader,
    read_header,
    unpack_header,
)
from tidelog.records.record import Record, decode_records

__all__ = ["Record", "iterate_batches", "iterate_records", "record_data"]

_new_tuple = tuple.__new__


def iterate_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch; an incomplete one at the end is left out.

    Raises CorruptRecordError at bytes that cannot be the start of a batch: no later batch can be found.
    """
    position = 0
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
