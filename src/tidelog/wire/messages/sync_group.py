"""SyncGroup: the leader sends the assignment of a consumer group, every member gets its own part.

What the versions changed:

    1   adds the throttle time
    2   the broker responds at once, and the client waits for the throttle time
    3   adds static members (KIP-345)
    4   first flexible version
    5   both sides name protocol type and protocol, to be compared (KIP-559)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, blob, int16, int32, string


class SyncGroupRequestAssignment(Struct):
    member_id: str = string()
    assignment: bytes = blob()


class SyncGroupRequest(Message, api_key=ApiKey.SYNC_GROUP, versions=(0, 5), flexible_from=4):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(None, since=3, null_since=3)
    protocol_type: str | None = string(None, since=5, null_since=5)
    protocol_name: str | None = string(None, since=5, null_since=5)
    # From the leader; none from the others.
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Message, api_key=ApiKey.SYNC_GROUP, versions=(0, 5), flexible_from=4):
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    protocol_type: str | None = string(None, since=5, null_since=5)
    protocol_name: str | None = string(None, since=5, null_since=5)
    assignment: bytes = blob()
