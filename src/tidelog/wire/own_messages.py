"""Tidelog's own messages, for operations that Kafka's protocol does not have.

Their keys are far above Kafka's and are not listed in ApiVersions: a client sees exactly the list of a Kafka broker.
Tidelog's tools send them anyway; any other broker closes the connection, as Kafka does for unknown keys.
"""

from enum import IntEnum

from tidelog.wire.schema import Message, Struct, array, boolean, int16, int32, int64, string


class OwnApiKey(IntEnum):
    """The numbers of these APIs."""

    COMPACT_TOPICS = 20_000


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
