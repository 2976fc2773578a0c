"""Heartbeat, LeaveGroup and session timeouts."""

from __future__ import annotations

from typing import Any, Final

from tidelog.coordination import Decision
from tidelog.groups.classic.effects import Effects
from tidelog.groups.classic.group import Group
from tidelog.groups.classic.rebalancing import Rebalances
from tidelog.groups.classic.states import GroupState
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

HEARTBEAT_ERRORS: Final = {
    GroupState.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    GroupState.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.COMPLETING_REBALANCE: ErrorCode.NONE,
    GroupState.STABLE: ErrorCode.NONE,
    GroupState.DEAD: ErrorCode.UNKNOWN_MEMBER_ID,
}
"""The error of a heartbeat response by group state. A joined member may send heartbeats before its assignment."""


class Departures:
    """Decides which members stay in the group."""

    __slots__ = ("_rebalances",)

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    def heartbeat(self, group: Group, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
        """Restart the session; the reply says whether to join again. Raises ApiError for an unknown member."""
        member = group.check_member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        effects = Effects()
        effects.keep_alive(group, member)
        return effects.decide(HeartbeatResponse(error_code=HEARTBEAT_ERRORS[group.state]))

    def leave(self, group: Group | None, request: LeaveGroupRequest, now_ms: int) -> Decision[LeaveGroupResponse]:
        """Members leave, or an operator removes static ones by their instance ids."""
        effects = Effects()
        members = [
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=self._leave(group, identity, effects, now_ms),
            )
            for identity in request.members
        ]
        return effects.decide(LeaveGroupResponse(members=members))

    def _leave(self, group: Group | None, identity: MemberIdentity, effects: Effects, now_ms: int) -> ErrorCode:
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id: str | None = identity.member_id
        if not member_id:
            member_id = group.static_members.get(identity.group_instance_id or "")
            if member_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        elif member_id in group.pending_members:
            self._rebalances.remove_pending(group, member_id, effects, now_ms)
            return ErrorCode.NONE
        try:
            member = group.check_member(member_id, identity.group_instance_id)
        except ApiError as error:
            return error.code
        reason = f"{member_id} left ({identity.reason or 'no reason given'})"
        self._rebalances.remove(group, member, effects, reason, now_ms)
        return ErrorCode.NONE

    def on_session_timeout(self, group: Group, member_id: str, now_ms: int) -> Decision[Any]:
        """Remove a member whose session has timed out."""
        effects = Effects()
        member = group.members.get(member_id)
        if member is None:
            self._rebalances.remove_pending(group, member_id, effects, now_ms)
        elif not member.is_waiting:
            reason = f"the session of {member_id} timed out after {member.session_timeout_ms} ms"
            self._rebalances.remove(group, member, effects, reason, now_ms)
        return effects.decide()
