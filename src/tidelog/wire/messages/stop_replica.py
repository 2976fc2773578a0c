"""StopReplica: the controller makes a broker stop serving replicas, and perhaps delete them.

What the versions changed:

    1   adds the broker epoch; partitions are grouped by topic
    2   first flexible version
    3   adds leader epochs; each partition says for itself whether to delete (KIP-570)
    4   says whether the controller is a KRaft one (KIP-866)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int16, int32, int64, string


class StopReplicaPartitionV0(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class StopReplicaTopicV1(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32)


class StopReplicaPartitionState(Struct):
    partition_index: int = int32()
    leader_epoch: int = int32(-1)
    delete_partition: bool = boolean()


class StopReplicaTopicState(Struct):
    topic_name: str = string()
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState)


class StopReplicaRequest(Message, api_key=ApiKey.STOP_REPLICA, versions=(0, 4), flexible_from=2):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean(since=4)
    controller_epoch: int = int32()
    broker_epoch: int = int64(-1, since=1)
    delete_partitions: bool = boolean(until=2)
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, until=0)
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, since=1, until=2)
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, since=3)


class StopReplicaPartitionError(Struct):
    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


class StopReplicaResponse(Message, api_key=ApiKey.STOP_REPLICA, versions=(0, 4), flexible_from=2):
    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)
