"""Classic groups (JoinGroup, SyncGroup, Heartbeat, LeaveGroup): become and stay a member, and leave.

JoinGroup: become a member of a group; answered when all members have joined.
SyncGroup: returns a member's assignment, which the group's leader sends.
Heartbeat: renews a member's session; its response reports a rebalance.
LeaveGroup: one member, or from version 3 on several.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.handlers._groups import check_group_id
from tidelog.groups import Joiner
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from tidelog.broker.coordinators.replies import Eventual
    from tidelog.broker.handlers._groups import GroupOperation
    from tidelog.broker.serving.context import Context


_MEMBER_ID_REQUIRED_FROM: Final = 4
_PROTOCOL_MAY_BE_NULL_FROM: Final = 7
_SKIP_ASSIGNMENT_FROM: Final = 9


def handle_join(request: JoinGroupRequest, context: Context) -> Eventual[JoinGroupResponse]:
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
    )


_PROTOCOL_MANDATORY_FROM: Final = 5


def handle_sync(request: SyncGroupRequest, context: Context) -> Eventual[SyncGroupResponse]:
    """Ask the group's coordinator."""
    context.check_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    check_group_id(request.group_id)
    if context.api_version >= _PROTOCOL_MANDATORY_FROM and None in (request.protocol_type, request.protocol_name):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "protocol type and name are mandatory")
    return context.node.groups.call(
        request.group_id,
        lambda shard, respond, now_ms: shard.sync(request, respond, now_ms),
        _shape_of_sync,
    )


def _shape_of_sync(outcome: SyncGroupResponse | ApiError) -> SyncGroupResponse:
    if not isinstance(outcome, ApiError):
        return outcome
    # While a group is loaded its rebalance is lost anyway; old clients do not know the true error here.
    is_loading = outcome.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if is_loading else outcome.code)


def handle_heartbeat(request: HeartbeatRequest, context: Context) -> Eventual[HeartbeatResponse]:
    """Ask the group's coordinator."""
    context.check_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    check_group_id(request.group_id)
    return context.node.groups.call(
        request.group_id, lambda shard, _respond, now_ms: shard.heartbeat(request, now_ms), _shape_of_heartbeat
    )


def _shape_of_heartbeat(outcome: HeartbeatResponse | ApiError) -> HeartbeatResponse:
    if not isinstance(outcome, ApiError):
        return outcome
    # No error while the group loads: sessions begin when the load ends.
    is_loading = outcome.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else outcome.code)


_SEVERAL_LEAVE_FROM: Final = 3
MEMBERS_AT_ONCE: Final = 500


def handle_leave(
    request: LeaveGroupRequest, context: Context
) -> Eventual[LeaveGroupResponse] | Coroutine[Any, Any, Eventual[LeaveGroupResponse]]:
    """Ask the group's coordinator."""
    context.check_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    check_group_id(request.group_id)
    is_single = context.api_version < _SEVERAL_LEAVE_FROM
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
