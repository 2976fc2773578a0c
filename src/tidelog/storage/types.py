"""Plain data that the log returns to its callers: replication, the produce and fetch handlers, the log manager."""

from enum import Enum
from typing import Final, NamedTuple

from tidelog.storage._files import FileSlice as FileSlice

NO_TIMESTAMP: Final = -1


class AppendOrigin(Enum):
    """The origin of an append, which decides how much is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class LogAppendInfo(NamedTuple):
    """The result of an append. A duplicate has the offsets of the batch that is already in the log."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    record_count: int
    size_bytes: int
    is_duplicate: bool


class LogRead(NamedTuple):
    """Bytes of one segment for a fetch; `slice` is None when there is nothing to send.

    `position` is where the slice starts in the segment at `segment_base_offset`. `is_first_batch_cut` says that the
    limit was smaller than the first batch and `min_one_message` was not asked for.
    """

    slice: FileSlice | None
    segment_base_offset: int
    position: int
    is_first_batch_cut: bool


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


class EpochEndOffset(NamedTuple):
    """Where an epoch ends: the answer to OffsetForLeaderEpoch. Both are -1 when the epoch is not known."""

    leader_epoch: int
    end_offset: int


class DeletionReason(Enum):
    """Why a segment is deleted."""

    RETENTION_TIME = "retention.ms"
    RETENTION_SIZE = "retention.bytes"
    LOG_START_OFFSET = "log start offset"


class StartOffsetReason(Enum):
    """Why the log start offset moves."""

    CLIENT_DELETION = "client delete records request"
    LEADER_INCREMENT = "leader offset increment"
    SEGMENT_DELETION = "segment deletion"
