"""DeleteRecords between moving the log start offset and the answer.

The leader moves its own start offset at once; the request is answered when every live replica has followed, which with
one replica is immediately.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidelog.replication.partition import Partition
from tidelog.timing import DelayedOperation
from tidelog.wire.errors import ErrorCode


class DeletedUpTo(NamedTuple):
    """One partition of a request: the offset asked for, or the error that prevented it."""

    topic: str
    partition_index: int
    partition: Partition | None
    required_offset: int
    error_code: ErrorCode = ErrorCode.NONE


class DeleteResult(NamedTuple):
    """The result of one partition."""

    topic: str
    partition_index: int
    low_watermark: int
    error_code: ErrorCode


class DelayedDeleteRecords(DelayedOperation):
    """Waits until the low watermark of every partition has reached the requested offset."""

    __slots__ = ("_deleted", "_respond")

    def __init__(
        self, deleted: list[DeletedUpTo], respond: Callable[[list[DeleteResult]], None], deadline_ms: int
    ) -> None:
        super().__init__(deadline_ms)
        self._deleted = deleted
        self._respond = respond

    def try_complete(self) -> bool:
        for entry in self._deleted:
            partition = entry.partition
            if partition is not None and partition.is_leader and partition.low_watermark < entry.required_offset:
                return False
        return self.force_complete()

    def on_complete(self) -> None:
        self._respond([self._result(entry) for entry in self._deleted])

    @staticmethod
    def _result(entry: DeletedUpTo) -> DeleteResult:
        partition = entry.partition
        if partition is None:
            return DeleteResult(entry.topic, entry.partition_index, -1, entry.error_code)
        if not partition.is_leader:
            return DeleteResult(entry.topic, entry.partition_index, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        low_watermark = partition.low_watermark
        code = ErrorCode.NONE if low_watermark >= entry.required_offset else ErrorCode.REQUEST_TIMED_OUT
        return DeleteResult(entry.topic, entry.partition_index, low_watermark, code)
