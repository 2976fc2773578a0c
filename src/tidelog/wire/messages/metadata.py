"""Metadata: the brokers of the cluster, and the leader of each partition of the requested topics.

What the versions changed:

    0   an empty list of topics asks for all of them
    1   null asks for all, an empty list for none; adds rack, controller and internal topics
    2   adds the cluster id
    3   adds the throttle time
    4   the client says whether unknown topics may be created
    5   adds offline replicas
    6   the broker responds at once, and the client waits for the throttle time
    7   adds leader epochs
    8   adds authorized operations, if asked for
    9   first flexible version
    10  adds topic ids to both sides; topics are still found by name
    11  drops the authorized operations of the cluster, which are DescribeCluster's now
    12  topics may be asked for by id alone (KIP-516)
    13  adds an error code for the whole response (KIP-1102)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int16, int32, string, uuid


class MetadataRequestTopic(Struct):
    topic_id: bytes = uuid(since=10)
    name: str | None = string(null_since=10)


class MetadataRequest(Message, api_key=ApiKey.METADATA, versions=(0, 13), flexible_from=9):
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, null_since=1)
    allow_auto_topic_creation: bool = boolean(True, since=4)
    include_cluster_authorized_operations: bool = boolean(since=8, until=10)
    include_topic_authorized_operations: bool = boolean(since=8)


class MetadataResponseBroker(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(None, since=1, null_since=1)


class MetadataResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(-1, since=7)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, since=5)


class MetadataResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(null_since=12)
    topic_id: bytes = uuid(since=10)
    is_internal: bool = boolean(since=1)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(-0x80000000, since=8)  # a bit per operation; this default if not asked for


class MetadataResponse(Message, api_key=ApiKey.METADATA, versions=(0, 13), flexible_from=9):
    throttle_time_ms: int = int32(since=3)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(None, since=2, null_since=2)
    controller_id: int = int32(-1, since=1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    # A bit per operation; this default if not asked for.
    cluster_authorized_operations: int = int32(-0x80000000, since=8, until=10)
    error_code: int = int16(since=13)
