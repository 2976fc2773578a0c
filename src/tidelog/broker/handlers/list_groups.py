"""ListGroups: the groups that this broker coordinates, by state (v4+) and type (v5+) if asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from tidelog.broker.context import Context
    from tidelog.groups import Group

_CLASSIC: Final = "classic"
_CONSUMER: Final = "consumer"


async def handle(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    """List what is loaded; states and types are compared without regard to case."""
    coordinator = context.node.groups
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if coordinator.has_loads else ErrorCode.NONE
    response = ListGroupsResponse(error_code=error)
    sees_all = context.is_allowed(AclOperation.DESCRIBE, AclResourceType.CLUSTER, is_logged=False)
    # Groups come and go between two steps, so the list of those that are here now is made first.
    for group in [group for shard in coordinator.shards() for group in shard.groups()]:
        if not sees_all and not context.is_allowed(
            AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id, is_logged=False
        ):
            continue
        if (not states or group.state_name.lower() in states) and (not types or _kind(group) in types):
            response.groups.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or ("" if group.consumer is None else _CONSUMER),
                    group_state=group.state_name,
                    group_type=_kind(group),
                )
            )
        await context.pause()
    return response


def _kind(group: Group) -> str:
    return _CLASSIC if group.consumer is None else _CONSUMER
