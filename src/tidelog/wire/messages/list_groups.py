"""ListGroups: the groups that this broker coordinates.

What the versions changed:

    1   adds the throttle time
    2   the broker responds at once, and the client waits for the throttle time
    3   first flexible version
    4   adds states, and a filter by them (KIP-518)
    5   adds types, and a filter by them (KIP-848)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, string


class ListGroupsRequest(Message, api_key=ApiKey.LIST_GROUPS, versions=(0, 5), flexible_from=3):
    states_filter: list[str] = array(string, since=4)
    types_filter: list[str] = array(string, since=5)


class ListedGroup(Struct):
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(since=4)
    group_type: str = string(since=5)


class ListGroupsResponse(Message, api_key=ApiKey.LIST_GROUPS, versions=(0, 5), flexible_from=3):
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
