"""LeaveGroup: one member, or from version 3 on several."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.handlers._groups import check_group_id
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

if TYPE_CHECKING:
    from tidelog.broker.context import Context
    from tidelog.broker.group_coordinator import Operation as GroupOperation

_SEVERAL_FROM: Final = 3
MEMBERS_AT_ONCE: Final = 500


def handle(
    request: LeaveGroupRequest, context: Context
) -> LeaveGroupResponse | Coroutine[Any, Any, LeaveGroupResponse]:
    """Ask the group's coordinator."""
    context.check_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    check_group_id(request.group_id)
    is_single = context.api_version < _SEVERAL_FROM
    if is_single:
        request.members = [MemberIdentity(member_id=request.member_id)]

    def shape(outcome: LeaveGroupResponse | ApiError) -> LeaveGroupResponse:
        if isinstance(outcome, ApiError):
            return LeaveGroupResponse(error_code=outcome.code)
        if is_single:
            outcome.error_code = outcome.members[0].error_code
        return outcome

    if len(request.members) > MEMBERS_AT_ONCE:
        return _leave_in_parts(request, context)
    return context.node.groups.call(request.group_id, _leaving(request), shape)


async def _leave_in_parts(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse:
    """So many members leave that it would take too long at once; the first part that fails ends it."""
    response = LeaveGroupResponse()
    for start in range(0, len(request.members), MEMBERS_AT_ONCE):
        part = LeaveGroupRequest(group_id=request.group_id, members=request.members[start : start + MEMBERS_AT_ONCE])
        outcome = await context.node.groups.ask(request.group_id, _leaving(part))
        if isinstance(outcome, ApiError):
            return LeaveGroupResponse(error_code=outcome.code)
        response.members += outcome.members
        await context.node.slices.pause()
    return response


def _leaving(request: LeaveGroupRequest) -> GroupOperation:
    return lambda shard, _respond, now_ms: shard.leave(request, now_ms)
