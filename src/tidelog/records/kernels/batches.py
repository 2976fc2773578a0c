"""Builds the batches that compaction leaves: with fewer records, or with none.

Base and last offset, leader epoch, producer and sequence in the header stay the same.
Called by the cleaner for each batch that the compiled kernels do not write themselves.
"""

from tidelog.records.compression import compress
from tidelog.records.header import CODEC_MASK, DELETE_HORIZON_BIT, NO_TIMESTAMP, BatchHeader, assemble_batch
from tidelog.records.kernels.compaction import Filtered


def rebuild(header: BatchHeader, kept: Filtered) -> bytes:
    """The batch with the records that stay, compressed with its original codec."""
    codec = header.codec
    payload = compress(codec, kept.payload) if codec else kept.payload
    attributes = header.attributes | DELETE_HORIZON_BIT if kept.has_delete_horizon else header.attributes
    return _assemble(header, attributes, kept.base_timestamp, kept.max_timestamp, kept.record_count, payload)


def emptied(header: BatchHeader) -> bytes:
    """The batch without its records; it still has the producer's last sequence or last epoch."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT)
    return _assemble(header, attributes, NO_TIMESTAMP, header.max_timestamp, 0, b"")


def _assemble(
    header: BatchHeader, attributes: int, base_timestamp: int, max_timestamp: int, count: int, payload: bytes
) -> bytes:
    changed = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=count
    )
    return assemble_batch(changed, payload)
