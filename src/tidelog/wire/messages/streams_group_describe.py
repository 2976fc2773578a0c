"""StreamsGroupDescribe: state, topology, members and tasks of groups of Kafka Streams (KIP-1071).

Version 1 has the name of the assignor (KIP-1357) and, if asked for, the description of the topology (KIP-1331).
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.messages.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo
from tidelog.wire.schema import Message, Struct, array, boolean, int8, int16, int32, string, struct


class StreamsGroupDescribeRequest(Message, api_key=ApiKey.STREAMS_GROUP_DESCRIBE, versions=(0, 1), flexible_from=0):
    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()
    include_topology_description: bool = boolean(since=1)


class Subtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    repartition_sink_topics: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)


class Topology(Struct):
    epoch: int = int32()
    subtopologies: list[Subtopology] | None = array(Subtopology, None, null_since=0)


class Assignment(Struct):
    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)


class Member(Struct):
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(None, null_since=0)
    rack_id: str | None = string(None, null_since=0)
    client_id: str = string()
    client_host: str = string()
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = struct(Endpoint, null_since=0)
    client_tags: list[KeyValue] = array(KeyValue)
    task_offsets: list[TaskOffset] = array(TaskOffset)
    task_end_offsets: list[TaskOffset] = array(TaskOffset)
    assignment: Assignment = struct(Assignment)
    target_assignment: Assignment = struct(Assignment)
    is_classic: bool = boolean()


class TopologyDescriptionNode(Struct):
    name: str = string(since=1)
    node_type: int = int8(since=1)  # 1 a source, 2 a processor, 3 a sink
    source_topics: list[str] = array(string, since=1)
    sink_topic: str | None = string(None, since=1, null_since=1)
    stores: list[str] = array(string, since=1)
    successors: list[str] = array(string, since=1)


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: str = string(since=1)
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode, since=1)


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode = struct(TopologyDescriptionNode, since=1)
    processor: TopologyDescriptionNode = struct(TopologyDescriptionNode, since=1)


class TopologyDescription(Struct):
    subtopologies: list[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology, since=1)
    global_stores: list[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore, since=1)


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    topology: Topology | None = struct(Topology, null_since=0)
    members: list[Member] = array(Member)
    authorized_operations: int = int32(-0x80000000)  # a bit per operation; this default if not asked for
    topology_description: TopologyDescription | None = struct(TopologyDescription, since=1, null_since=1)
    topology_description_status: int = int8(since=1)  # 0 not asked for, 1 none, 2 an error, 3 available
    assignor_name: str | None = string(None, since=1, null_since=1)


class StreamsGroupDescribeResponse(Message, api_key=ApiKey.STREAMS_GROUP_DESCRIBE, versions=(0, 1), flexible_from=0):
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
