"""ElectLeaders: elect the leaders of partitions; null means all partitions.

What the versions changed:

    0   elects preferred leaders
    1   adds the type of election, and an error code for the whole response (KIP-460)
    2   first flexible version
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int8, int16, int32, string


class TopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class ElectLeadersRequest(Message, api_key=ApiKey.ELECT_LEADERS, versions=(0, 2), flexible_from=2):
    election_type: int = int8(since=1)  # 0: preferred, 1: unclean
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, null_since=0)
    timeout_ms: int = int32(60000)


class PartitionResult(Struct):
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null_since=0)


class ReplicaElectionResult(Struct):
    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


class ElectLeadersResponse(Message, api_key=ApiKey.ELECT_LEADERS, versions=(0, 2), flexible_from=2):
    throttle_time_ms: int = int32()
    error_code: int = int16(since=1)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
