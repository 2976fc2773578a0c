"""StreamsGroupTopologyDescriptionUpdate: a member sends the description of its topology (KIP-1331).

Only brokers that store descriptions ask for them.
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int8, int16, int32, string, struct


class TopologyDescriptionNode(Struct):
    name: str = string()
    node_type: int = int8()  # 1 a source, 2 a processor, 3 a sink
    source_topics: list[str] = array(string)
    sink_topic: str | None = string(None, null_since=0)
    stores: list[str] = array(string)
    successors: list[str] = array(string)


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: str = string()
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode)


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode = struct(TopologyDescriptionNode)
    processor: TopologyDescriptionNode = struct(TopologyDescriptionNode)


class TopologyDescription(Struct):
    subtopologies: list[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology)
    global_stores: list[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore)


class StreamsGroupTopologyDescriptionUpdateRequest(
    Message, api_key=ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, versions=(0, 0), flexible_from=0
):
    group_id: str = string()
    member_id: str = string()
    topology_epoch: int = int32()
    topology_description: TopologyDescription = struct(TopologyDescription)


class StreamsGroupTopologyDescriptionUpdateResponse(
    Message, api_key=ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, versions=(0, 0), flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)
