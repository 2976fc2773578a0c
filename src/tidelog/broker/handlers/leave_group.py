"""LeaveGroup: one member, or from version 3 on several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.broker.handlers._groups import check_group_id
from tidelog.wire.errors import ApiError
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

if TYPE_CHECKING:
    from tidelog.broker.context import Context

_SEVERAL_FROM: Final = 3


def handle(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse:
    """Ask the group's coordinator."""
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

    return context.node.groups.call(
        request.group_id, lambda shard, _respond, now_ms: shard.leave(request, now_ms), shape
    )
