"""Which segments are past their retention: by log start offset, by size, by age.

Kafka's rules: whole segments, oldest first, never one with offsets at or above the high watermark, and never the last
one while it is empty. This module changes nothing.
"""

from collections.abc import Callable, Iterator

from tidelog.config import LogConfig
from tidelog.storage.log._positions import Positions
from tidelog.storage.log._segments import Segments
from tidelog.storage.segment import Segment
from tidelog.storage.types import DeletionReason

IsDue = Callable[[Segment, Segment | None], bool]
"""Called with segments from the oldest on, each with the one that follows it."""


def retention_rules(
    segments: Segments, positions: Positions, config: LogConfig, now_ms: int
) -> Iterator[tuple[DeletionReason, IsDue]]:
    """The rules of a log in the order in which they apply. Each is made when the one before has been applied."""
    yield DeletionReason.LOG_START_OFFSET, _before_log_start(positions)
    if "delete" in config.cleanup_policy:
        yield DeletionReason.RETENTION_SIZE, _beyond_size(segments, config.retention_bytes)
        yield DeletionReason.RETENTION_TIME, _beyond_age(config.retention_ms, now_ms)


def count_due(segments: Segments, positions: Positions, is_due: IsDue) -> int:
    """How many segments, from the oldest on, are to be deleted."""
    for slot, segment in enumerate(segments):
        following = segments[slot + 1] if slot + 1 < len(segments) else None
        end_offset = positions.log_end_offset if following is None else following.base_offset
        if positions.high_watermark < end_offset or (following is None and segment.size_bytes == 0):
            return slot
        if not is_due(segment, following):
            return slot
    return len(segments)


def _before_log_start(positions: Positions) -> IsDue:
    def is_due(_segment: Segment, following: Segment | None) -> bool:
        return following is not None and following.base_offset <= positions.log_start_offset

    return is_due


def _beyond_size(segments: Segments, retention_bytes: int) -> IsDue:
    excess = segments.size_bytes() - retention_bytes if retention_bytes >= 0 else -1

    def is_due(segment: Segment, _following: Segment | None) -> bool:
        nonlocal excess
        if excess < segment.size_bytes:
            return False
        excess -= segment.size_bytes
        return True

    return is_due


def _beyond_age(retention_ms: int, now_ms: int) -> IsDue:
    def is_due(segment: Segment, _following: Segment | None) -> bool:
        return retention_ms >= 0 and now_ms - segment.largest_timestamp() > retention_ms

    return is_due
