"""OffsetDelete: delete committed offsets of topics that a group is no longer subscribed to (KIP-496)."""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, string


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = int32()


class OffsetDeleteRequestTopic(Struct):
    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


class OffsetDeleteRequest(Message, api_key=ApiKey.OFFSET_DELETE, versions=(0, 0)):
    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class OffsetDeleteResponseTopic(Struct):
    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


class OffsetDeleteResponse(Message, api_key=ApiKey.OFFSET_DELETE, versions=(0, 0)):
    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
