"""Columns to record batches on Numba: what `arrow_encode.encode_rows` does, some hundred times as fast.

Imported by name and only where NumPy and Numba may be; see `arrow_decode_compiled`.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from tidelog.records.builder import RECORD_OVERHEAD_BYTES_MAX
from tidelog.records.compression import Buffer
from tidelog.records.header import HEADER_BYTES, seal
from tidelog.records.kernels import _arrow_encode as kernels
from tidelog.records.kernels._compile import Numbers
from tidelog.records.kernels.arrow_decode_compiled import readable
from tidelog.records.kernels.arrow_encode import EncodedBatch

_POSITION_BYTES: Final = 4
_NOTHING: Final = b""


class ColumnBuffers(NamedTuple):
    """A column of bytes as Arrow gives it: `offset` is where its first row is in all three buffers."""

    positions: Buffer
    data: Buffer
    validity: Buffer | None
    offset: int


def column_of(buffers: ColumnBuffers | None, count: int) -> kernels.Column:
    """A column for the kernels; None if all `count` rows are null.

    Raises ValueError if its positions are not in order, or beyond its data.
    """
    nothing = readable(_NOTHING)
    if buffers is None or not count:
        return kernels.Column(_frozen(np.zeros(0, dtype=np.int32)), nothing, np.full(count, -1, dtype=np.int32))
    start = buffers.offset * _POSITION_BYTES
    positions = np.frombuffer(buffers.positions, dtype=np.int32, count=count + 1, offset=start)
    data = readable(buffers.data)
    bits = nothing if buffers.validity is None else readable(buffers.validity)
    column = kernels.Column(_frozen(positions), data, np.empty(count, dtype=np.int32))
    is_short = len(bits) and 8 * len(bits) < buffers.offset + count
    if is_short or not kernels.measure(column.positions, len(data), bits, buffers.offset, column.sizes):
        raise ValueError(f"a column of {count} rows has positions that are not in order, or beyond its data")
    return column


def choose_partitions(
    keys: kernels.Column,
    values: kernels.Column,
    count: int,
    partition_count: int,
    *,
    first: int,
    sticky_bytes: int,
    ignores_keys: bool = False,
) -> tuple[Numbers, int]:
    """The partitions of rows: by murmur2 of their keys, sticky without; and where the next ones without key begin."""
    partitions = np.empty(count, dtype=np.int64)
    following = kernels.choose_partitions(
        keys, values, count, partition_count, first, sticky_bytes, ignores_keys, partitions
    )
    return partitions, int(following) % partition_count


def encode_columns(
    keys: kernels.Column,
    values: kernels.Column,
    headers: kernels.Column,
    timestamps: Any,
    partitions: Any,
    partition_count: int,
    limit_bytes: int,
) -> list[EncodedBatch]:
    """The batches of all rows, partition by partition, as views of one buffer."""
    timestamps = np.ascontiguousarray(timestamps, dtype=np.int64)
    partitions = np.ascontiguousarray(partitions, dtype=np.int64)
    count = len(partitions)
    if count and not 0 <= int(partitions.min()) <= int(partitions.max()) < partition_count:
        raise ValueError(f"partitions {partitions.min()} to {partitions.max()} are not all below {partition_count}")
    if any(len(column.sizes) != count for column in (keys, values, headers)):
        raise ValueError(f"there are {count} partitions for columns of another length")
    starts = np.zeros(partition_count + 1, dtype=np.int64)
    order = np.empty(count, dtype=np.int64)
    kernels.group_rows(partitions, partition_count, starts, order)
    # The worst case, a batch for every record; what is not written to takes no memory.
    size = sum(_data_bytes(column) for column in (keys, values, headers))
    out = np.empty(size + count * (RECORD_OVERHEAD_BYTES_MAX + HEADER_BYTES), dtype=np.uint8)
    table = np.empty((count, 4), dtype=np.int64)
    made = int(kernels.encode_rows(order, starts, limit_bytes, keys, values, headers, timestamps, out, table))
    view = out.data
    batches: list[EncodedBatch] = []
    for partition, start, end, records in table[:made].tolist():
        data = view[start:end]
        seal(data, len(data))
        batches.append(EncodedBatch(partition, records, data))
    return batches


def _data_bytes(column: kernels.Column) -> int:
    positions = column.positions
    return int(positions[-1]) - int(positions[0]) if len(positions) else 0


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array
