"""The batches of a fetched answer, looked at from outside: how many are whole, where they end, whether they are sound.

Runs before anything is decoded, so that the next answer can be asked for first. `fetching` is the caller. Pure.
"""

from typing import NamedTuple

from tidelog.records.batch import iterate_extents
from tidelog.records.builder import build_batch
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import (
    HEADER_BYTES,
    LEGACY_ATTRIBUTES_POSITION,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_POSITION,
    TimestampType,
    is_intact,
)
from tidelog.records.legacy import iterate_legacy_records


class Walk(NamedTuple):
    """What was found in an answer."""

    size_bytes: int
    """The whole batches that begin before the end that was asked for."""
    next_offset: int
    """Where to read on."""
    has_old_format: bool


def walk_batches(data: memoryview, first_offset: int, end_offset: int, *, check_crcs: bool) -> Walk:
    """Look at batches up to `end_offset`; one that is cut off, as brokers may do to the last, is left out.

    Raises CorruptRecordError for invalid batches.
    """
    size_bytes, next_offset, has_old_format = 0, first_offset, False
    for position, after, magic, base_offset, last_offset in iterate_extents(data):
        if magic == MAGIC:
            if base_offset >= end_offset:
                # Nothing lies between the last batch and this one, so everything before the end was seen.
                return Walk(position, max(next_offset, end_offset), has_old_format)
            if after - position < HEADER_BYTES:
                raise CorruptRecordError(f"the batch at offset {base_offset} is shorter than its header")
            if check_crcs and not is_intact(data[position:after]):
                raise CorruptRecordError(f"the batch at offset {base_offset} fails its CRC")
        else:
            has_old_format = True
        next_offset = max(next_offset, last_offset + 1)
        size_bytes = after
    return Walk(size_bytes, next_offset, has_old_format)


def modernised(data: memoryview) -> bytes:
    """Whole batches, those in the formats before Kafka 0.11 rewritten in today's. Offsets and times stay."""
    return b"".join(
        data[each.position : each.end] if each.magic == MAGIC else _rewritten(data[each.position : each.end])
        for each in iterate_extents(data)
    )


def _rewritten(message: memoryview) -> bytes:
    records = list(iterate_legacy_records(message))
    if not records:
        return b""
    # The attributes follow the magic; bit 3 is the timestamp type in magic 1 and unused in magic 0.
    is_append_time = message[MAGIC_POSITION] == 1 and message[LEGACY_ATTRIBUTES_POSITION] & LOG_APPEND_TIME_BIT
    return build_batch(
        records,
        base_offset=records[0].offset,
        timestamp_type=TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME,
        log_append_time=records[-1].timestamp if is_append_time else -1,
    )
