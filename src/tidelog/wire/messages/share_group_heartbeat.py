"""ShareGroupHeartbeat: join, stay in and leave a share group, whose partitions the broker assigns (KIP-932).

Version 0 was a preview that Kafka 4.1 removed; there is none here either.
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, string, struct, uuid


class ShareGroupHeartbeatRequest(Message, api_key=ApiKey.SHARE_GROUP_HEARTBEAT, versions=(1, 1), flexible_from=0):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()  # 0 to join, -1 to leave
    rack_id: str | None = string(None, null_since=0)
    subscribed_topic_names: list[str] | None = array(string, None, null_since=0)


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupHeartbeatResponse(Message, api_key=ApiKey.SHARE_GROUP_HEARTBEAT, versions=(1, 1), flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)
    member_id: str | None = string(None, null_since=0)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, null_since=0)  # null if it has not changed
