"""Heartbeat: keeps a member of a consumer group alive; the response says whether the group rebalances.

What the versions changed:

    1   adds the throttle time
    2   the broker responds at once, and the client waits for the throttle time
    3   adds static members (KIP-345)
    4   first flexible version
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, int16, int32, string


class HeartbeatRequest(Message, api_key=ApiKey.HEARTBEAT, versions=(0, 4), flexible_from=4):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(None, since=3, null_since=3)


class HeartbeatResponse(Message, api_key=ApiKey.HEARTBEAT, versions=(0, 4), flexible_from=4):
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
