"""ListGroups: the groups that this broker coordinates, by state (v4+) and type (v5+) if asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from tidelog.broker.context import Context

_CLASSIC: Final = "classic"


def handle(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    """List what is loaded; states and types are compared without regard to case."""
    coordinator = context.node.groups
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    groups = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=_CLASSIC,
        )
        for shard in coordinator.shards()
        for group in shard.groups()
        if (not states or group.state.value.lower() in states) and (not types or _CLASSIC in types)
    ]
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if coordinator.has_loads else ErrorCode.NONE
    return ListGroupsResponse(error_code=error, groups=groups)
