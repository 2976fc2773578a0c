"""SyncGroup: returns a member's assignment, which the group's leader sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.broker.handlers._groups import check_group_id
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from tidelog.broker.context import Context

_PROTOCOL_MANDATORY_FROM: Final = 5


def handle(request: SyncGroupRequest, context: Context) -> SyncGroupResponse:
    """Ask the group's coordinator."""
    context.check_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    check_group_id(request.group_id)
    if context.api_version >= _PROTOCOL_MANDATORY_FROM and None in (request.protocol_type, request.protocol_name):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "protocol type and name are mandatory")
    return context.node.groups.call(
        request.group_id,
        lambda shard, respond, now_ms: shard.sync(request, respond, now_ms),
        _shape,
        context.slot,
    )


def _shape(outcome: SyncGroupResponse | ApiError) -> SyncGroupResponse:
    if not isinstance(outcome, ApiError):
        return outcome
    # While a group is loaded its rebalance is lost anyway; old clients do not know the true error here.
    is_loading = outcome.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if is_loading else outcome.code)
