"""Deleting old segments: by log start offset, by size, by age.

Kafka's rules: whole segments, oldest first, never one with offsets at or above the high watermark, and never the last
one while it is empty. When everything is due, a new segment is begun first. The files are renamed to `.deleted` and
handed over; they go after `file.delete.delay.ms`.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidelog.storage._files import unlink_if_exists
from tidelog.storage.names import DELETED_SUFFIX
from tidelog.storage.segment import Segment
from tidelog.storage.types import DeletionReason, StartOffsetReason

if TYPE_CHECKING:
    from tidelog.storage.log import Log

_IsDue = Callable[[Segment, Segment | None], bool]


def delete_old_segments(log: "Log", now_ms: int) -> list[tuple[Segment, DeletionReason]]:
    """Delete what retention no longer keeps; what went, and why."""
    log.write_staged()
    try:
        deleted = _delete(log, _before_log_start(log), DeletionReason.LOG_START_OFFSET, now_ms)
        if "delete" in log.config.cleanup_policy:
            deleted += _delete(log, _beyond_size(log), DeletionReason.RETENTION_SIZE, now_ms)
            deleted += _delete(log, _beyond_age(log, now_ms), DeletionReason.RETENTION_TIME, now_ms)
    except OSError as error:
        raise log.fail(error) from error
    return deleted


def _before_log_start(log: "Log") -> _IsDue:
    def is_due(_segment: Segment, following: Segment | None) -> bool:
        return following is not None and following.base_offset <= log.log_start_offset

    return is_due


def _beyond_size(log: "Log") -> _IsDue:
    excess = log.size_bytes - log.config.retention_bytes if log.config.retention_bytes >= 0 else -1

    def is_due(segment: Segment, _following: Segment | None) -> bool:
        nonlocal excess
        if excess < segment.size_bytes:
            return False
        excess -= segment.size_bytes
        return True

    return is_due


def _beyond_age(log: "Log", now_ms: int) -> _IsDue:
    retention_ms = log.config.retention_ms

    def is_due(segment: Segment, _following: Segment | None) -> bool:
        return retention_ms >= 0 and now_ms - segment.largest_timestamp() > retention_ms

    return is_due


def _delete(log: "Log", is_due: _IsDue, reason: DeletionReason, now_ms: int) -> list[tuple[Segment, DeletionReason]]:
    count = _count_due(log, is_due)
    if count == 0:
        return []
    if count == len(log.segments):
        log.roll(now_ms)
    log.maybe_increment_log_start_offset(log.segments[count].base_offset, StartOffsetReason.SEGMENT_DELETION)
    removed = log.remove_segments(0, count)
    mark_deleted(log, removed)
    return [(segment, reason) for segment in removed]


def _count_due(log: "Log", is_due: _IsDue) -> int:
    """How many segments, from the oldest on, are to go."""
    segments = log.segments
    for slot, segment in enumerate(segments):
        following = segments[slot + 1] if slot + 1 < len(segments) else None
        end_offset = log.log_end_offset if following is None else following.base_offset
        if log.high_watermark < end_offset or (following is None and segment.size_bytes == 0):
            return slot
        if not is_due(segment, following):
            return slot
    return len(segments)


def mark_deleted(log: "Log", segments: Sequence[Segment]) -> None:
    """Rename the files of removed segments and their producer snapshots, and hand them over for deletion."""
    paths: list[str] = []
    for segment in segments:
        segment.change_suffix(DELETED_SUFFIX)
        segment.release()
        paths += segment.paths()
        snapshot = log.producer_state.mark_snapshot_deleted(segment.base_offset)
        if snapshot is not None:
            paths.append(snapshot)
    if paths:
        log.discard_files(paths)


def unlink_all(paths: Sequence[str]) -> None:
    """Delete files, those that exist."""
    for path in paths:
        unlink_if_exists(path)
