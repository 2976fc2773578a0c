"""ShareGroupDescribe: state, members and assignments of share groups (KIP-932).

Version 0 was a preview that Kafka 4.1 removed; there is none here either.
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int16, int32, string, struct, uuid


class ShareGroupDescribeRequest(Message, api_key=ApiKey.SHARE_GROUP_DESCRIBE, versions=(1, 1), flexible_from=0):
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
    rack_id: str | None = string(None, null_since=0)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    assignment: Assignment = struct(Assignment)


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


class ShareGroupDescribeResponse(Message, api_key=ApiKey.SHARE_GROUP_DESCRIBE, versions=(1, 1), flexible_from=0):
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
