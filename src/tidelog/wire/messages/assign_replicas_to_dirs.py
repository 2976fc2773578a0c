"""AssignReplicasToDirs: a broker says in which of its log directories its replicas are (KIP-858).

Structs that Kafka calls alike in request and response end in `Response` here.
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, int64, uuid


class PartitionData(Struct):
    partition_index: int = int32()


class TopicData(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class DirectoryData(Struct):
    id: bytes = uuid()
    topics: list[TopicData] = array(TopicData)


class AssignReplicasToDirsRequest(Message, api_key=ApiKey.ASSIGN_REPLICAS_TO_DIRS, versions=(0, 0), flexible_from=0):
    broker_id: int = int32()
    broker_epoch: int = int64(-1)
    directories: list[DirectoryData] = array(DirectoryData)


class PartitionDataResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class TopicDataResponse(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionDataResponse] = array(PartitionDataResponse)


class DirectoryDataResponse(Struct):
    id: bytes = uuid()
    topics: list[TopicDataResponse] = array(TopicDataResponse)


class AssignReplicasToDirsResponse(Message, api_key=ApiKey.ASSIGN_REPLICAS_TO_DIRS, versions=(0, 0), flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    directories: list[DirectoryDataResponse] = array(DirectoryDataResponse)
