"""JoinGroup: become a member of a consumer group; answered when all members have joined.

What the versions changed:

    1   adds the rebalance timeout; before, the session timeout served as both
    2   adds the throttle time
    3   the broker responds at once, and the client waits for the throttle time
    4   a member without a member id gets one and must join again with it (KIP-394)
    5   adds static members (KIP-345)
    6   first flexible version
    7   the response names the protocol type (KIP-559)
    8   the member may say why it joins (KIP-800)
    9   adds `skip_assignment` for the leader
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, blob, boolean, int16, int32, string


class JoinGroupRequestProtocol(Struct):
    name: str = string()
    metadata: bytes = blob()


class JoinGroupRequest(Message, api_key=ApiKey.JOIN_GROUP, versions=(0, 9), flexible_from=6):
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(-1, since=1)  # -1 stands for the session timeout
    member_id: str = string()
    group_instance_id: str | None = string(None, since=5, null_since=5)
    protocol_type: str = string()  # "consumer", "connect", …
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string(None, since=8, null_since=8)


class JoinGroupResponseMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(None, since=5, null_since=5)
    metadata: bytes = blob()


class JoinGroupResponse(Message, api_key=ApiKey.JOIN_GROUP, versions=(0, 9), flexible_from=6):
    throttle_time_ms: int = int32(since=2)
    error_code: int = int16()
    generation_id: int = int32(-1)
    protocol_type: str | None = string(None, since=7, null_since=7)
    protocol_name: str | None = string(null_since=7)
    leader: str = string()
    skip_assignment: bool = boolean(since=9)
    member_id: str = string()
    # All of them to the leader, none to the others.
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
