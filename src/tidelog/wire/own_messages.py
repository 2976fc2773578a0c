"""Tidelog's own messages, for operations that Kafka's protocol does not have.

Their keys are far above Kafka's and are not listed in ApiVersions: a client sees exactly the list of a Kafka broker.
Tidelog's tools send them anyway; any other broker closes the connection, as Kafka does for unknown keys.
"""

from enum import IntEnum

from tidelog.wire.schema import Message, Struct, array, blob, boolean, int16, int32, int64, string


class OwnApiKey(IntEnum):
    """The numbers of these APIs."""

    COMPACT_TOPICS = 20_000
    LIST_DELAYED_RECORDS = 20_001
    ALTER_DELAYED_RECORDS = 20_002


class CompactTopic(Struct):
    name: str = string()
    partitions: list[int] = array(int32)


class CompactTopicsRequest(Message, api_key=OwnApiKey.COMPACT_TOPICS, versions=(0, 0), flexible_from=0):
    """Compact partitions of the receiving broker now; or only report the progress."""

    topics: list[CompactTopic] = array(CompactTopic)
    only_status: bool = boolean()


class CompactedPartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)
    state: str = string()  # waiting, cleaning, done or failed; empty without a request
    bytes_before: int = int64(-1)
    bytes_after: int = int64(-1)
    bytes_done: int = int64()  # of bytes_total, while it is being cleaned
    bytes_total: int = int64()


class CompactedTopic(Struct):
    name: str = string()
    partitions: list[CompactedPartition] = array(CompactedPartition)


class CompactTopicsResponse(Message, api_key=OwnApiKey.COMPACT_TOPICS, versions=(0, 0), flexible_from=0):
    throttle_time_ms: int = int32()
    topics: list[CompactedTopic] = array(CompactedTopic)


class ListDelayedRecordsRequest(Message, api_key=OwnApiKey.LIST_DELAYED_RECORDS, versions=(0, 0), flexible_from=0):
    """The delayed records that wait in partitions that the receiving broker leads, the next due first."""

    topic: str = string()
    partitions: list[int] = array(int32)
    of_key: bool = boolean()  # only those of `key`
    key: bytes | None = blob(None, null_since=0)
    limit: int = int32(100)


class DelayedRecordListing(Struct):
    offset: int = int64()  # as in the reply to its producer
    deliver_at_ms: int = int64()
    key: bytes | None = blob(None, null_since=0)
    value_bytes: int = int32(-1)


class DelayedPartitionListing(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)
    waiting: int = int64()  # all that wait in the partition
    records: list[DelayedRecordListing] = array(DelayedRecordListing)


class ListDelayedRecordsResponse(Message, api_key=OwnApiKey.LIST_DELAYED_RECORDS, versions=(0, 0), flexible_from=0):
    throttle_time_ms: int = int32()
    partitions: list[DelayedPartitionListing] = array(DelayedPartitionListing)


class AlterDelayedRecordsRequest(Message, api_key=OwnApiKey.ALTER_DELAYED_RECORDS, versions=(0, 0), flexible_from=0):
    """Cancel delayed records, or give them another time: those of a key, or the one with an offset, or of both."""

    topic: str = string()
    partitions: list[int] = array(int32)
    of_key: bool = boolean()
    key: bytes | None = blob(None, null_since=0)
    offset: int = int64(-1)
    deliver_at_ms: int = int64(-1)  # -1 cancels


class AlteredDelayedPartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)
    changed: int = int64()


class AlterDelayedRecordsResponse(Message, api_key=OwnApiKey.ALTER_DELAYED_RECORDS, versions=(0, 0), flexible_from=0):
    throttle_time_ms: int = int32()
    partitions: list[AlteredDelayedPartition] = array(AlteredDelayedPartition)
