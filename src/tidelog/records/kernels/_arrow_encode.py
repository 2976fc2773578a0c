"""The kernels behind `arrow_encode_compiled`: partitions of keys, and rows of Arrow columns into record batches.

Positions of keys and values come from Arrow and are checked once by `measure`; the caller makes the output
large enough for the worst case, so nothing is checked while batches are written.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.records.header import (
    ATTRIBUTES_POSITION,
    BASE_SEQUENCE_POSITION,
    BASE_TIMESTAMP_POSITION,
    CRC_POSITION,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_POSITION,
    LENGTH_POSITION,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    PARTITION_LEADER_EPOCH_POSITION,
    PRODUCER_EPOCH_POSITION,
    PRODUCER_ID_POSITION,
    RECORD_COUNT_POSITION,
)
from tidelog.records.kernels._arrow_copy import copy_bytes
from tidelog.records.kernels._bytes import put_int16, put_int32, put_int64, put_varint, uint32_at, varint_bytes
from tidelog.records.kernels._compile import Bytes, Int, Numbers, kernel

_RECORD_OVERHEAD_BYTES: Final = 13

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


class Column(NamedTuple):
    """A column of bytes: as Arrow lays it out, and how many bytes each row has, -1 for null.

    `positions` is empty if every row is null. Sizes are stored because they are used several times, and a call with
    array arguments to compute one would cost more than the rest of a row's work.
    """

    positions: NDArray[np.int32]
    data: Bytes
    sizes: NDArray[np.int32]


@kernel
def measure(positions: Any, data_bytes: Int, bits: Bytes, first_bit: Int, sizes: Any) -> bool:
    """Fill in sizes. False if positions do not rise, or go beyond the data. `bits` is empty if nothing is null."""
    if positions[0] < 0 or positions[len(positions) - 1] > data_bytes:
        return False
    for row in range(len(sizes)):
        sizes[row] = positions[row + 1] - positions[row]
        if positions[row + 1] < positions[row]:
            return False
    if len(bits):
        for row in range(len(sizes)):
            bit = np.uint64(first_bit + row)
            if not (bits[bit >> np.uint64(3)] >> np.uint8(bit & np.uint64(7))) & 1:
                sizes[row] = -1
    return True


@kernel
def murmur2(data: Bytes, start: Int, size: Int) -> Int:
    """Kafka's 32-bit murmur2, unsigned. Products of two 32-bit numbers, the multiplier among them, fit 63 bits."""
    value = np.int64(_SEED) ^ size
    words = size >> 2
    for index in range(words):
        at = start + 4 * index
        swapped = uint32_at(data, at)
        word = (swapped >> 24) | ((swapped >> 8) & 0xFF00) | ((swapped << 8) & 0xFF0000) | ((swapped & 0xFF) << 24)
        mixed = word * _MULTIPLIER & _MASK
        mixed = (mixed ^ (mixed >> 24)) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ mixed
    rest = size & 3
    if rest:
        at = start + 4 * words
        tail = np.int64(0)
        for index in range(rest):
            tail |= np.int64(data[at + index]) << (8 * index)
        value = (value ^ tail) * _MULTIPLIER & _MASK
    value ^= value >> 13
    value = value * _MULTIPLIER & _MASK
    return value ^ (value >> 15)


@kernel
def choose_partitions(
    keys: Column,
    values: Column,
    count: Int,
    partition_count: Int,
    first: Int,
    sticky_bytes: Int,
    ignores_keys: bool,
    partitions: Numbers,
) -> Int:
    """The partition of every row, by its key or sticky without one; the sticky partition that comes next."""
    used = np.int64(0)
    key_positions, key_data, key_sizes, value_sizes = keys.positions, keys.data, keys.sizes, values.sizes
    for row in range(count):
        key_size = np.int64(key_sizes[row])
        if key_size >= 0 and not ignores_keys:
            partitions[row] = (murmur2(key_data, key_positions[row], key_size) & 0x7FFFFFFF) % partition_count
            continue
        if used >= sticky_bytes:
            first += 1
            used = np.int64(0)
        partitions[row] = first % partition_count
        used += max(key_size, 0) + max(value_sizes[row], 0) + _RECORD_OVERHEAD_BYTES
    return first + 1


@kernel
def group_rows(partitions: Numbers, partition_count: Int, starts: Numbers, order: Numbers) -> None:
    """Row numbers in order of their partitions; those of partition p are from starts[p] to starts[p + 1]."""
    for partition in partitions:
        starts[partition + 1] += 1
    for partition in range(partition_count):
        starts[partition + 1] += starts[partition]
    places = starts.copy()
    for row in range(len(partitions)):
        partition = partitions[row]
        order[places[partition]] = row
        places[partition] += 1


