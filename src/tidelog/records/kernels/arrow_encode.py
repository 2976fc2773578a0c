"""Arrow's columns to record batches in plain Python; the compiled kernels give the same result.

Rows go to their given partitions and keep their order there. A batch is closed when the next record would exceed the
limit; a record that exceeds it alone gets its own batch. The sender compresses the batches and sets the producer
fields.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tidelog.records.bulk import BulkRecord, assemble_batch
from tidelog.records.header import HEADER_BYTES
from tidelog.records.record import Headers, encode_headers, encode_record


class EncodedBatch(NamedTuple):
    """A whole batch of magic 2 without compression, for one partition."""

    partition: int
    record_count: int
    data: Any


def encode_rows(
    rows: Sequence[BulkRecord], partitions: Sequence[int], partition_count: int, limit_bytes: int
) -> list[EncodedBatch]:
    """The batches of `rows`, partition by partition. This defines what the compiled kernel does."""
    by_partition: list[list[BulkRecord]] = [[] for _ in range(partition_count)]
    for row, partition in zip(rows, partitions, strict=True):
        by_partition[partition].append(row)
    return [
        EncodedBatch(partition, len(part), _assemble(part))
        for partition, records in enumerate(by_partition)
        for part in _parts(records, limit_bytes)
    ]


def header_blocks(rows: Sequence[Headers]) -> list[bytes]:
    """The headers of every row as they end a record: what the compiled kernel copies as it is."""
    return [encode_headers(headers) for headers in rows]


def _parts(records: list[BulkRecord], limit_bytes: int) -> list[list[BulkRecord]]:
    parts: list[list[BulkRecord]] = []
    size_bytes = limit_bytes
    for record in records:
        timestamp, key, value, headers = record
        if parts:
            delta = timestamp - parts[-1][0][0]
            size_bytes += len(encode_record(delta, len(parts[-1]), key, value, headers))
        if not parts or size_bytes > limit_bytes:
            parts.append([])
            size_bytes = HEADER_BYTES + len(encode_record(0, 0, key, value, headers))
        parts[-1].append(record)
    return parts


def _assemble(records: list[BulkRecord]) -> bytes:
    assembled = assemble_batch(records)
    return bytes(memoryview(assembled.buffer)[: assembled.size_bytes])


def spread(sizes: Sequence[int], partition_count: int, first: int, sticky_bytes: int) -> list[int]:
    """Partitions for records without key: each is used for about `sticky_bytes`, then the next one."""
    chosen: list[int] = []
    used = 0
    for size in sizes:
        if used >= sticky_bytes:
            first, used = first + 1, 0
        chosen.append(first % partition_count)
        used += size
    return chosen
