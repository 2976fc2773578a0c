"""Compaction, compiled: records of one batch, and runs of plain batches. `compaction_compiled` is the caller.

The offset map is an open-addressed table of three 64-bit words a slot: the two halves of the key's hash, and the offset
plus one, so that zero is a free slot. `state` holds the numbers of a round (`KEYS` and following).

A run takes batches of magic 2 that are neither compressed, transactional nor control batches, and whose checksum is
right. It stops at the first other batch, which the caller handles; so these functions report no errors.
"""

import numpy as np

from tidelog.records.header import (
    ATTRIBUTES_POSITION,
    BASE_TIMESTAMP_POSITION,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_POSITION,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_POSITION,
    LENGTH_POSITION,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    PRODUCER_ID_POSITION,
    RECORD_COUNT_POSITION,
    TRANSACTIONAL_BIT,
)
from tidelog.records.kernels._bytes import (
    copy,
    int16_at,
    int32_at,
    int64_at,
    put_int16,
    put_int32,
    put_int64,
    put_varint,
    uint32_at,
    varint_at,
    varint_bytes,
    varlong_at,
)
from tidelog.records.kernels._compile import Bytes, Int, Numbers, Words, kernel
from tidelog.records.kernels._hashing import crc32c, siphash

# state
KEYS, KEYS_MAX, LATEST_OFFSET, IS_FULL, RECORDS_READ, RECORDS_KEPT, RECORDS_WITHOUT_KEY = range(7)
STATE_NUMBERS = 7

# batch: what a filter needs to know of a batch and of the round
BASE_OFFSET, BASE_TIMESTAMP, MAX_TIMESTAMP, IS_LOG_APPEND_TIME, HAS_HORIZON, COUNT, NOW_MS, RETENTION_MS = range(8)
BATCH_NUMBERS = 8

# kept: what a filter found of the batch's records
KEPT, NEW_BASE_TIMESTAMP, NEW_MAX_TIMESTAMP, NEW_HAS_HORIZON, IS_UNCHANGED = range(5)
KEPT_NUMBERS = 5

# scratch: a row for each record that stays
REST, END, TIMESTAMP, OFFSET_DELTA = range(4)
SCRATCH_NUMBERS = 4

# cursor, as `IndexCursor`
POSITION, BYTES_SINCE_ENTRY, CURSOR_MAX_TIMESTAMP, CURSOR_MAX_OFFSET, INTERVAL_BYTES = range(5)
CURSOR_NUMBERS = 5

# outcome of a run
REACHED, USED, ENTRIES, IS_OUTPUT_FULL = range(4)
OUTCOME_NUMBERS = 4

CORRUPT = -1
SLOT_WORDS = 3
RECORD_GROWTH_MAX = 14
"""A record may grow by nine bytes of timestamp, and by the longer varint of its length."""

_NOT_PLAIN = CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT

"""Codec, transactional and control bits."""


@kernel
def find(table: Words, slots: Int, low: np.uint64, high: np.uint64) -> Int:
    """The first word of the slot that holds the hash, or of the free one where it would go."""
    slot: Int = np.int64(low % np.uint64(slots))
    while True:
        word = slot * SLOT_WORDS
        if table[word + 2] == np.uint64(0) or (table[word] == low and table[word + 1] == high):
            return word
        slot += 1
        if slot == slots:
            slot = 0


