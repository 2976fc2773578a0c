"""A fingerprint of a batch's rows that does not depend on their order or on how they were cut into tasks.

It stands in for the offsets of a batch where these cannot be read: a batch that Spark repeats after a crash has the
same rows as before, one that was planned again from an older checkpoint has others. Key, value and topic count; headers
and partitions do not, because the sink chooses partitions of rows without key. Pure.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import pyarrow as pa

from tidelog.client.partitioner import murmur2
from tidelog.spark.sink.rows import is_worth_kernels

_MASK: Final = (1 << 64) - 1
KEY_FACTOR: Final = 0x9E3779B97F4A7C15
VALUE_FACTOR: Final = 0xC2B2AE3D27D4EB4F
MIX_FACTOR: Final = 0xFF51AFD7ED558CCD
MIX_SHIFT: Final = 29


class RowFingerprint(NamedTuple):
    """How many rows there are, and the sum of their hashes modulo 2^64."""

    row_count: int = 0
    hash_sum: int = 0

    def __str__(self) -> str:
        return f"{self.row_count}:{self.hash_sum:016x}"


def fingerprint_rows(topic: str, keys: pa.Array | None, values: pa.Array | None, row_count: int) -> RowFingerprint:
    """The fingerprint of rows that go to `topic`. A column that is None is null in every row."""
    total = _compiled_sum(keys, values, row_count) if is_worth_kernels(row_count) else None
    if total is None:
        total = plain_sum(keys, values, row_count)
    return RowFingerprint(row_count, (total + row_count * murmur2(topic.encode())) & _MASK)


def combined(parts: Iterable[RowFingerprint]) -> RowFingerprint:
    """The fingerprint of all rows of all parts."""
    row_count = hash_sum = 0
    for part in parts:
        row_count += part.row_count
        hash_sum += part.hash_sum
    return RowFingerprint(row_count, hash_sum & _MASK)


def plain_sum(keys: pa.Array | None, values: pa.Array | None, row_count: int) -> int:
    """The sum of the rows' hashes. This defines what the compiled kernel does."""
    key_list = [None] * row_count if keys is None else keys.to_pylist()
    value_list = [None] * row_count if values is None else values.to_pylist()
    return sum(_row_hash(key, value) for key, value in zip(key_list, value_list, strict=True)) & _MASK


def _row_hash(key: bytes | None, value: bytes | None) -> int:
    # Null is 0 and hashes begin at 1, so that null and empty differ.
    key_hash = 0 if key is None else murmur2(key) + 1
    value_hash = 0 if value is None else murmur2(value) + 1
    mixed = (key_hash * KEY_FACTOR + value_hash * VALUE_FACTOR) & _MASK
    return ((mixed ^ (mixed >> MIX_SHIFT)) * MIX_FACTOR) & _MASK


def _compiled_sum(keys: pa.Array | None, values: pa.Array | None, row_count: int) -> int | None:
    """The same by a kernel; None where Numba is not installed."""
    try:
        from tidelog.records.kernels.arrow_encode_compiled import ColumnBuffers, column_of
        from tidelog.spark.sink._row_kernels import hash_sum
    except ImportError:
        return None

    def column(array: pa.Array | None) -> object:
        if array is None:
            return column_of(None, row_count)
        validity, positions, data = array.buffers()
        held = ColumnBuffers(
            positions, b"" if data is None else data, validity if array.null_count else None, array.offset
        )
        return column_of(held, row_count)

    return int(hash_sum(column(keys), column(values), row_count))
