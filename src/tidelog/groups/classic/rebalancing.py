"""A rebalance from its cause to the next generation.

    begin → members join → complete_join → the leader's SyncGroup → assignment stored → members get their assignments

Called by `joining`, `syncing` and `leaving` with the effects of their operation. Two timers bound a rebalance: members
that do not send JoinGroup in time are removed, and so are members that do not send SyncGroup in time.
"""

from __future__ import annotations

import logging

from tidelog.groups.classic.effects import JOIN, SYNC, Effects
from tidelog.groups.classic.group import Group
from tidelog.groups.classic.member import Member
from tidelog.groups.classic.states import GroupEvent, GroupState, may_rebalance
from tidelog.groups.schemas import group_key, group_value
from tidelog.groups.settings import GroupSettings
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from tidelog.wire.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)


class Rebalances:
    """The steps of a rebalance."""

    __slots__ = ("_settings",)

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings

    def begin_if_possible(self, group: Group, effects: Effects, reason: str, now_ms: int) -> None:
        """Begin a rebalance unless one is being prepared; that one covers this cause too."""
        if may_rebalance(group.state):
            self.begin(group, effects, reason, now_ms)

    def begin(self, group: Group, effects: Effects, reason: str, now_ms: int) -> None:
        """Begin a rebalance: all members have to join again."""
        logger.info("group %s rebalances after generation %d: %s", group.group_id, group.generation, reason)
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.fail_syncs(group, effects, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        effects.cancel_timer(SYNC, group)
        was_empty = group.state is GroupState.EMPTY
        group.advance(GroupEvent.REBALANCE_BEGAN, now_ms)
        delay_ms = self._settings.initial_rebalance_delay_ms
        if was_empty and delay_ms > 0:
            group.initial_delay_ms = delay_ms
            group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            effects.set_timer(JOIN, group, delay_ms)
        elif was_empty or group.has_all_joined:
            self.complete_join(group, effects, now_ms)
        else:
            effects.set_timer(JOIN, group, group.rebalance_timeout_ms)

    def try_complete_join(self, group: Group, effects: Effects, now_ms: int) -> None:
        """Complete the join phase if all members have joined. The first rebalance of a group waits for its delay."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.initial_delay_left_ms is None
            and group.has_all_joined
        ):
            self.complete_join(group, effects, now_ms)

    def on_join_timeout(self, group: Group, effects: Effects, now_ms: int) -> None:
        """End the join phase; a new group that still gets members waits a little longer."""
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        left_ms = group.initial_delay_left_ms
        if left_ms and group.has_new_member:
            group.has_new_member = False
            delay_ms = min(self._settings.initial_rebalance_delay_ms, left_ms)
            group.initial_delay_left_ms = max(left_ms - group.initial_delay_ms, 0)
            group.initial_delay_ms = delay_ms
            effects.set_timer(JOIN, group, delay_ms)
            return
        self.complete_join(group, effects, now_ms)

    def complete_join(self, group: Group, effects: Effects, now_ms: int) -> None:
        """Begin the next generation with the members that have joined and with static ones, which may be restarting."""
        absent = [m for m in group.members.values() if m.awaiting_join is None and m.instance_id is None]
        for member in absent:
            logger.info("group %s removes %s: it did not join in time", group.group_id, member.member_id)
            group.remove(member.member_id)
            effects.forget_session(group, member.member_id)
        group.initial_delay_left_ms = None
        group.has_new_member = False
        if group.members and not group.elect_joined_leader():
            # Only static members are left, and none of them has joined. They stay until their sessions time out.
            effects.set_timer(JOIN, group, group.rebalance_timeout_ms)
            return
        effects.cancel_timer(JOIN, group)
        group.begin_generation(now_ms)
        if group.members:
            self._answer_joins(group, effects)
        else:
            logger.info("group %s is empty in generation %d", group.group_id, group.generation)
            effects.records.append((group_key(group.group_id), group_value(group.stored(), {})))

    def _answer_joins(self, group: Group, effects: Effects) -> None:
        logger.info(
            "group %s has %d members in generation %d, led by %s",
            group.group_id,
            len(group.members),
            group.generation,
            group.leader_id,
        )
        for member in group.members.values():
            effects.answer(group.take_join(member), join_reply(group, member))
            effects.keep_alive(group, member)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        effects.set_timer(SYNC, group, group.rebalance_timeout_ms)

    def on_sync_timeout(self, group: Group, effects: Effects, now_ms: int) -> None:
        """Remove members that did not send SyncGroup, so that others get their partitions."""
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_sync:
            return
        silent = sorted(group.pending_sync)
        for member_id in silent:
            group.remove(member_id)
            effects.forget_session(group, member_id)
        self.begin(group, effects, f"{', '.join(silent)} did not send SyncGroup in time", now_ms)

    def synced(self, group: Group, member: Member, effects: Effects) -> None:
        """A member has sent its SyncGroup; cancel the deadline once all have."""
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            effects.cancel_timer(SYNC, group)

    def hand_out(self, group: Group, assignments: dict[str, bytes], effects: Effects, now_ms: int) -> None:
        """The assignment is stored: answer every waiting member with its part."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            self._answer_sync(group, member, sync_reply(group, member), effects)
        group.advance(GroupEvent.ASSIGNMENT_STORED, now_ms)

    def fail_syncs(self, group: Group, effects: Effects, code: ErrorCode) -> None:
        """Answer every waiting SyncGroup with an error."""
        for member in group.members.values():
            member.assignment = b""
            self._answer_sync(group, member, SyncGroupResponse(error_code=code), effects)

    @staticmethod
    def _answer_sync(group: Group, member: Member, reply: SyncGroupResponse, effects: Effects) -> None:
        respond, member.awaiting_sync = member.awaiting_sync, None
        if effects.answer(respond, reply):
            # Its session may have expired while it waited; that had no effect.
            effects.keep_alive(group, member)

    def remove(self, group: Group, member: Member, effects: Effects, reason: str, now_ms: int) -> None:
        """Remove a member; the others share its partitions."""
        gone = ErrorCode.UNKNOWN_MEMBER_ID
        effects.answer(group.take_join(member), JoinGroupResponse(error_code=gone, protocol_name=None))
        sync_waits, member.awaiting_sync = member.awaiting_sync, None
        effects.answer(sync_waits, SyncGroupResponse(error_code=gone))
        group.remove(member.member_id)
        effects.forget_session(group, member.member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            self.try_complete_join(group, effects, now_ms)
        else:
            self.begin_if_possible(group, effects, reason, now_ms)

    def remove_pending(self, group: Group, member_id: str, effects: Effects, now_ms: int) -> None:
        """Remove a pending member id; the join phase no longer waits for it."""
        group.remove(member_id)
        effects.forget_session(group, member_id)
        self.try_complete_join(group, effects, now_ms)


def join_reply(group: Group, member: Member, *, leader_id: str | None = None) -> JoinGroupResponse:
    """The JoinGroup response of a member; the leader's has the metadata of all members."""
    name = group.protocol_name
    assert name is not None, "a group with members has chosen a protocol"
    members = []
    if leader_id is None and group.leader_id == member.member_id:
        members = [
            JoinGroupResponseMember(
                member_id=other.member_id, group_instance_id=other.instance_id, metadata=other.metadata(name)
            )
            for other in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=name,
        leader=leader_id or group.leader_id or "",
        member_id=member.member_id,
        members=members,
    )


def sync_reply(group: Group, member: Member) -> SyncGroupResponse:
    """The SyncGroup response of a member: its part of the assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )
