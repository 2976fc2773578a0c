"""ListPartitionReassignments: the moves of partitions that are under way; null asks for all (KIP-455)."""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, string


class ListPartitionReassignmentsTopics(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32)


class ListPartitionReassignmentsRequest(
    Message, api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), flexible_from=0
):
    timeout_ms: int = int32(60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(ListPartitionReassignmentsTopics, None, null_since=0)


class OngoingPartitionReassignment(Struct):
    partition_index: int = int32()
    replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)


class OngoingTopicReassignment(Struct):
    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


class ListPartitionReassignmentsResponse(
    Message, api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null_since=0)
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)
