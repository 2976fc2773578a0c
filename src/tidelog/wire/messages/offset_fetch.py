"""OffsetFetch: the offsets that a consumer group has committed.

What the versions changed:

    0   answers from ZooKeeper
    1   answers from `__consumer_offsets`
    2   null asks for all topics; adds an error code for the group
    3   adds the throttle time
    4   the broker responds at once, and the client waits for the throttle time
    5   adds leader epochs (KIP-320)
    6   first flexible version
    7   offsets of open transactions may be waited for: UNSTABLE_OFFSET_COMMIT (KIP-447)
    8   several groups in one request (KIP-709)
    9   adds member id and epoch for the newer group protocol (KIP-848)
    10  topic ids replace topic names (KIP-848)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int16, int32, int64, string, uuid


class OffsetFetchRequestTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32)


class OffsetFetchRequestTopics(Struct):
    name: str = string(until=9)
    topic_id: bytes = uuid(since=10)
    partition_indexes: list[int] = array(int32)


class OffsetFetchRequestGroup(Struct):
    group_id: str = string()
    member_id: str | None = string(None, since=9, null_since=9)
    member_epoch: int = int32(-1, since=9)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, null_since=0)


class OffsetFetchRequest(Message, api_key=ApiKey.OFFSET_FETCH, versions=(0, 10), flexible_from=6):
    group_id: str = string(until=7)
    topics: list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, until=7, null_since=2)
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, since=8)
    require_stable: bool = boolean(since=7)


class OffsetFetchResponsePartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()  # -1 if there is none
    committed_leader_epoch: int = int32(-1, since=5)
    metadata: str | None = string(null_since=0)
    error_code: int = int16()


class OffsetFetchResponseTopic(Struct):
    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()  # -1 if there is none
    committed_leader_epoch: int = int32(-1)
    metadata: str | None = string(null_since=0)
    error_code: int = int16()


class OffsetFetchResponseTopics(Struct):
    name: str = string(until=9)
    topic_id: bytes = uuid(since=10)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions)


class OffsetFetchResponseGroup(Struct):
    group_id: str = string()
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics)
    error_code: int = int16()


class OffsetFetchResponse(Message, api_key=ApiKey.OFFSET_FETCH, versions=(0, 10), flexible_from=6):
    throttle_time_ms: int = int32(since=3)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, until=7)
    error_code: int = int16(since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, since=8)
