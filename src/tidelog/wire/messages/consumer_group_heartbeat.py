"""ConsumerGroupHeartbeat: join, stay in and leave a group that the broker itself assigns (KIP-848).

The member sends what has changed since its last heartbeat; fields that have not are null, or -1.

What the versions changed:

    1   adds subscriptions by pattern (KIP-848), members generate their own ids (KIP-1082)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, string, struct, uuid


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupHeartbeatRequest(Message, api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), flexible_from=0):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()  # 0 to join, -1 to leave, -2 to leave as a static member that will be back
    instance_id: str | None = string(None, null_since=0)
    rack_id: str | None = string(None, null_since=0)
    rebalance_timeout_ms: int = int32(-1)
    subscribed_topic_names: list[str] | None = array(string, None, null_since=0)
    subscribed_topic_regex: str | None = string(None, since=1, null_since=1)
    server_assignor: str | None = string(None, null_since=0)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, None, null_since=0)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupHeartbeatResponse(
    Message, api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)
    member_id: str | None = string(None, null_since=0)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, null_since=0)  # null if it has not changed
