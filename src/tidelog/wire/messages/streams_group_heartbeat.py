"""StreamsGroupHeartbeat: join, stay in and leave a group of Kafka Streams, whose tasks the broker assigns (KIP-1071).

Version 1 says how far behind a task may be, and whether the broker wants a description of the topology (KIP-1331).
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int8, int16, int32, int64, string, struct, uint16


class KeyValue(Struct):
    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    name: str = string()
    partitions: int = int32()  # 0 if the broker is to find the number; always 0 for a changelog
    replication_factor: int = int16()  # 0 for the broker's default
    topic_configs: list[KeyValue] = array(KeyValue)


class CopartitionGroup(Struct):  # indexes into the lists of the subtopology
    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


class Subtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


class Topology(Struct):
    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)


class TaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array(int32)


class Endpoint(Struct):
    host: str = string()
    port: int = uint16()


class TaskOffset(Struct):
    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class StreamsGroupHeartbeatRequest(Message, api_key=ApiKey.STREAMS_GROUP_HEARTBEAT, versions=(0, 1), flexible_from=0):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()  # 0 to join, -1 to leave, -2 when a static member leaves for a while
    endpoint_information_epoch: int = int32()
    instance_id: str | None = string(None, null_since=0)
    rack_id: str | None = string(None, null_since=0)
    rebalance_timeout_ms: int = int32(-1)  # -1 if it has not changed
    topology: Topology | None = struct(Topology, null_since=0)  # only of members that join
    active_tasks: list[TaskIds] | None = array(TaskIds, None, null_since=0)
    standby_tasks: list[TaskIds] | None = array(TaskIds, None, null_since=0)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, None, null_since=0)
    process_id: str | None = string(None, null_since=0)
    user_endpoint: Endpoint | None = struct(Endpoint, null_since=0)
    client_tags: list[KeyValue] | None = array(KeyValue, None, null_since=0)
    task_offsets: list[TaskOffset] | None = array(TaskOffset, None, null_since=0)
    task_end_offsets: list[TaskOffset] | None = array(TaskOffset, None, null_since=0)
    shutdown_application: bool = boolean()


class Status(Struct):
    status_code: int = int8()
    status_detail: str = string()


class TopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = struct(Endpoint)
    active_partitions: list[TopicPartition] = array(TopicPartition)
    standby_partitions: list[TopicPartition] = array(TopicPartition)


class StreamsGroupHeartbeatResponse(Message, api_key=ApiKey.STREAMS_GROUP_HEARTBEAT, versions=(0, 1), flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag_legacy: int = int32(until=0)
    task_offset_interval_ms: int = int32()
    acceptable_recovery_lag: int = int64(-1, since=1)  # -1 if the broker has no such limit
    status: list[Status] | None = array(Status, null_since=0)
    active_tasks: list[TaskIds] | None = array(TaskIds, None, null_since=0)  # null if nothing has changed
    standby_tasks: list[TaskIds] | None = array(TaskIds, None, null_since=0)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, None, null_since=0)
    topology_description_required: bool = boolean(since=1)
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array(EndpointToPartitions, None, null_since=0)
