"""What a consumer raises besides the errors that all clients share.

ClientError
├── IllegalState
│   └── ConcurrentAccess         two callers at once; a consumer serves one
├── Woken                        `wakeup` was called
├── CommitFailed                 other members own the partitions by now; polling joins the group again
│   └── RebalanceInProgress      that may happen: poll, then commit again what is still owned
├── InvalidOffset                a position that cannot be read from, and auto.offset.reset=none
│   ├── NoOffset                 nothing was committed
│   └── OffsetOutOfRange         the log does not reach there
│       └── LogTruncated         the log did reach there, but what was read has been replaced
├── CorruptRecords               a batch fails its checksum or cannot be decoded; seek past it to go on
└── DeserializationFailed        a deserializer refused a record; seek past it to go on
"""

# ruff: noqa: N818 - these names say what happened, and read better in an `except` without a suffix

from collections.abc import Collection, Mapping

from tidelog.client.errors import ClientError, IllegalState
from tidelog.client.types import OffsetAndMetadata, TopicPartition


class ConcurrentAccess(IllegalState):
    """A second call was made during the first. Only `wakeup` may be called at any time."""


class Woken(ClientError):
    """`wakeup` ended a call that waited."""

    def __init__(self) -> None:
        super().__init__("woken up")


class CommitFailed(ClientError):
    """The group has rebalanced without this member; records since the last commit will be processed again."""

    def __init__(self, message: str = "") -> None:
        super().__init__(
            message
            or "offsets cannot be committed: the group has already rebalanced and assigned the partitions to "
            "another member: the time between calls of poll() was longer than max.poll.interval.ms; raise it, or "
            "lower max.poll.records"
        )


class RebalanceInProgress(CommitFailed):
    """The group is rebalancing; once `poll` has finished that, offsets of partitions still owned can be committed."""


class InvalidOffset(ClientError):
    """Positions that cannot be read from, with no reset policy to choose others."""

    def __init__(self, message: str, partitions: Collection[TopicPartition]) -> None:
        super().__init__(message)
        self.partitions = tuple(partitions)


class NoOffset(InvalidOffset):
    """Neither a committed offset nor a reset policy."""

    def __init__(self, partitions: Collection[TopicPartition]) -> None:
        names = ", ".join(map(str, partitions))
        super().__init__(f"{names} has no committed offset, and auto.offset.reset=none", partitions)


class OffsetOutOfRange(InvalidOffset):
    """The log begins after, or ends before, the position."""

    what = "offsets out of range"

    def __init__(self, offsets: Mapping[TopicPartition, int]) -> None:
        listed = ", ".join(f"{partition} at {offset}" for partition, offset in offsets.items())
        super().__init__(f"{self.what} and auto.offset.reset=none: {listed}", offsets)
        self.offsets = dict(offsets)


class LogTruncated(OffsetOutOfRange):
    """Records that were read are no longer in the leader's log; `divergent` is where the logs still agree."""

    what = "the log was truncated below what was read"

    def __init__(
        self, offsets: Mapping[TopicPartition, int], divergent: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        super().__init__(offsets)
        self.divergent = dict(divergent)


class CorruptRecords(ClientError):
    """Bytes that are not valid records. The position stays before them."""

    def __init__(self, partition: TopicPartition, offset: int, reason: Exception) -> None:
        super().__init__(f"{partition} at offset {offset} cannot be decoded: {reason}; seek past it to continue")
        self.partition = partition
        self.offset = offset


class DeserializationFailed(ClientError):
    """A deserializer raised. The position of a consumer stays at this record; a share consumer releases it."""

    def __init__(
        self, partition: TopicPartition, offset: int, part: str, reason: Exception, advice: str | None = None
    ) -> None:
        super().__init__(
            f"the {part} of the record at offset {offset} of {partition} cannot be deserialized ({reason}); "
            + (advice or f"seek to {offset + 1} to skip it")
        )
        self.partition = partition
        self.offset = offset
