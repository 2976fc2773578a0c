"""JoinGroup: become a member of a group; answered when all members have joined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.groups import Joiner
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from tidelog.broker.context import Context

_MEMBER_ID_REQUIRED_FROM: Final = 4
_PROTOCOL_MAY_BE_NULL_FROM: Final = 7
_SKIP_ASSIGNMENT_FROM: Final = 9


def handle(request: JoinGroupRequest, context: Context) -> JoinGroupResponse:
    """Ask the group's coordinator."""
    version = context.api_version
    joiner = Joiner(
        context.client_id or "",
        f"/{context.session.address}",
        needs_member_id=version >= _MEMBER_ID_REQUIRED_FROM and request.group_instance_id is None,
        may_skip_assignment=version >= _SKIP_ASSIGNMENT_FROM,
    )

    def shape(outcome: JoinGroupResponse | ApiError) -> JoinGroupResponse:
        response = outcome
        if isinstance(response, ApiError):
            response = JoinGroupResponse(error_code=response.code, member_id=request.member_id, protocol_name=None)
        if response.protocol_name is None and version < _PROTOCOL_MAY_BE_NULL_FROM:
            response.protocol_name = ""
        return response

    if not context.is_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id):
        return shape(ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return shape(ApiError(ErrorCode.INVALID_GROUP_ID, "a group id must not be empty"))
    return context.node.groups.call(
        request.group_id,
        lambda shard, respond, now_ms: shard.join(request, joiner, respond, now_ms),
        shape,
        context.slot,
    )
