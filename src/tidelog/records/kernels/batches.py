"""Batches as compaction leaves them: with fewer records, with none, or as they were.

Everything in the header that says where a batch belongs stays: base and last offset, leader epoch, producer, sequence.
Called by the cleaner for each batch that the compiled kernels do not write themselves.
"""

from struct import Struct
from typing import Final

from tidelog.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
)
from tidelog.records.checksum import crc32c
from tidelog.records.compression import compress
from tidelog.records.kernels.compaction import Filtered

_BEFORE_CRC: Final = Struct(">qiibI")
_AFTER_CRC: Final = Struct(">hiqqqhii")


def rebuild(header: BatchHeader, kept: Filtered) -> bytes:
    """The batch with the records that stay, compressed with the codec it came with."""
    codec = header.codec
    payload = compress(codec, kept.payload) if codec else kept.payload
    attributes = header.attributes | DELETE_HORIZON_BIT if kept.has_delete_horizon else header.attributes
    return _assemble(header, attributes, kept.base_timestamp, kept.max_timestamp, kept.record_count, payload)


def emptied(header: BatchHeader) -> bytes:
    """The batch without its records: what a producer's last sequence, or last epoch, is read from."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT)
    return _assemble(header, attributes, NO_TIMESTAMP, header.max_timestamp, 0, b"")


def _assemble(
    header: BatchHeader, attributes: int, base_timestamp: int, max_timestamp: int, count: int, payload: bytes
) -> bytes:
    after_crc = _AFTER_CRC.pack(
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    length = HEADER_BYTES - LENGTH_PREFIX_BYTES + len(payload)
    checksum = crc32c(payload, crc32c(after_crc))
    before_crc = _BEFORE_CRC.pack(header.base_offset, length, header.partition_leader_epoch, header.magic, checksum)
    return b"".join((before_crc, after_crc, payload))
