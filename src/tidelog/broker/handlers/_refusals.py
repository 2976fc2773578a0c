"""How a partition of a Produce request is told that its records were refused. Called by both ways through Produce."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.records.errors import InvalidRecordError
from tidelog.storage.errors import LogDirFailure
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.produce import PartitionReply

if TYPE_CHECKING:
    from tidelog.replication.replica_manager import ReplicaManager

REFUSALS = (ApiError, InvalidRecordError, LogDirFailure)


def refusal_reply(
    error: ApiError | InvalidRecordError | LogDirFailure, index: int, replica_manager: ReplicaManager
) -> PartitionReply:
    """The reply; a log directory that failed is taken offline on the way."""
    if isinstance(error, InvalidRecordError):
        return PartitionReply(index, error.code, record_errors=error.record_errors, error_message=str(error))
    if isinstance(error, LogDirFailure):
        replica_manager.fail_log_dir(error)
        return PartitionReply(index, ErrorCode.KAFKA_STORAGE_ERROR)
    return PartitionReply(index, error.code, error_message=error.message)
