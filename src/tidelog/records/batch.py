"""Record batches of magic 2: the header, its checksum, what the broker patches, and the records inside.

A batch is stored as it came, with two fields overwritten that the checksum does not cover (`assign_offset`). Its
records are checked with `scanner.scan` and read with `iterate_records`.

    position  size  field                      position  size  field
           0     8  base offset                      27     8  base timestamp
           8     4  length of what follows           35     8  max timestamp
          12     4  partition leader epoch           43     8  producer id
          16     1  magic                            51     2  producer epoch
          17     4  CRC-32C from byte 21 on          53     4  base sequence
          21     2  attributes                       57     4  record count
          23     4  last offset delta                61        records, compressed or not
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from tidelog.records._record import Record, decode_records
from tidelog.records.checksum import crc32c
from tidelog.records.compression import DECOMPRESSED_BYTES_MAX, Buffer, Codec, decompress
from tidelog.records.errors import CorruptRecordError

__all__ = [
    "HEADER_BYTES",
    "LENGTH_PREFIX_BYTES",
    "MAGIC",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "BatchHeader",
    "Record",
    "TimestampType",
    "assign_offset",
    "check_crc",
    "iterate_batches",
    "iterate_records",
    "read_header",
    "set_max_timestamp",
]

MAGIC = 2
HEADER_BYTES = 61
LENGTH_PREFIX_BYTES = 12
"""Base offset and length: what `batch_length` does not count."""

BASE_OFFSET_POSITION = 0
LENGTH_POSITION = 8
PARTITION_LEADER_EPOCH_POSITION = 12
MAGIC_POSITION = 16
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
LAST_OFFSET_DELTA_POSITION = 23
BASE_TIMESTAMP_POSITION = 27
MAX_TIMESTAMP_POSITION = 35
PRODUCER_ID_POSITION = 43
PRODUCER_EPOCH_POSITION = 51
BASE_SEQUENCE_POSITION = 53
RECORD_COUNT_POSITION = 57

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET_LENGTH_EPOCH = struct.Struct(">qii")
_INT16 = struct.Struct(">h")
_UINT32 = struct.Struct(">I")
_INT64 = struct.Struct(">q")
_unpack_header = _HEADER.unpack_from
_new_tuple = tuple.__new__


class TimestampType(IntEnum):
    """Who gave a record its timestamp: its producer, or the broker that appended it."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The fixed part of a batch, as it is written."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return self.batch_length + LENGTH_PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        """Raises CorruptRecordError for the three codec numbers that mean nothing."""
        try:
            return Codec(self.attributes & CODEC_MASK)
        except ValueError:
            raise CorruptRecordError(f"unknown compression codec {self.attributes & CODEC_MASK}") from None

    @property
    def is_compressed(self) -> bool:
        return self.attributes & CODEC_MASK != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_BIT else TimestampType.CREATE_TIME

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the batch's tombstones; it is kept in place of the base timestamp (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences wrap from 2^31-1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFF_FFFF


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`; nothing in it is checked but that it is there."""
    try:
        return _new_tuple(BatchHeader, _unpack_header(buffer, position))
    except struct.error:
        raise CorruptRecordError(f"no whole batch header at byte {position} of {len(buffer)}") from None


def iterate_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch; an incomplete one at the end is left out.

    Raises CorruptRecordError where the bytes cannot be the start of a batch, because nothing behind them can be found.
    """
    position = 0
    size = len(buffer)
    while position + HEADER_BYTES <= size:
        header: BatchHeader = _new_tuple(BatchHeader, _unpack_header(buffer, position))
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


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the checksum in `header` is that of the batch at `position`; False if the batch is cut off."""
    end = position + header.batch_length + LENGTH_PREFIX_BYTES
    return crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : end]) == header.crc and end <= len(buffer)


def assign_offset(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, base_offset: int, leader_epoch: int
) -> None:
    """Write base offset and leader epoch in place; the checksum does not cover them."""
    _OFFSET_LENGTH_EPOCH.pack_into(buffer, position, base_offset, header.batch_length, leader_epoch)


def set_max_timestamp(
    buffer: bytearray | memoryview,
    position: int,
    header: BatchHeader,
    timestamp_type: TimestampType,
    max_timestamp: int,
) -> None:
    """Write timestamp type and max timestamp in place, and the checksum that follows from them.

    With LogAppendTime the max timestamp is the timestamp of every record in the batch.
    """
    attributes = header.attributes & ~LOG_APPEND_TIME_BIT
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_BIT
    if attributes == header.attributes and max_timestamp == header.max_timestamp:
        return
    _INT16.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes)
    _INT64.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, max_timestamp)
    end = position + header.batch_length + LENGTH_PREFIX_BYTES
    checksum = crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : end])
    _UINT32.pack_into(buffer, position + CRC_POSITION, checksum)


def iterate_records(
    buffer: Buffer, position: int = 0, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """Yield the records of the batch at `position`, decompressed; the checksum is not looked at."""
    header = read_header(buffer, position)
    data = record_data(buffer, position, header, limit_bytes)
    log_append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME_BIT else None
    return decode_records(data, header.record_count, header.base_offset, header.base_timestamp, log_append_time)


def record_data(buffer: Buffer, position: int, header: BatchHeader, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The encoded records of a batch, decompressed. Raises CorruptRecordError if the batch is not whole or not ours."""
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
    # A batch that compaction emptied keeps its codec but has no data, which no decoder takes for a stream.
    return decompress(header.codec, data, limit_bytes) if header.record_count else b""
