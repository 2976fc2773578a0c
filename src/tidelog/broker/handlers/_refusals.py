"""The reply to a partition of a Produce request whose records were refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.records.errors import InvalidRecordError
from tidelog.storage.errors import LogDirFailure
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.produce import PartitionReply

if TYPE_CHECKING:
    from tidelog.replication.partition import Partition
    from tidelog.replication.replica_manager import ReplicaManager

Refusal = ApiError | InvalidRecordError | LogDirFailure
REFUSALS = (ApiError, InvalidRecordError, LogDirFailure)
_WITHOUT_START_OFFSET: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)


def refusal_reply(
    error: Refusal,
    index: int,
    replica_manager: ReplicaManager,
    partition: Partition | None = None,
) -> PartitionReply:
    """The reply; a log directory that failed is taken offline on the way.

    `partition` is the one whose log rejected the records, if it got that far: the reply then has its log start offset,
    except for the most frequent errors, as in Kafka.
    """
    if isinstance(error, LogDirFailure):
        replica_manager.fail_log_dir(error)
        return PartitionReply(index, error.code)
    record_errors = error.record_errors if isinstance(error, InvalidRecordError) else ()
    start_offset = -1
    if partition is not None and error.code not in _WITHOUT_START_OFFSET:
        start_offset = partition.log.log_start_offset
    return PartitionReply(
        index,
        error.code,
        log_start_offset=start_offset,
        record_errors=record_errors,
        error_message=error.message,
    )
