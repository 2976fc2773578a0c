"""The header of a record batch of magic 2: the position of each field, the meaning of its bits, reading and patching.

    position  size  field                      position  size  field
           0     8  base offset                      27     8  base timestamp
           8     4  length of what follows           35     8  max timestamp
          12     4  partition leader epoch           43     8  producer id
          16     1  magic                            51     2  producer epoch
          17     4  CRC-32C from byte 21 on          53     4  base sequence
          21     2  attributes                       57     4  record count
          23     4  last offset delta                61        records, compressed or not

Messages of magic 0 and 1 have offset, length and magic in the same places; `read_header_of_any_magic` shows one as a
batch of one record. The layout is defined only here. Functions that run for every batch are bound to a name here
(`unpack_header` and those beside it), so that a caller makes a single call.
"""

import struct
from enum import IntEnum
from typing import NamedTuple
from zlib import crc32

from tidelog.records.checksum import crc32c
from tidelog.records.compression import Buffer, Codec
from tidelog.records.errors import CorruptRecordError

MAGIC = 2
HEADER_BYTES = 61
LENGTH_PREFIX_BYTES = 12
"""Base offset and length: what `batch_length` does not count."""

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

LEGACY_CRC_POSITION = 12
LEGACY_ATTRIBUTES_POSITION = 17
LEGACY_TIMESTAMP_POSITION = 18
LEGACY_BYTES_MIN = (26, 34)
"""The shortest message of magic 0 and of magic 1: its header, and the sizes of key and value."""

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
SEQUENCE_MASK = 0x7FFF_FFFF
"""Sequences wrap from 2^31-1 to 0."""

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET_LENGTH = struct.Struct(">qi")
_OFFSET_LENGTH_EPOCH = struct.Struct(">qii")
_EXTENT = struct.Struct(">qi4xb6xi")
_BEFORE_CRC = struct.Struct(">qiibI")
_AFTER_CRC = struct.Struct(">hiqqqhii")
_PRODUCER = struct.Struct(">qhi")
_INT16 = struct.Struct(">h")
_UINT32 = struct.Struct(">I")
_INT64 = struct.Struct(">q")
_new_tuple = tuple.__new__

EXTENT_BYTES = _EXTENT.size

unpack_header = _HEADER.unpack_from
"""(buffer, position) → the fields of `BatchHeader`."""
pack_header_into = _HEADER.pack_into
unpack_offset_and_length = _OFFSET_LENGTH.unpack_from
"""(buffer, position) → base offset and length, of any magic."""
pack_offset_and_length = _OFFSET_LENGTH.pack
pack_offset_length_epoch_into = _OFFSET_LENGTH_EPOCH.pack_into
"""(buffer, position, base offset, length, leader epoch): the fields that a broker writes, without a new checksum."""
unpack_extent = _EXTENT.unpack_from
"""(buffer, position) → base offset, length, magic, last offset delta: enough to get from one batch to the next."""
unpack_length_magic_attributes = struct.Struct(">8xi4xb4xh").unpack_from
"""(buffer, position) → length, magic, attributes."""
unpack_attributes_and_producer = struct.Struct(">21xh20xqhi").unpack_from
"""(buffer, position) → attributes, producer id, producer epoch, base sequence."""


class TimestampType(IntEnum):
    """The source of a record's timestamp: its producer, or the broker that appended it."""

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
        """Raises CorruptRecordError for the three unassigned codec numbers."""
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
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MASK


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`. Raises CorruptRecordError if it is cut off; its fields are not checked."""
    try:
        return _new_tuple(BatchHeader, unpack_header(buffer, position))
    except struct.error:
        raise CorruptRecordError(f"no whole batch header at byte {position} of {len(buffer)}") from None


def read_length(buffer: Buffer, position: int = 0) -> int:
    """The length of the batch or message at `position`, without the prefix of base offset and length."""
    length: int = unpack_offset_and_length(buffer, position)[1]
    return length


def read_header_of_any_magic(buffer: Buffer, position: int) -> BatchHeader:
    """The header at `position`; a message of magic 0 or 1 looks like a batch of one record without a producer."""
    header: BatchHeader = _new_tuple(BatchHeader, unpack_header(buffer, position))
    if header.magic >= MAGIC:
        return header
    timestamp = NO_TIMESTAMP
    if header.magic == 1:
        (timestamp,) = _INT64.unpack_from(buffer, position + LEGACY_TIMESTAMP_POSITION)
    return BatchHeader(
        base_offset=header.base_offset,
        batch_length=header.batch_length,
        partition_leader_epoch=-1,
        magic=header.magic,
        crc=header.partition_leader_epoch & 0xFFFF_FFFF,  # where the checksum lies before magic 2
        attributes=buffer[position + LEGACY_ATTRIBUTES_POSITION],
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=1,
    )


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the checksum in `header` is that of the batch at `position`; False if the batch is cut off."""
    end = position + header.batch_length + LENGTH_PREFIX_BYTES
    return crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : end]) == header.crc and end <= len(buffer)


def is_intact(batch: Buffer) -> bool:
    """Whether the checksum of a whole batch, from its first byte to its last, is the one in its header."""
    found: int = _UINT32.unpack_from(batch, CRC_POSITION)[0]
    return crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]) == found


def is_legacy_intact(message: Buffer) -> bool:
    """The same for a whole message of magic 0 or 1, whose checksum begins with the magic."""
    found: int = _UINT32.unpack_from(message, LEGACY_CRC_POSITION)[0]
    return crc32(memoryview(message)[MAGIC_POSITION:]) == found


def assign_offset(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, base_offset: int, leader_epoch: int
) -> None:
    """Write base offset and leader epoch in place; the checksum does not cover them."""
    pack_offset_length_epoch_into(buffer, position, base_offset, header.batch_length, leader_epoch)


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


def stamp_producer(
    buffer: bytearray | memoryview,
    size_bytes: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    is_transactional: bool,
) -> None:
    """Put another producer, epoch or sequence into the batch that fills the first `size_bytes` of `buffer`."""
    (attributes,) = _INT16.unpack_from(buffer, ATTRIBUTES_POSITION)
    attributes = attributes | TRANSACTIONAL_BIT if is_transactional else attributes & ~TRANSACTIONAL_BIT
    _INT16.pack_into(buffer, ATTRIBUTES_POSITION, attributes)
    _PRODUCER.pack_into(buffer, PRODUCER_ID_POSITION, producer_id, producer_epoch, base_sequence)
    seal(buffer, size_bytes)


def seal(buffer: bytearray | memoryview, size_bytes: int) -> None:
    """Write the checksum of the batch that fills the first `size_bytes` of `buffer`."""
    with memoryview(buffer) as view, view[ATTRIBUTES_POSITION:size_bytes] as covered:
        _UINT32.pack_into(buffer, CRC_POSITION, crc32c(covered))


def assemble_batch(header: BatchHeader, payload: bytes) -> bytes:
    """A batch of `payload`, encoded and compressed as `header` says; length and checksum are set here."""
    after_crc = _AFTER_CRC.pack(*header[5:])
    length = HEADER_BYTES - LENGTH_PREFIX_BYTES + len(payload)
    checksum = crc32c(payload, crc32c(after_crc))
    before_crc = _BEFORE_CRC.pack(header.base_offset, length, header.partition_leader_epoch, header.magic, checksum)
    return b"".join((before_crc, after_crc, payload))
