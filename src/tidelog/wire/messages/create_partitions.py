"""CreatePartitions: give topics more partitions.

What the versions changed:

    1   the broker responds at once, and the client waits for the throttle time
    2   first flexible version
    3   may fail with THROTTLING_QUOTA_EXCEEDED (KIP-599)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int16, int32, string


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array(int32)


class CreatePartitionsTopic(Struct):
    name: str = string()
    count: int = int32()  # the total that the topic is to have
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, null_since=0)


class CreatePartitionsRequest(Message, api_key=ApiKey.CREATE_PARTITIONS, versions=(0, 3), flexible_from=2):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopicResult(Struct):
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)


class CreatePartitionsResponse(Message, api_key=ApiKey.CREATE_PARTITIONS, versions=(0, 3), flexible_from=2):
    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
