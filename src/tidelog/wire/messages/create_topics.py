"""CreateTopics: create topics, by number of partitions and replicas or by explicit assignment.

What the versions changed:

    1   adds `validate_only` and error messages
    2   adds the throttle time
    3   the broker responds at once, and the client waits for the throttle time
    4   -1 asks for the broker's default number of partitions and replicas (KIP-464)
    5   first flexible version; the response has partitions, replicas and configs (KIP-525)
    6   may fail with THROTTLING_QUOTA_EXCEEDED (KIP-599)
    7   the response has the topic's id
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int8, int16, int32, string, uuid


class CreatableReplicaAssignment(Struct):
    partition_index: int = int32()
    broker_ids: list[int] = array(int32)


class CreatableTopicConfig(Struct):
    name: str = string()
    value: str | None = string(null_since=0)


class CreatableTopic(Struct):
    name: str = string()
    num_partitions: int = int32()  # -1 with explicit assignments, or for the broker's default
    replication_factor: int = int16()  # -1 with explicit assignments, or for the broker's default
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


class CreateTopicsRequest(Message, api_key=ApiKey.CREATE_TOPICS, versions=(0, 7), flexible_from=5):
    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(60000)
    validate_only: bool = boolean(since=1)


class CreatableTopicConfigs(Struct):
    name: str = string()
    value: str | None = string(null_since=0)
    read_only: bool = boolean()
    config_source: int = int8(-1)  # as in DescribeConfigs
    is_sensitive: bool = boolean()


class CreatableTopicResult(Struct):
    name: str = string()
    topic_id: bytes = uuid(since=7)
    error_code: int = int16()
    error_message: str | None = string(since=1, null_since=1)
    topic_config_error_code: int = int16(since=5, tag=0)  # why there are no configs
    num_partitions: int = int32(-1, since=5)
    replication_factor: int = int16(-1, since=5)
    # Null if they may not be seen.
    configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, since=5, null_since=5)


class CreateTopicsResponse(Message, api_key=ApiKey.CREATE_TOPICS, versions=(0, 7), flexible_from=5):
    throttle_time_ms: int = int32(since=2)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
