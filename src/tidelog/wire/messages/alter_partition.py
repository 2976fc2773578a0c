"""AlterPartition: a leader asks the controller to change the in-sync replicas of its partitions (KIP-497).

Kafka calls the parts of the response `TopicData` and `PartitionData` as well; here they end in `Response`.

What the versions changed:

    1   adds the recovery state of the leader (KIP-704)
    2   topics are named by id (KIP-841)
    3   adds the broker epochs of the in-sync replicas (KIP-903)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int8, int16, int32, int64, string, uuid


class BrokerState(Struct):
    broker_id: int = int32()
    broker_epoch: int = int64(-1)


class PartitionData(Struct):
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(int32, until=2)
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, since=3)
    leader_recovery_state: int = int8(since=1)  # 0: recovered, 1: recovering from an unclean election
    partition_epoch: int = int32()


class TopicData(Struct):
    topic_name: str = string(until=1)
    topic_id: bytes = uuid(since=2)
    partitions: list[PartitionData] = array(PartitionData)


class AlterPartitionRequest(Message, api_key=ApiKey.ALTER_PARTITION, versions=(0, 3), flexible_from=0):
    broker_id: int = int32()
    broker_epoch: int = int64(-1)
    topics: list[TopicData] = array(TopicData)


class PartitionDataResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    leader_recovery_state: int = int8(since=1)  # 0: recovered, 1: recovering from an unclean election
    partition_epoch: int = int32()


class TopicDataResponse(Struct):
    topic_name: str = string(until=1)
    topic_id: bytes = uuid(since=2)
    partitions: list[PartitionDataResponse] = array(PartitionDataResponse)


class AlterPartitionResponse(Message, api_key=ApiKey.ALTER_PARTITION, versions=(0, 3), flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[TopicDataResponse] = array(TopicDataResponse)
