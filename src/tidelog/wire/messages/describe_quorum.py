"""DescribeQuorum: who leads the metadata log, and how far its voters and observers have got (KIP-595).

What the versions changed:

    1   adds when a replica last fetched, and last had everything (KIP-836)
    2   adds error messages, the directories of replicas and the endpoints of controllers (KIP-853)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, int64, string, uint16, uuid


class PartitionData(Struct):
    partition_index: int = int32()


class TopicData(Struct):
    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


class DescribeQuorumRequest(Message, api_key=ApiKey.DESCRIBE_QUORUM, versions=(0, 2), flexible_from=0):
    topics: list[TopicData] = array(TopicData)


class ReplicaState(Struct):
    replica_id: int = int32()
    replica_directory_id: bytes = uuid(since=2)
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64(-1, since=1)
    last_caught_up_timestamp: int = int64(-1, since=1)


class PartitionDataResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, since=2, null_since=2)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


class TopicDataResponse(Struct):
    topic_name: str = string()
    partitions: list[PartitionDataResponse] = array(PartitionDataResponse)


class Listener(Struct):
    name: str = string(since=2)
    host: str = string(since=2)
    port: int = uint16(since=2)


class Node(Struct):
    node_id: int = int32(since=2)
    listeners: list[Listener] = array(Listener, since=2)


class DescribeQuorumResponse(Message, api_key=ApiKey.DESCRIBE_QUORUM, versions=(0, 2), flexible_from=0):
    error_code: int = int16()
    error_message: str | None = string(None, since=2, null_since=2)
    topics: list[TopicDataResponse] = array(TopicDataResponse)
    nodes: list[Node] = array(Node, since=2)