@kernel
def _seal(out: Bytes, start: Int, end: Int, count: Int, base_timestamp: Int, max_timestamp: Int) -> None:
    """The header of a batch, but its checksum, and without a producer."""
    put_int64(out, start, 0)
    put_int32(out, start + LENGTH_POSITION, end - start - LENGTH_PREFIX_BYTES)
    put_int32(out, start + PARTITION_LEADER_EPOCH_POSITION, -1)
    out[start + MAGIC_POSITION] = MAGIC
    put_int32(out, start + CRC_POSITION, 0)
    put_int16(out, start + ATTRIBUTES_POSITION, 0)
    put_int32(out, start + LAST_OFFSET_DELTA_POSITION, count - 1)
    put_int64(out, start + BASE_TIMESTAMP_POSITION, base_timestamp)
    put_int64(out, start + MAX_TIMESTAMP_POSITION, max_timestamp)
    put_int64(out, start + PRODUCER_ID_POSITION, -1)
    put_int16(out, start + PRODUCER_EPOCH_POSITION, -1)
    put_int32(out, start + BASE_SEQUENCE_POSITION, -1)
    put_int32(out, start + RECORD_COUNT_POSITION, count)


@kernel
def _body_bytes(timestamp_delta: Int, offset_delta: Int, key_size: Int, value_size: Int, header_size: Int) -> Int:
    return (
        1
        + varint_bytes(timestamp_delta)
        + varint_bytes(offset_delta)
        + varint_bytes(key_size)
        + max(key_size, 0)
        + varint_bytes(value_size)
        + max(value_size, 0)
        + max(header_size, 1)
    )


@kernel
def encode_rows(
    order: Numbers,
    starts: Numbers,
    limit_bytes: Int,
    keys: Column,
    values: Column,
    headers: Column,
    timestamps: Numbers,
    out: Bytes,
    batches: Numbers,
) -> Int:
    """Write the batches of all partitions; how many there are. A row of `batches`: partition, start, end, records."""
    # Every array that is taken out of a column is counted as one more reference: done once, not per record.
    key_positions, key_data, key_sizes = keys.positions, keys.data, keys.sizes
    value_positions, value_data, value_sizes = values.positions, values.data, values.sizes
    header_positions, header_data, header_sizes = headers.positions, headers.data, headers.sizes
    made = np.int64(0)
    position = np.int64(0)
    for partition in range(len(starts) - 1):
        start = position
        count = base_timestamp = max_timestamp = np.int64(0)
        for index in range(starts[partition], starts[partition + 1]):
            row = np.uint64(order[index])
            timestamp = timestamps[row]
            key_size, value_size = np.int64(key_sizes[row]), np.int64(value_sizes[row])
            header_size = np.int64(header_sizes[row])
            size = _body_bytes(timestamp - base_timestamp, count, key_size, value_size, header_size)
            if count and position - start + size + varint_bytes(size) > limit_bytes:
                _seal(out, start, position, count, base_timestamp, max_timestamp)
                batches[made, 0], batches[made, 1], batches[made, 2], batches[made, 3] = (
                    partition,
                    start,
                    position,
                    count,
                )
                made += 1
                start = position
                count = np.int64(0)
            if not count:
                base_timestamp = max_timestamp = timestamp
                position = start + HEADER_BYTES
                size = _body_bytes(np.int64(0), np.int64(0), key_size, value_size, header_size)
            max_timestamp = max(max_timestamp, timestamp)
            position = put_varint(out, position, size)
            out[position] = 0
            position = put_varint(out, position + 1, timestamp - base_timestamp)
            position = put_varint(out, position, count)
            position = put_varint(out, position, key_size)
            if key_size > 0:
                copy_bytes(key_data, key_positions[row], key_size, out, position)
                position += key_size
            position = put_varint(out, position, value_size)
            if value_size > 0:
                copy_bytes(value_data, value_positions[row], value_size, out, position)
                position += value_size
            if header_size > 0:
                copy_bytes(header_data, header_positions[row], header_size, out, position)
                position += header_size
            else:
                out[position] = 0
                position += 1
            count += 1
        if count:
            _seal(out, start, position, count, base_timestamp, max_timestamp)
            batches[made, 0], batches[made, 1], batches[made, 2], batches[made, 3] = partition, start, position, count
            made += 1
    return made
