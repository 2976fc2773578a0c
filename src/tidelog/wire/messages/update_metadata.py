"""UpdateMetadata: the controller sends every broker the live brokers and the leaders of partitions.

What the versions changed:

    1   a broker may have several endpoints
    2   adds racks
    3   adds the names of listeners
    4   adds offline replicas
    5   adds the broker epoch; partitions are grouped by topic
    6   first flexible version
    7   adds topic ids (KIP-516)
    8   says whether the controller is a KRaft one (KIP-866)
"""

from typing import Final

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int8, int16, int32, int64, string, uuid

FULL: Final = 2
"""The type of a request that names every topic of the cluster: those that it does not name are gone."""


class UpdateMetadataPartitionState(Struct):
    topic_name: str = string(until=4)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()  # -1 if there is none, -2 while the topic is deleted
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    zk_version: int = int32()
    replicas: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, since=4)


class UpdateMetadataTopicState(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid(since=7)
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState)


class UpdateMetadataEndpoint(Struct):
    port: int = int32()
    host: str = string()
    listener: str = string(since=3)
    security_protocol: int = int16()  # 0: PLAINTEXT, 1: SSL, 2: SASL_PLAINTEXT, 3: SASL_SSL


class UpdateMetadataBroker(Struct):
    id: int = int32()
    v0_host: str = string(until=0)
    v0_port: int = int32(until=0)
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, since=1)
    rack: str | None = string(since=2, null_since=2)


class UpdateMetadataRequest(Message, api_key=ApiKey.UPDATE_METADATA, versions=(0, 8), flexible_from=6):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean(since=8)
    type: int = int8(since=8, tag=0)  # 0 or 1: what has changed, 2: everything
    controller_epoch: int = int32()
    broker_epoch: int = int64(-1, since=5)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState, until=4)
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, since=5)
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker)


class UpdateMetadataResponse(Message, api_key=ApiKey.UPDATE_METADATA, versions=(0, 8), flexible_from=6):
    error_code: int = int16()
