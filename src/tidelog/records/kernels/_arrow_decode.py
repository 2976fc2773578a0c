"""The kernels behind `arrow_decode_compiled`: one pass over the bytes of batches, straight into Arrow's buffers.

Every length is checked against the end of its record, and that against the end of the batch, before anything is read.
Records are counted in `Rows.state` only when their whole batch was valid, so a malformed batch adds nothing.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.records.header import (
    ATTRIBUTES_POSITION,
    BASE_TIMESTAMP_POSITION,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_POSITION,
    LENGTH_POSITION,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    RECORD_COUNT_POSITION,
    TRANSACTIONAL_BIT,
)
from tidelog.records.kernels._arrow_copy import copy_bytes
from tidelog.records.kernels._bytes import int16_at, int32_at, int64_at, varint_at, varlong_at
from tidelog.records.kernels._compile import Bytes, Int, Numbers, kernel

CORRUPT: Final = -1

# Where the numbers of `Rows.state` are.
COUNT: Final = 0
KEY_BYTES: Final = 1
VALUE_BYTES: Final = 2
KEY_NULLS: Final = 3
VALUE_NULLS: Final = 4
WITH_HEADERS: Final = 5
STATE_NUMBERS: Final = 6

_RECORD_BYTES_MIN: Final = 7

_MICROS: Final = 1000
_INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)
_MILLIS_MAX: Final = _INT64_MAX // _MICROS
_MILLIS_MIN: Final = -_MILLIS_MAX


class Rows(NamedTuple):
    """The columns that are being filled. `header_positions` says where in the data a record's headers are, or -1."""

    offsets: Numbers
    timestamps: Numbers
    types: NDArray[np.int32]
    key_positions: NDArray[np.int32]
    key_bits: Bytes
    key_data: Bytes
    value_positions: NDArray[np.int32]
    value_bits: Bytes
    value_data: Bytes
    header_positions: Numbers
    state: Numbers
    wants_keys: bool
    wants_values: bool


@kernel
def _micros(milliseconds: Int) -> Int:
    if milliseconds > _MILLIS_MAX:
        return np.int64(_INT64_MAX)
    if milliseconds < _MILLIS_MIN:
        return np.int64(_INT64_MIN)
    return milliseconds * _MICROS


@kernel
def _skip_headers(data: Bytes, position: Int, end: Int) -> Int:
    """The position after the headers of a record, or -1."""
    count, position = varint_at(data, position, end)
    if position < 0 or count < 0:
        return np.int64(CORRUPT)
    for _ in range(count):
        size, position = varint_at(data, position, end)
        if position < 0 or size < 0 or size > end - position:
            return np.int64(CORRUPT)
        size, position = varint_at(data, position + size, end)
        if position < 0 or size < -1 or size > end - position:
            return np.int64(CORRUPT)
        if size > 0:
            position += size
    return np.int64(position)


@kernel
def _shape(data: Bytes, position: Int, end: Int) -> tuple[Int, Int, Int, Int, Int, Int, Int, Int]:
    """Of the record at `position`: its end, or -1, the two deltas, where key, value and headers are, and their sizes.

    The place of the headers is -1 if there are none.
    """
    bad = np.int64(CORRUPT)
    size, position = varint_at(data, position, end)
    if position < 0 or size < 0 or size > end - position:
        return bad, bad, bad, bad, bad, bad, bad, bad
    end = position + size
    timestamp, position = varlong_at(data, position + 1, end)
    if position < 0:
        return bad, bad, bad, bad, bad, bad, bad, bad
    delta, position = varint_at(data, position, end)
    if position < 0:
        return bad, bad, bad, bad, bad, bad, bad, bad
    key_size, key_start = varint_at(data, position, end)
    if key_start < 0 or key_size < -1 or key_size > end - key_start:
        return bad, bad, bad, bad, bad, bad, bad, bad
    value_size, value_start = varint_at(data, key_start + max(key_size, 0), end)
    if value_start < 0 or value_size < -1 or value_size > end - value_start:
        return bad, bad, bad, bad, bad, bad, bad, bad
    position = value_start + max(value_size, 0)
    header_start = bad
    if position < end and data[np.uint64(position)] == 0:
        position += 1
    else:
        header_start = position
        position = _skip_headers(data, position, end)
    if position != end:
        return bad, bad, bad, bad, bad, bad, bad, bad
    return end, timestamp, delta, key_start, key_size, value_start, value_size, header_start


