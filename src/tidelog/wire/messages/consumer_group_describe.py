"""ConsumerGroupDescribe: state, assignment and members of groups of the newer protocol (KIP-848)."""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int8, int16, int32, string, struct, uuid


class ConsumerGroupDescribeRequest(Message, api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), flexible_from=0):
    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class Member(Struct):
    member_id: str = string()
    instance_id: str | None = string(None, null_since=0)
    rack_id: str | None = string(None, null_since=0)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(None, null_since=0)
    assignment: Assignment = struct(Assignment)
    target_assignment: Assignment = struct(Assignment)
    member_type: int = int8(-1, since=1)  # 0: classic, 1: consumer


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(-0x80000000)  # a bit per operation; this default if not asked for


class ConsumerGroupDescribeResponse(Message, api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), flexible_from=0):
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
