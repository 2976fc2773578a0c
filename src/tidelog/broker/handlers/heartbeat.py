"""Heartbeat: renews a member's session; its response reports a rebalance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.handlers._groups import check_group_id
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from tidelog.broker.context import Context


def handle(request: HeartbeatRequest, context: Context) -> HeartbeatResponse:
    """Ask the group's coordinator."""
    context.check_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    check_group_id(request.group_id)
    return context.node.groups.call(
        request.group_id, lambda shard, _respond, now_ms: shard.heartbeat(request, now_ms), _shape
    )


def _shape(outcome: HeartbeatResponse | ApiError) -> HeartbeatResponse:
    if not isinstance(outcome, ApiError):
        return outcome
    # No error while the group loads: sessions begin when the load ends.
    is_loading = outcome.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else outcome.code)
