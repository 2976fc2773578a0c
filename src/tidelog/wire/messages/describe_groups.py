"""DescribeGroups: state, protocol and members of classic consumer groups.

What the versions changed:

    1   adds the throttle time
    2   the broker responds at once, and the client waits for the throttle time
    3   adds authorized operations, if asked for (KIP-430)
    4   adds static members (KIP-345)
    5   first flexible version
    6   a group that does not exist is an error, with a message (KIP-1043)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, blob, boolean, int16, int32, string


class DescribeGroupsRequest(Message, api_key=ApiKey.DESCRIBE_GROUPS, versions=(0, 6), flexible_from=5):
    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean(since=3)


class DescribedGroupMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(None, since=4, null_since=4)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = blob()
    member_assignment: bytes = blob()


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(None, since=6, null_since=6)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(-0x80000000, since=3)  # a bit per operation; this default if not asked for


class DescribeGroupsResponse(Message, api_key=ApiKey.DESCRIBE_GROUPS, versions=(0, 6), flexible_from=5):
    throttle_time_ms: int = int32(since=1)
    groups: list[DescribedGroup] = array(DescribedGroup)
