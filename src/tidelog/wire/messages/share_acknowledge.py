"""ShareAcknowledge: acknowledge acquired records without fetching more (KIP-932).

Version 0 was a preview that Kafka 4.1 removed; there is none here either. What the versions changed:

    2   adds acknowledgements that renew locks (KIP-1222)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.fields import OWN_TAGS
from tidelog.wire.schema import Message, Struct, array, boolean, int8, int16, int32, int64, string, struct, uuid


class AcknowledgementBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    # One for the whole batch, or one for each offset; 0: gap, 1: accept, 2: release, 3: reject, 4: renew.
    acknowledge_types: list[int] = array(int8)
    # Tidelog's own: released records of this batch wait this long; -1: as long as the settings of the group say.
    delay_ms: int = int64(-1, tag=OWN_TAGS)


class AcknowledgePartition(Struct):
    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


class AcknowledgeTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition)


class ShareAcknowledgeRequest(Message, api_key=ApiKey.SHARE_ACKNOWLEDGE, versions=(1, 2), flexible_from=0):
    group_id: str | None = string(None, null_since=0)
    member_id: str | None = string(null_since=0)
    share_session_epoch: int = int32()  # 0 to open a session, -1 to close it
    is_renew_ack: bool = boolean(since=2)
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32()
    leader_epoch: int = int32()


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(None, null_since=0)


class ShareAcknowledgeResponse(Message, api_key=ApiKey.SHARE_ACKNOWLEDGE, versions=(1, 2), flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)
    acquisition_lock_timeout_ms: int = int32(since=2)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
