"""Finds the position of an offset or a timestamp in the files of a log.

The ends of reads in the active segment are cached: the next read begins there, and the high watermark is usually there.
So a reader at the end of the log needs neither the index nor the file to find its position.
"""

from collections.abc import Iterator
from typing import Final

from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import LENGTH_PREFIX_BYTES, BatchHeader, read_length
from tidelog.storage.log._positions import Positions
from tidelog.storage.log._segments import Segments
from tidelog.storage.log._staging import Staging
from tidelog.storage.segment import Segment
from tidelog.storage.segment.batches import iterate_headers
from tidelog.storage.segment.transaction_index import AbortedTransaction
from tidelog.storage.types import LogRead, TimestampOffset
from tidelog.wire.errors import ApiError, ErrorCode

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2

_KNOWN_POSITIONS_MAX: Final = 64
_NOTHING: Final = LogRead(None, -1, -1, False)
_NO_ROOM: Final = LogRead(None, -1, -1, True)
"""The result when other partitions have used up the limit of a fetch: nothing is looked up."""


class Lookup:
    """Finds positions in one log. It does not change the log."""

    __slots__ = ("_known_positions", "_name", "_positions", "_segments", "_staging")

    def __init__(self, name: str, segments: Segments, positions: Positions, staging: Staging) -> None:
        self._name = name
        self._segments = segments
        self._positions = positions
        self._staging = staging
        self._known_positions: dict[int, int] = {}
        """Positions in the active segment, by the offset of the batch that begins there."""

    def forget(self) -> None:
        """Drop cached positions: another segment is active, or the active one was truncated."""
        self._known_positions.clear()

    # By offset

    def read(self, offset: int, max_bytes: int, max_offset_exclusive: int, min_one_message: bool) -> LogRead:
        """Bytes from the batch that holds `offset` on, below `max_offset_exclusive` and never unwritten ones.

        The slice lies in one segment and may end within a batch. With `min_one_message` the first batch is whole even
        if it is larger than `max_bytes`. Raises ApiError OFFSET_OUT_OF_RANGE outside of the log.
        """
        positions = self._positions
        if offset < positions.log_start_offset or offset > positions.log_end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self._name} is not within {positions.log_start_offset} "
                f"and {positions.log_end_offset}",
            )
        limit = min(max_offset_exclusive, positions.written_end_offset)
        if offset >= limit:
            return _NOTHING
        if max_bytes <= 0 and not min_one_message:
            return _NO_ROOM
        segments = self._segments
        active = segments.active
        try:
            # A compacted or truncated segment may hold nothing at or after the offset; the next one then does.
            for segment in (active,) if offset >= active.base_offset else segments.since(offset):
                if segment.base_offset >= limit:
                    return _NOTHING
                end = self._end_position(segment, limit)
                start, first_bytes = self._start_position(segment, offset, end)
                if start >= 0:
                    return _slice(segment, start, first_bytes, end, max_bytes, min_one_message)
        except OSError as error:
            raise self._staging.fail(error) from error
        return _NOTHING

    def bytes_between(self, offset: int, end_offset: int) -> int | None:
        """See `Log.bytes_between`."""
        segments = self._segments
        segment = segments.active
        if offset < segment.base_offset:
            slot = segments.slot_of(offset)
            if slot != segments.slot_of(end_offset):
                return None
            segment = segments[max(slot, 0)]
        try:
            end = self._end_position(segment, min(end_offset, self._positions.written_end_offset))
            start, _ = self._start_position(segment, offset, end)
        except OSError as error:
            raise self._staging.fail(error) from error
        return end - start if start >= 0 else 0

    def _start_position(self, segment: Segment, offset: int, end: int) -> tuple[int, int]:
        """Where the batch with `offset` begins, -1 when there is none below `end`; and its size, -1 if not known."""
        if segment is self._segments.active:
            known = self._known_positions.get(offset)
            if known is not None and known < end:
                return known, -1
        batch = segment.locate(offset, end)
        return (-1, -1) if batch is None else batch[:2]

    def _end_position(self, segment: Segment, limit: int) -> int:
        """Where the batches below `limit` end in a segment."""
        segments = self._segments
        if segment is not segments.active:
            end = segment.size_bytes
            following = segments.next_base_offset(segments.slot_of(segment.base_offset))
            if following is None or limit >= following:
                return end
            batch = segment.locate(limit, end)
            return end if batch is None else batch.position
        known = self._known_positions
        position = known.get(limit)
        if position is None:
            end = self._staging.written_bytes
            batch = None if limit == self._positions.written_end_offset else segment.locate(limit, end)
            position = end if batch is None else batch.position
            if len(known) >= _KNOWN_POSITIONS_MAX:
                known.clear()
            known[limit] = position
        return position

    def end_offset_of(self, result: LogRead) -> int:
        """See `Log.read_end_offset`."""
        if result.slice is None:
            return self._positions.log_start_offset
        segments = self._segments
        slot = segments.slot_of(result.segment_base_offset)
        found = segments[slot].offset_index.first_at_position(result.position + result.slice.length)
        if found is not None:
            return found
        following = segments.next_base_offset(slot)
        return self._positions.log_end_offset if following is None else following

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in [start_offset, end_offset)."""
        found: list[AbortedTransaction] = []
        for segment in self._segments.since(start_offset):
            entries, is_complete = segment.transaction_index.collect(start_offset, end_offset)
            found += entries
            if is_complete:
                break
        return found

    def headers_before(self, end_offset: int, bytes_max: int) -> Iterator[BatchHeader]:
        """The headers of the last batches before `end_offset`, ascending, from about `bytes_max` bytes of the log."""
        spans: list[tuple[Segment, int, int]] = []
        bytes_left = bytes_max
        for slot in range(self._segments.slot_of(end_offset), -1, -1):
            segment = self._segments[slot]
            end = self._written_bytes(segment)
            if not spans and (batch := segment.locate(end_offset, end)) is not None:
                end = batch.position
            start = _indexed_position(segment, end - bytes_left)
            spans.append((segment, start, end))
            bytes_left -= end - start
            if bytes_left <= 0:
                break
        for segment, start, end in reversed(spans):
            for _, header in iterate_headers(segment.log_file, start, end):
                yield header

    def batches(self, offset: int, end_offset: int) -> Iterator[tuple[Segment, int, BatchHeader]]:
        """See `Log.batches`."""
        for segment in self._segments.since(offset):
            if segment.base_offset >= end_offset:
                return
            end = self._end_position(segment, min(end_offset, self._positions.written_end_offset))
            start, _ = self._start_position(segment, offset, end)
            if start >= 0:
                for position, header in iterate_headers(segment.log_file, start, end):
                    yield segment, position, header

    def end_of_batch(self, base_offset: int) -> tuple[Segment, int] | None:
        """See `Log.end_of_batch`."""
        slot = self._segments.slot_of(base_offset)
        if slot < 0:
            return None
        segment = self._segments[slot]
        batch = segment.locate(base_offset, self._written_bytes(segment))
        if batch is None or batch.base_offset != base_offset:
            return None
        return segment, batch.position + batch.size_bytes

    # By time. Everything staged has been written before.

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """See `Log.offset_for_timestamp`."""
        log_start_offset = self._positions.log_start_offset
        try:
            for segment in self._segments:
                if segment.largest_timestamp() >= timestamp:
                    found = segment.find_by_timestamp(timestamp, log_start_offset, self._written_bytes(segment))
                    if found is not None:
                        return found
        except OSError as error:
            raise self._staging.fail(error) from error
        except CorruptRecordError as error:
            raise self._corrupt(error) from error
        return None

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The record with the largest timestamp (KIP-734); None when the log has none."""
        try:
            segment = max(self._segments, key=_max_timestamp)
            return segment.find_max_timestamp(self._written_bytes(segment))
        except OSError as error:
            raise self._staging.fail(error) from error
        except CorruptRecordError as error:
            raise self._corrupt(error) from error

    def offsets_before(self, timestamp: int, max_offsets: int, now_ms: int) -> list[int]:
        """See `Log.offsets_before`."""
        positions = self._positions
        try:
            times = [
                (max(segment.base_offset, positions.log_start_offset), segment.last_modified_ms())
                for segment in self._segments
            ]
        except OSError as error:
            raise self._staging.fail(error) from error
        if self._segments.active.size_bytes:
            times.append((positions.log_end_offset, now_ms))
        if timestamp == EARLIEST_TIMESTAMP:
            times = times[:1]
        elif timestamp != LATEST_TIMESTAMP:
            while times and times[-1][1] > timestamp:
                times.pop()
        return sorted((offset for offset, _ in times[-max_offsets:]), reverse=True) if max_offsets > 0 else []

    def _written_bytes(self, segment: Segment) -> int:
        """How much of a segment is in its file."""
        return self._staging.written_bytes if segment is self._segments.active else segment.size_bytes

    def _corrupt(self, error: CorruptRecordError) -> ApiError:
        return ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self._name}: {error}")


def _slice(segment: Segment, start: int, first_bytes: int, end: int, max_bytes: int, min_one_message: bool) -> LogRead:
    length = end - start
    is_cut = False
    if length > max_bytes:
        if first_bytes < 0:
            first_bytes = read_length(segment.log_file.read(start, LENGTH_PREFIX_BYTES)) + LENGTH_PREFIX_BYTES
        if first_bytes <= max_bytes:
            length = max_bytes
        elif min_one_message:
            length = min(first_bytes, length)
        else:
            length = max(max_bytes, 0)
            is_cut = True
    piece = segment.slice(start, length) if length > 0 else None
    return LogRead(piece, segment.base_offset, start, is_cut)


def _max_timestamp(segment: Segment) -> int:
    return segment.max_timestamp()


def _indexed_position(segment: Segment, position: int) -> int:
    """Where a batch begins, at or after `position` if the index has one there; otherwise the segment's start."""
    offset = segment.offset_index.first_at_position(position) if position > 0 else None
    return 0 if offset is None else segment.offset_index.lookup(offset)[1]
