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
    """See `Log.offset_for_timestamp`: the first segment that reaches `timestamp` is searched, as in Kafka."""
    log.write_staged()
    try:
        for segment in log.segments:
            if segment.largest_timestamp() >= timestamp:
                return segment.find_by_timestamp(timestamp, log.log_start_offset, log.written_bytes(segment))
    except OSError as error:
        raise log.fail(error) from error
    except CorruptRecordError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{log.name}: {error}") from error
    return None


def max_timestamp_offset(log: "Log") -> TimestampOffset | None:
    """See `Log.max_timestamp_offset`."""
    log.write_staged()
    try:
        segment = max(log.segments, key=lambda candidate: candidate.max_timestamp())
        return segment.find_max_timestamp(log.written_bytes(segment))
    except OSError as error:
        raise log.fail(error) from error
    except CorruptRecordError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{log.name}: {error}") from error


def earliest(log: "Log") -> TimestampOffset:
    """See `Log.earliest`. The first epoch is that of the log start only if it began there or before."""
    first = log.leader_epochs.earliest()
    epoch = first.epoch if first is not None and first.start_offset <= log.log_start_offset else NO_EPOCH
    return TimestampOffset(NO_TIMESTAMP, log.log_start_offset, epoch)


def offsets_before(log: "Log", timestamp: int, max_offsets: int, now_ms: int) -> list[int]:
    """See `Log.offsets_before`."""
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
