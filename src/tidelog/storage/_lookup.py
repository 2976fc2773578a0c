"""Finding offsets by time: what ListOffsets asks of a log."""

from typing import TYPE_CHECKING, Final

from tidelog.records.errors import CorruptRecordError
from tidelog.storage.types import NO_EPOCH, NO_TIMESTAMP, TimestampOffset
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.storage.log import Log

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2


def offset_for_timestamp(log: "Log", timestamp: int) -> TimestampOffset | None:
    """The first record that is not older than `timestamp`, in the first segment that has one.

    A segment of which compaction has left nothing, or only batches without records, is as young as its file.
    """
    log.write_staged()
    try:
        for segment in log.segments:
            if segment.largest_timestamp() >= timestamp:
                found = segment.find_by_timestamp(timestamp, log.log_start_offset, log.written_bytes(segment))
                if found is not None:
                    return found
    except OSError as error:
        raise log.fail(error) from error
    except CorruptRecordError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{log.name}: {error}") from error
    return None


def max_timestamp_offset(log: "Log") -> TimestampOffset | None:
    """The record with the largest timestamp (KIP-734); None when the log has none."""
    log.write_staged()
    try:
        segment = max(log.segments, key=lambda candidate: candidate.max_timestamp())
        return segment.find_max_timestamp(log.written_bytes(segment))
    except OSError as error:
        raise log.fail(error) from error
    except CorruptRecordError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{log.name}: {error}") from error


def earliest(log: "Log") -> TimestampOffset:
    """The log start offset and, where known, its epoch: the first one, if it began there or before."""
    first = log.leader_epochs.earliest()
    epoch = first.epoch if first is not None and first.start_offset <= log.log_start_offset else NO_EPOCH
    return TimestampOffset(NO_TIMESTAMP, log.log_start_offset, epoch)


def latest(log: "Log") -> TimestampOffset:
    """The log end offset and the latest epoch."""
    return TimestampOffset(NO_TIMESTAMP, log.log_end_offset, log.leader_epochs.latest_epoch)


def offsets_before(log: "Log", timestamp: int, max_offsets: int, now_ms: int) -> list[int]:
    """For ListOffsets version 0: where segments begin that were not modified after `timestamp`, newest first."""
    try:
        times = [
            (max(segment.base_offset, log.log_start_offset), segment.last_modified_ms()) for segment in log.segments
        ]
    except OSError as error:
        raise log.fail(error) from error
    if log.active_segment.size_bytes:
        times.append((log.log_end_offset, now_ms))
    if timestamp == EARLIEST_TIMESTAMP:
        times = times[:1]
    elif timestamp != LATEST_TIMESTAMP:
        while times and times[-1][1] > timestamp:
            times.pop()
    return sorted((offset for offset, _ in times[-max_offsets:]), reverse=True) if max_offsets > 0 else []