@kernel
def latest_offset(data: Bytes, start: Int, end: Int, table: Words, secret: Words) -> Int:
    """The last offset of the key data[start:end]; -1 when it is not in the map."""
    low, high = siphash(data, start, end, secret[0], secret[1])
    return np.int64(table[find(table, len(table) // SLOT_WORDS, low, high) + 2]) - 1


@kernel
def _parse_record(data: Bytes, position: Int, limit: Int) -> tuple[Int, Int, Int, Int, Int, Int, Int]:
    """End, timestamp delta, offset delta, position behind it, position and size of the key, size of the value."""
    corrupt = (np.int64(CORRUPT), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    length, position = varint_at(data, position, limit)
    if position < 0 or length < 1 or position + length > limit:
        return corrupt
    end = position + length
    timestamp, position = varlong_at(data, position + 1, end)
    if position < 0:
        return corrupt
    offset, position = varint_at(data, position, end)
    if position < 0:
        return corrupt
    rest = position
    key_bytes, position = varint_at(data, position, end)
    if position < 0 or key_bytes < -1 or position + max(key_bytes, 0) > end:
        return corrupt
    key = position
    position += max(key_bytes, 0)
    value_bytes, position = varint_at(data, position, end)
    if position < 0 or value_bytes < -1 or position + max(value_bytes, 0) > end:
        return corrupt
    position = _skip_headers(data, position + max(value_bytes, 0), end)
    if position != end:
        return corrupt
    return end, timestamp, offset, rest, key, key_bytes, value_bytes


@kernel
def _skip_headers(data: Bytes, position: Int, end: Int) -> Int:
    count, position = varint_at(data, position, end)
    if position < 0 or count < 0:
        return np.int64(CORRUPT)
    for _ in range(count):
        size, position = varint_at(data, position, end)
        if position < 0 or size < 0 or position + size > end:
            return np.int64(CORRUPT)
        size, position = varint_at(data, position + size, end)
        if position < 0 or size < -1 or position + max(size, 0) > end:
            return np.int64(CORRUPT)
        position += max(size, 0)
    return position


@kernel
def index_records(
    data: Bytes,
    position: Int,
    limit: Int,
    count: Int,
    base_offset: Int,
    first_offset: Int,
    table: Words,
    state: Numbers,
    secret: Words,
) -> Int:
    """Put the keys of the `count` records in data[position:limit] into the map; CORRUPT if they are malformed."""
    slots = len(table) // SLOT_WORDS
    for _ in range(count):
        end, _, delta, _, key, key_bytes, _ = _parse_record(data, position, limit)
        if end < 0:
            return CORRUPT
        position = end
        offset = base_offset + delta
        if key_bytes < 0 or offset < first_offset:
            continue
        if state[KEYS] >= state[KEYS_MAX]:
            state[IS_FULL] = 1
            return 0
        low, high = siphash(data, key, key + key_bytes, secret[0], secret[1])
        word = find(table, slots, low, high)
        if table[word + 2] == np.uint64(0):
            table[word] = low
            table[word + 1] = high
            state[KEYS] += 1
        table[word + 2] = np.uint64(offset + 1)
        state[LATEST_OFFSET] = offset
    return 0 if position == limit else CORRUPT


@kernel
def select_records(
    data: Bytes,
    position: Int,
    limit: Int,
    batch: Numbers,
    table: Words,
    state: Numbers,
    secret: Words,
    scratch: Numbers,
    kept: Numbers,
) -> Int:
    """Select the records in data[position:limit] that stay: a row of `scratch` for each, `kept` for all of them."""
    count = batch[COUNT]
    has_horizon = batch[HAS_HORIZON] != 0
    may_drop_tombstones = has_horizon and batch[NOW_MS] >= batch[BASE_TIMESTAMP]
    found = without_key = 0
    has_tombstone = False
    max_timestamp = np.int64(-1)
    for _ in range(count):
        end, delta, offset_delta, rest, key, key_bytes, value_bytes = _parse_record(data, position, limit)
        if end < 0:
            return CORRUPT
        position = end
        offset = batch[BASE_OFFSET] + offset_delta
        if offset <= state[LATEST_OFFSET]:
            if key_bytes < 0:
                without_key += 1
                continue
            if value_bytes < 0 and may_drop_tombstones:
                continue
            if offset < latest_offset(data, key, key + key_bytes, table, secret):
                continue
        timestamp = batch[MAX_TIMESTAMP] if batch[IS_LOG_APPEND_TIME] else batch[BASE_TIMESTAMP] + delta
        scratch[found, REST] = rest
        scratch[found, END] = end
        scratch[found, TIMESTAMP] = timestamp
        scratch[found, OFFSET_DELTA] = offset_delta
        found += 1
        max_timestamp = max(max_timestamp, timestamp)
        has_tombstone = has_tombstone or value_bytes < 0
    if position != limit:
        return CORRUPT
    state[RECORDS_READ] += count
    state[RECORDS_KEPT] += found
    state[RECORDS_WITHOUT_KEY] += without_key
    kept[KEPT] = found
    kept[NEW_MAX_TIMESTAMP] = max_timestamp
    kept[NEW_HAS_HORIZON] = 1 if has_horizon or has_tombstone else 0
    kept[IS_UNCHANGED] = 1 if found == count and not (has_tombstone and not has_horizon) else 0
    if has_horizon:
        kept[NEW_BASE_TIMESTAMP] = batch[BASE_TIMESTAMP]
    elif has_tombstone:
        kept[NEW_BASE_TIMESTAMP] = batch[NOW_MS] + batch[RETENTION_MS]
    elif found:
        kept[NEW_BASE_TIMESTAMP] = scratch[0, TIMESTAMP]
    return 0


@kernel
def write_records(data: Bytes, scratch: Numbers, kept: Numbers, out: Bytes, position: Int) -> Int:
    """Write the selected records at `position` of `out`; the position after them."""
    base_timestamp = kept[NEW_BASE_TIMESTAMP]
    for row in range(kept[KEPT]):
        rest, end = scratch[row, REST], scratch[row, END]
        delta = scratch[row, TIMESTAMP] - base_timestamp
        offset_delta = scratch[row, OFFSET_DELTA]
        length = 1 + varint_bytes(delta) + varint_bytes(offset_delta) + end - rest
        position = put_varint(out, position, length)
        out[position] = 0
        position = put_varint(out, position + 1, delta)
        position = put_varint(out, position, offset_delta)
        copy(data, rest, end, out, position)
        position += end - rest
    return position


@kernel
def index_run(
    window: Bytes, position: Int, stop: Int, first_offset: Int, table: Words, state: Numbers, secret: Words
) -> Int:
    """Put the keys of plain batches into the map; returns where the first other batch begins, or the map got full."""
    while position + HEADER_BYTES <= stop:
        size = int32_at(window, position + LENGTH_POSITION) + LENGTH_PREFIX_BYTES
        if not _is_plain(window, position, size, stop):
            break
        base_offset = int64_at(window, position)
        count = int32_at(window, position + RECORD_COUNT_POSITION)
        start, end = position + HEADER_BYTES, position + size
        if index_records(window, start, end, count, base_offset, first_offset, table, state, secret) < 0:
            break
        if state[IS_FULL]:
            break
        last_offset = base_offset + int32_at(window, position + LAST_OFFSET_DELTA_POSITION)
        if last_offset >= first_offset:
            state[LATEST_OFFSET] = last_offset
        position = end
    return position


@kernel
def _is_plain(window: Bytes, position: Int, size: Int, stop: Int) -> bool:
    """Whether there is a whole batch at `position` that a run may handle."""
    if size < HEADER_BYTES or position + size > stop or window[position + MAGIC_POSITION] != MAGIC:
        return False
    if (
        int16_at(window, position + ATTRIBUTES_POSITION) & _NOT_PLAIN
        or int32_at(window, position + RECORD_COUNT_POSITION) < 0
    ):
        return False
    checksum = uint32_at(window, position + CRC_POSITION)
    is_intact: bool = crc32c(window, position + ATTRIBUTES_POSITION, position + size) == checksum
    return is_intact


@kernel
def rewrite_run(
    window: Bytes,
    position: Int,
    stop: Int,
    batch: Numbers,
    kept_offsets: Numbers,
    table: Words,
    state: Numbers,
    secret: Words,
    scratch: Numbers,
    kept: Numbers,
    out: Bytes,
    cursor: Numbers,
    entries: Numbers,
    outcome: Numbers,
) -> None:
    """Write the records of plain batches that stay to `out`, and the index entries that are due to `entries`."""
    used = entry_count = 0
    outcome[IS_OUTPUT_FULL] = 0
    while position + HEADER_BYTES <= stop:
        size = int32_at(window, position + LENGTH_POSITION) + LENGTH_PREFIX_BYTES
        count = int32_at(window, position + RECORD_COUNT_POSITION)
        if size < HEADER_BYTES or position + size > stop or count > len(scratch):
            break
        if used + size + RECORD_GROWTH_MAX * count > len(out) or entry_count == len(entries):
            outcome[IS_OUTPUT_FULL] = 1 if used else 0
            break
        if not _is_plain(window, position, size, stop):
            break
        last_offset = int64_at(window, position) + int32_at(window, position + LAST_OFFSET_DELTA_POSITION)
        if int64_at(window, position + PRODUCER_ID_POSITION) >= 0 and _holds(kept_offsets, last_offset):
            break
        _describe(window, position, count, batch)
        start = position + HEADER_BYTES
        if select_records(window, start, position + size, batch, table, state, secret, scratch, kept) < 0:
            break
        if kept[IS_UNCHANGED] and count:
            copy(window, position, position + size, out, used)
            written, max_timestamp = size, batch[MAX_TIMESTAMP]
        elif kept[KEPT]:
            written = _write_batch(window, position, batch, scratch, kept, out, used)
            max_timestamp = int64_at(out, used + MAX_TIMESTAMP_POSITION)
        else:
            written, max_timestamp = 0, 0
        position += size
        if written:
            entry_count += _advance(cursor, last_offset, max_timestamp, written, entries, entry_count)
            used += written
    outcome[REACHED] = position
    outcome[USED] = used
    outcome[ENTRIES] = entry_count


@kernel
def _describe(window: Bytes, position: Int, count: Int, batch: Numbers) -> None:
    attributes = int16_at(window, position + ATTRIBUTES_POSITION)
    batch[BASE_OFFSET] = int64_at(window, position)
    batch[BASE_TIMESTAMP] = int64_at(window, position + BASE_TIMESTAMP_POSITION)
    batch[MAX_TIMESTAMP] = int64_at(window, position + MAX_TIMESTAMP_POSITION)
    batch[IS_LOG_APPEND_TIME] = attributes & LOG_APPEND_TIME_BIT
    batch[HAS_HORIZON] = attributes & DELETE_HORIZON_BIT
    batch[COUNT] = count


@kernel
def _write_batch(
    window: Bytes, position: Int, batch: Numbers, scratch: Numbers, kept: Numbers, out: Bytes, start: Int
) -> Int:
    """The batch at `position` with the selected records, at `start` of `out`; its size."""
    copy(window, position, position + HEADER_BYTES, out, start)
    end = write_records(window, scratch, kept, out, start + HEADER_BYTES)
    size = end - start
    attributes = int16_at(window, position + ATTRIBUTES_POSITION)
    put_int32(out, start + LENGTH_POSITION, size - LENGTH_PREFIX_BYTES)
    attributes = attributes | DELETE_HORIZON_BIT if kept[NEW_HAS_HORIZON] else attributes
    put_int16(out, start + ATTRIBUTES_POSITION, attributes)
    put_int64(out, start + BASE_TIMESTAMP_POSITION, kept[NEW_BASE_TIMESTAMP])
    max_timestamp = batch[MAX_TIMESTAMP] if batch[IS_LOG_APPEND_TIME] else kept[NEW_MAX_TIMESTAMP]
    put_int64(out, start + MAX_TIMESTAMP_POSITION, max_timestamp)
    put_int32(out, start + RECORD_COUNT_POSITION, kept[KEPT])
    put_int32(out, start + CRC_POSITION, np.int64(crc32c(out, start + ATTRIBUTES_POSITION, end)))
    return size


@kernel
def _advance(
    cursor: Numbers, last_offset: Int, max_timestamp: Int, size: Int, entries: Numbers, entry_count: Int
) -> Int:
    """`IndexCursor.advance`; how many entries were due."""
    due = 0
    if max_timestamp > cursor[CURSOR_MAX_TIMESTAMP]:
        cursor[CURSOR_MAX_TIMESTAMP] = max_timestamp
        cursor[CURSOR_MAX_OFFSET] = last_offset
    if cursor[BYTES_SINCE_ENTRY] > cursor[INTERVAL_BYTES]:
        entries[entry_count, 0] = last_offset
        entries[entry_count, 1] = cursor[POSITION]
        entries[entry_count, 2] = cursor[CURSOR_MAX_TIMESTAMP]
        entries[entry_count, 3] = cursor[CURSOR_MAX_OFFSET]
        cursor[BYTES_SINCE_ENTRY] = 0
        due = 1
    cursor[BYTES_SINCE_ENTRY] += size
    cursor[POSITION] += size
    return due


@kernel
def _holds(ascending: Numbers, wanted: Int) -> bool:
    low, high = 0, len(ascending)
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low < len(ascending) and ascending[low] == wanted
