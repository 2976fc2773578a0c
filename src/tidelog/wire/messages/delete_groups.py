"""DeleteGroups: delete consumer groups that have no members.

What the versions changed:

    1   the broker responds at once, and the client waits for the throttle time
    2   first flexible version
    3   adds an error message for each group
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, string


class DeleteGroupsRequest(Message, api_key=ApiKey.DELETE_GROUPS, versions=(0, 3), flexible_from=2):
    groups_names: list[str] = array(string)


class DeletableGroupResult(Struct):
    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string(None, since=3, null_since=3)


class DeleteGroupsResponse(Message, api_key=ApiKey.DELETE_GROUPS, versions=(0, 3), flexible_from=2):
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