@kernel
def add_records(
    data: Bytes,
    position: Int,
    end: Int,
    count: Int,
    base_offset: Int,
    base_timestamp: Int,
    append_time: Int,
    is_append_time: bool,
    first_offset: Int,
    rows: Rows,
) -> Int:
    """Add `count` records, which must fill `data` from `position` to `end`. 0, or -1 if they are not well formed."""
    # Every array that is taken out of `rows` is counted as one more reference, so it is done once and not per record.
    offsets, timestamps, types, header_positions = rows.offsets, rows.timestamps, rows.types, rows.header_positions
    key_positions, key_bits, key_data = rows.key_positions, rows.key_bits, rows.key_data
    value_positions, value_bits, value_data = rows.value_positions, rows.value_bits, rows.value_data
    state, wants_keys, wants_values = rows.state, rows.wants_keys, rows.wants_values
    row = state[COUNT]
    key_end = state[KEY_BYTES]
    value_end = state[VALUE_BYTES]
    key_nulls = value_nulls = with_headers = np.int64(0)
    for _ in range(count):
        position, timestamp, delta, key_start, key_size, value_start, value_size, header_start = _shape(
            data, position, end
        )
        if position < 0:
            return np.int64(CORRUPT)
        if base_offset + delta < first_offset:
            continue
        index = np.uint64(row)
        offsets[index] = base_offset + delta
        timestamps[index] = _micros(append_time if is_append_time else base_timestamp + timestamp)
        types[index] = 1 if is_append_time else 0
        header_positions[index] = header_start
        with_headers += header_start >= 0
        # Not a function of its own: a call that hands over so many arrays costs as much as the rest of a record.
        byte, bit = np.uint64(row >> 3), np.uint8(1 << (row & 7))
        if wants_keys:
            if key_size >= 0:
                key_bits[byte] |= bit
                copy_bytes(data, key_start, key_size, key_data, key_end)
                key_end += key_size
            else:
                # A bit may be left from a batch that turned out to be corrupt.
                key_bits[byte] &= ~bit
                key_nulls += 1
            key_positions[np.uint64(row + 1)] = key_end
        if wants_values:
            if value_size >= 0:
                value_bits[byte] |= bit
                copy_bytes(data, value_start, value_size, value_data, value_end)
                value_end += value_size
            else:
                value_bits[byte] &= ~bit
                value_nulls += 1
            value_positions[np.uint64(row + 1)] = value_end
        row += 1
    if position != end:
        return np.int64(CORRUPT)
    state[COUNT] = row
    state[KEY_BYTES] = key_end
    state[VALUE_BYTES] = value_end
    state[KEY_NULLS] += key_nulls
    state[VALUE_NULLS] += value_nulls
    state[WITH_HEADERS] += with_headers
    return np.int64(0)


@kernel
def _is_plain(data: Bytes, position: Int, stop: Int, sees_transactions: bool) -> bool:
    """Whether the batch at `position` is whole, has a plausible header, and is of the kind that a run handles."""
    if stop - position < HEADER_BYTES:
        return False
    length = int32_at(data, position + LENGTH_POSITION)
    if length < HEADER_BYTES - LENGTH_PREFIX_BYTES or length > stop - position - LENGTH_PREFIX_BYTES:
        return False
    if data[position + MAGIC_POSITION] != MAGIC:
        return False
    attributes = int16_at(data, position + ATTRIBUTES_POSITION)
    if attributes & CODEC_MASK or (not sees_transactions and attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)):
        return False
    count = int32_at(data, position + RECORD_COUNT_POSITION)
    return bool(count >= 0 and count * _RECORD_BYTES_MIN <= length - (HEADER_BYTES - LENGTH_PREFIX_BYTES))


@kernel
def count_run(data: Bytes, position: Int, stop: Int, sees_transactions: bool) -> tuple[Int, Int]:
    """How many records a run from `position` on can have, and where it ends."""
    count = np.int64(0)
    while _is_plain(data, position, stop, sees_transactions):
        count += int32_at(data, position + RECORD_COUNT_POSITION)
        position += int32_at(data, position + LENGTH_POSITION) + LENGTH_PREFIX_BYTES
    return count, np.int64(position)


@kernel
def add_run(data: Bytes, position: Int, stop: Int, first_offset: Int, rows: Rows) -> Int:
    """Add the batches of a run that `count_run` measured; the position of the first that cannot be read, or the end."""
    while position < stop:
        attributes = int16_at(data, position + ATTRIBUTES_POSITION)
        base_offset = int64_at(data, position)
        after = position + int32_at(data, position + LENGTH_POSITION) + LENGTH_PREFIX_BYTES
        if (
            not attributes & CONTROL_BIT
            and base_offset + int32_at(data, position + LAST_OFFSET_DELTA_POSITION) >= first_offset
        ):
            status = add_records(
                data,
                position + HEADER_BYTES,
                after,
                int32_at(data, position + RECORD_COUNT_POSITION),
                base_offset,
                int64_at(data, position + BASE_TIMESTAMP_POSITION),
                int64_at(data, position + MAX_TIMESTAMP_POSITION),
                attributes & LOG_APPEND_TIME_BIT != 0,
                first_offset,
                rows,
            )
            if status < 0:
                return np.int64(position)
        position = after
    return np.int64(position)
