"""LeaveGroup: members leave a consumer group at once instead of by session timeout.

What the versions changed:

    1   adds the throttle time
    2   the broker responds at once, and the client waits for the throttle time
    3   several members, static ones too, in one request (KIP-345)
    4   first flexible version
    5   a member may say why it leaves (KIP-800)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, string


class MemberIdentity(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(None, null_since=0)
    reason: str | None = string(None, since=5, null_since=5)


class LeaveGroupRequest(Message, api_key=ApiKey.LEAVE_GROUP, versions=(0, 5), flexible_from=4):
    group_id: str = string()
    member_id: str = string(until=2)
    members: list[MemberIdentity] = array(MemberIdentity, since=3)


class MemberResponse(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(null_since=0)
    error_code: int = int16()


class LeaveGroupResponse(Message, api_key=ApiKey.LEAVE_GROUP, versions=(0, 5), flexible_from=4):
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, since=3)
