"""Reading from a log: from an offset to bytes of a file, and the aborted transactions in a range."""

from struct import Struct
from typing import TYPE_CHECKING, Final

from tidelog.records.header import LENGTH_PREFIX_BYTES
from tidelog.storage.segment import Segment
from tidelog.storage.segment.transaction_index import AbortedTransaction
from tidelog.storage.types import LogRead
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.storage.log import Log

_OFFSET_LENGTH: Final = Struct(">qi")
_KNOWN_POSITIONS_MAX: Final = 64
NOTHING: Final = LogRead(None, -1, -1, False)
_NO_ROOM: Final = LogRead(None, -1, -1, True)
"""Other partitions have used up the limit of a fetch: there is nothing to be looked for."""


def read(log: "Log", offset: int, max_bytes: int, max_offset_exclusive: int, min_one_message: bool) -> LogRead:
    """Bytes from the batch that holds `offset` on, below `max_offset_exclusive` and never unwritten ones.

    The slice lies in one segment and may end within a batch. With `min_one_message` the first batch is whole even if it
    is larger than `max_bytes`. Raises ApiError OFFSET_OUT_OF_RANGE outside of the log.
    """
    if offset < log.log_start_offset or offset > log.log_end_offset:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} of {log.name} is not within {log.log_start_offset} and {log.log_end_offset}",
        )
    limit = min(max_offset_exclusive, log.written_end_offset)
    if offset >= limit:
        return NOTHING
    if max_bytes <= 0 and not min_one_message:
        return _NO_ROOM
    try:
        return _read_segments(log, offset, max_bytes, limit, min_one_message)
    except OSError as error:
        raise log.fail(error) from error


def _read_segments(log: "Log", offset: int, max_bytes: int, limit: int, min_one_message: bool) -> LogRead:
    active = log.active_segment
    # A compacted or truncated segment may hold nothing at or after the offset; the next one then does.
    for segment in (active,) if offset >= active.base_offset else log.segments.since(offset):
        if segment.base_offset >= limit:
            return NOTHING
        end = _end_position(log, segment, limit)
        start, first_bytes = _start(log, segment, offset, end)
        if start >= 0:
            return _slice(segment, start, first_bytes, end, max_bytes, min_one_message)
    return NOTHING


def _start(log: "Log", segment: Segment, offset: int, end: int) -> tuple[int, int]:
    """Where the batch with `offset` begins, -1 when there is none below `end`; and its size, -1 if not known."""
    if segment is log.active_segment:
        known = log.known_positions.get(offset)
        if known is not None and known < end:
            return known, -1
    batch = segment.locate(offset, end)
    return (-1, -1) if batch is None else batch[:2]


def _end_position(log: "Log", segment: Segment, limit: int) -> int:
    """Where the batches below `limit` end in a segment.

    The positions of the ends that were handed out are remembered for the active segment: there readers come back to
    for more, and there the high watermark usually is.
    """
    if segment is not log.active_segment:
        end = segment.size_bytes
        following = log.segments.next_base_offset(log.segments.slot_of(segment.base_offset))
        if following is None or limit >= following:
            return end
        batch = segment.locate(limit, end)
        return end if batch is None else batch.position
    known = log.known_positions
    position = known.get(limit)
    if position is None:
        end = log.written_bytes(segment)
        batch = None if limit == log.written_end_offset else segment.locate(limit, end)
        position = end if batch is None else batch.position
        if len(known) >= _KNOWN_POSITIONS_MAX:
            known.clear()
        known[limit] = position
    return position


def _slice(segment: Segment, start: int, first_bytes: int, end: int, max_bytes: int, min_one_message: bool) -> LogRead:
    length = end - start
    is_cut = False
    if length > max_bytes:
        if first_bytes < 0:
            _, batch_length = _OFFSET_LENGTH.unpack(segment.log_file.read(start, _OFFSET_LENGTH.size))
            first_bytes = batch_length + LENGTH_PREFIX_BYTES
        if first_bytes <= max_bytes:
            length = max_bytes
        elif min_one_message:
            length = min(first_bytes, length)
        else:
            length = max(max_bytes, 0)
            is_cut = True
    piece = segment.slice(start, length) if length > 0 else None
    return LogRead(piece, segment.base_offset, start, is_cut)


def bytes_between(log: "Log", offset: int, end_offset: int) -> int | None:
    """The bytes from the batch that holds `offset` up to `end_offset`; None where they span more than one segment.

    A read ends with its segment, so a reader of an older segment never gets more by waiting. Raises LogDirFailure.
    """
    active = log.active_segment
    segment = active
    if offset < active.base_offset:
        slot = log.segments.slot_of(offset)
        if slot != log.segments.slot_of(end_offset):
            return None
        segment = log.segments[max(slot, 0)]
    try:
        end = _end_position(log, segment, min(end_offset, log.written_end_offset))
        start, _ = _start(log, segment, offset, end)
    except OSError as error:
        raise log.fail(error) from error
    return end - start if start >= 0 else 0


def read_end_offset(log: "Log", result: LogRead) -> int:
    """An offset at or after the end of what was read, as close as the index tells."""
    if result.slice is None:
        return log.log_start_offset
    slot = log.segments.slot_of(result.segment_base_offset)
    index = log.segments[slot].offset_index
    found = index.first_at_position(result.position + result.slice.length)
    if found is not None:
        return found
    following = log.segments.next_base_offset(slot)
    return log.log_end_offset if following is None else following


def aborted_transactions(log: "Log", start_offset: int, end_offset: int) -> list[AbortedTransaction]:
    """The aborted transactions with records in [start_offset, end_offset)."""
    found: list[AbortedTransaction] = []
    for segment in log.segments.since(start_offset):
        entries, is_complete = segment.transaction_index.collect(start_offset, end_offset)
        found += entries
        if is_complete:
            break
    return found
