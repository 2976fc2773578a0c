"""AlterPartitionReassignments: move partitions to other brokers; null replicas cancel a move under way (KIP-455).

What the versions changed:

    1   the client may forbid moves that change how many replicas a partition has (KIP-860)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int16, int32, string


class ReassignablePartition(Struct):
    partition_index: int = int32()
    replicas: list[int] | None = array(int32, None, null_since=0)  # null cancels


class ReassignableTopic(Struct):
    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


class AlterPartitionReassignmentsRequest(
    Message, api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), flexible_from=0
):
    timeout_ms: int = int32(60000)
    allow_replication_factor_change: bool = boolean(True, since=1)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


class ReassignablePartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null_since=0)


class ReassignableTopicResponse(Struct):
    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


class AlterPartitionReassignmentsResponse(
    Message, api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), flexible_from=0
):
    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean(True, since=1)
    error_code: int = int16()
    error_message: str | None = string(null_since=0)
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)
