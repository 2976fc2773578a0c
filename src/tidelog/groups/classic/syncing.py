"""SyncGroup: the leader sends the assignment, which is stored before any member gets its part."""

from __future__ import annotations

from typing import Any, Final

from tidelog.coordination import Decision, Respond
from tidelog.groups.classic.effects import Effects
from tidelog.groups.classic.group import Group
from tidelog.groups.classic.member import Member
from tidelog.groups.classic.rebalancing import Rebalances, sync_reply
from tidelog.groups.classic.states import GroupState
from tidelog.groups.schemas import group_key, group_value
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_STORE_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
}


def store_error(code: ErrorCode) -> ErrorCode:
    """The error for members when the log rejects the record of a group."""
    return _STORE_ERRORS.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)


class Syncs:
    """Decides SyncGroup requests."""

    __slots__ = ("_rebalances",)

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    def sync(self, group: Group, request: SyncGroupRequest, respond: Respond) -> Decision[Any]:
        """Wait for the assignment, or return it if it is there; raises ApiError for a member that cannot have one."""
        member = group.check_member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        _check_protocol(group, request)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        effects = Effects()
        self._rebalances.synced(group, member, effects)
        if group.state is GroupState.STABLE:
            effects.keep_alive(group, member)
            return effects.decide(sync_reply(group, member))
        superseded, member.awaiting_sync = member.awaiting_sync, respond
        effects.answer(superseded, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        if group.leader_id == member.member_id:
            self._store(group, member, request, effects)
        return effects.decide()

    def _store(self, group: Group, leader: Member, request: SyncGroupRequest, effects: Effects) -> None:
        assignments = {part.member_id: bytes(part.assignment) for part in request.assignments}
        generation = group.generation
        effects.records.append((group_key(group.group_id), group_value(group.stored(), assignments)))

        def stored(code: ErrorCode, now_ms: int) -> Decision[Any]:
            following = Effects()
            # A member may have joined or left meanwhile; the next rebalance then makes its own assignment.
            if group.state is GroupState.COMPLETING_REBALANCE and group.generation == generation:
                if code is ErrorCode.NONE:
                    self._rebalances.hand_out(group, assignments, following, now_ms)
                else:
                    self._rebalances.fail_syncs(group, following, store_error(code))
                    reason = f"the assignment of {leader.member_id} could not be stored: {code.name}"
                    self._rebalances.begin_if_possible(group, following, reason, now_ms)
            return following.decide()

        effects.then = stored


def _check_protocol(group: Group, request: SyncGroupRequest) -> None:
    """From version 5 on the request names the protocol the member uses (KIP-559)."""
    for said, chosen in ((request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol_name)):
        if said is not None and said != chosen:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group uses {chosen}, the request says {said}")
