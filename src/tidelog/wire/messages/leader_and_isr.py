"""LeaderAndIsr: the controller makes a broker the leader or a follower of partitions.

What the versions changed:

    1   adds `is_new`
    2   adds the broker epoch; partitions are grouped by topic
    3   adds the replicas that a reassignment adds and removes (KIP-455)
    4   first flexible version
    5   adds topic ids and the type: 0 unknown, 1 some partitions, 2 all that the broker should have (KIP-516)
    6   adds the recovery state of the leader (KIP-704)
    7   says whether the controller is a KRaft one (KIP-866)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int8, int16, int32, int64, string, uuid


class LeaderAndIsrPartitionState(Struct):
    topic_name: str = string(until=1)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()  # -1 if there is none, -2 while the topic is deleted
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    partition_epoch: int = int32()
    replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32, since=3)
    removing_replicas: list[int] = array(int32, since=3)
    is_new: bool = boolean(since=1)
    leader_recovery_state: int = int8(since=6)  # 0: recovered, 1: recovering from an unclean election


class LeaderAndIsrTopicState(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid(since=5)
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState)


class LeaderAndIsrLiveLeader(Struct):
    broker_id: int = int32()
    host_name: str = string()
    port: int = int32()


class LeaderAndIsrRequest(Message, api_key=ApiKey.LEADER_AND_ISR, versions=(0, 7), flexible_from=4):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean(since=7)
    controller_epoch: int = int32()
    broker_epoch: int = int64(-1, since=2)
    type: int = int8(since=5)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, until=1)
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, since=2)
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader)


class LeaderAndIsrPartitionError(Struct):
    topic_name: str = string(until=4)
    partition_index: int = int32()
    error_code: int = int16()


class LeaderAndIsrTopicError(Struct):
    topic_id: bytes = uuid()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError)


class LeaderAndIsrResponse(Message, api_key=ApiKey.LEADER_AND_ISR, versions=(0, 7), flexible_from=4):
    error_code: int = int16()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, until=4)
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, since=5)
