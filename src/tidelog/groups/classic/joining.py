"""JoinGroup: which clients become members, stay members or are rejected.

new, dynamic    v4+: gets a member id and joins again with it (KIP-394); before: is added at once
new, static     is added, or replaces the member with its instance id (KIP-345)
with an id      a pending one: is added; a member's: joins the next generation, or gets the current one again
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tidelog.coordination import Decision, Respond
from tidelog.groups.classic.effects import Effects
from tidelog.groups.classic.group import Group
from tidelog.groups.classic.member import Member, Protocols
from tidelog.groups.classic.rebalancing import Rebalances, join_reply
from tidelog.groups.classic.states import GroupState
from tidelog.groups.classic.syncing import store_error
from tidelog.groups.schemas import group_key, group_value
from tidelog.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.messages.sync_group import SyncGroupResponse


class Joiner(NamedTuple):
    """The client that joins, and what its JoinGroup version supports."""

    client_id: str
    client_host: str
    needs_member_id: bool = False
    """A dynamic member gets its member id first (v4+)."""
    may_skip_assignment: bool = False
    """The response to a returning static leader can say that the assignment is to be skipped (v9+)."""


MEMBER_ID_NAME_LENGTH_MAX: Final = 1000
"""Characters of an instance id or client id in a member id, so that the member id fits into a response."""


def join_error(member_id: str, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=None)


class Joins:
    """Decides JoinGroup requests."""

    __slots__ = ("_new_id", "_rebalances", "_settings")

    def __init__(self, settings: GroupSettings, rebalances: Rebalances, new_id: Callable[[], str]) -> None:
        self._settings = settings
        self._rebalances = rebalances
        self._new_id = new_id

    def _member_id(self, name: str) -> str:
        """A new member id, which begins with the instance id or client id, cut to its maximum length."""
        return f"{name[:MEMBER_ID_NAME_LENGTH_MAX]}-{self._new_id()}"

    def join(
        self, group: Group, request: JoinGroupRequest, joiner: Joiner, respond: Respond, now_ms: int
    ) -> Decision[Any]:
        """Decide a JoinGroup for a group that exists; the session timeout has been checked."""
        effects = Effects()
        member_id = request.member_id
        if not self._has_room(group, member_id):
            group.remove(member_id)
            effects.forget_session(group, member_id)
            reply: JoinGroupResponse | None = join_error("", ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif not group.supports(request.protocol_type, (protocol.name for protocol in request.protocols)):
            reply = join_error(member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif not member_id:
            reply = self._join_new(group, request, joiner, respond, effects, now_ms)
        else:
            reply = self._join_again(group, request, joiner, respond, effects, now_ms)
        self._rebalances.try_complete_join(group, effects, now_ms)
        return effects.decide(reply)

    def _has_room(self, group: Group, member_id: str) -> bool:
        """Whether `group.max.size` admits a join.

        In the join phase only members that have joined count: when the limit was lowered, the last ones to join are
        rejected. Otherwise members stay members.
        """
        if group.state is GroupState.EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            has_joined = member is not None and member.awaiting_join is not None
            return has_joined or group.awaiting_join_count < self._settings.max_size
        return member is not None or len(group.members) < self._settings.max_size

    def _join_new(
        self,
        group: Group,
        request: JoinGroupRequest,
        joiner: Joiner,
        respond: Respond,
        effects: Effects,
        now_ms: int,
    ) -> JoinGroupResponse | None:
        instance_id = request.group_instance_id
        if instance_id is not None:
            new_id = self._member_id(instance_id)
            if instance_id in group.static_members:
                self._replace_static(group, request, new_id, joiner, respond, effects, now_ms)
            else:
                self._add(group, request, new_id, joiner, respond, effects, now_ms)
            return None
        new_id = self._member_id(joiner.client_id)
        if joiner.needs_member_id:
            group.pending_members.add(new_id)
            placeholder = Member(new_id, None, "", "", request.session_timeout_ms, 0, ())
            effects.keep_alive(group, placeholder)
            return join_error(new_id, ErrorCode.MEMBER_ID_REQUIRED)
        self._add(group, request, new_id, joiner, respond, effects, now_ms)
        return None

    def _join_again(
        self,
        group: Group,
        request: JoinGroupRequest,
        joiner: Joiner,
        respond: Respond,
        effects: Effects,
        now_ms: int,
    ) -> JoinGroupResponse | None:
        member_id = request.member_id
        if member_id in group.pending_members and request.group_instance_id is None:
            self._add(group, request, member_id, joiner, respond, effects, now_ms)
            return None
        try:
            member = group.check_member(member_id, request.group_instance_id)
        except ApiError as error:
            return join_error(member_id, error.code)
        if group.state is GroupState.EMPTY:
            return join_error(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        is_unchanged = joined_protocols(request) == member.protocols
        if group.state is GroupState.COMPLETING_REBALANCE and is_unchanged:
            # It may not have received the response to its JoinGroup, so it gets the same again.
            return join_reply(group, member)
        if group.state is GroupState.STABLE and is_unchanged and group.leader_id != member_id:
            # It missed the response and can still send SyncGroup. A leader that joins again wants a rebalance: it has
            # seen topics change, which its own metadata does not show.
            return join_reply(group, member)
        self._update(group, member, request, respond, effects)
        self._rebalances.begin_if_possible(group, effects, f"{member_id} joins again", now_ms)
        return None

    def _add(
        self,
        group: Group,
        request: JoinGroupRequest,
        member_id: str,
        joiner: Joiner,
        respond: Respond,
        effects: Effects,
        now_ms: int,
    ) -> None:
        member = Member(
            member_id,
            request.group_instance_id,
            joiner.client_id,
            joiner.client_host,
            request.session_timeout_ms,
            rebalance_timeout_ms(request),
            joined_protocols(request),
        )
        member.is_new = True
        if group.state is GroupState.PREPARING_REBALANCE and group.generation == 0:
            group.has_new_member = True
        if not group.members:
            group.protocol_type = request.protocol_type
        group.add(member, respond)
        effects.keep_alive(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalances.begin_if_possible(group, effects, f"{member_id} joins", now_ms)

    @staticmethod
    def _update(
        group: Group, member: Member, request: JoinGroupRequest, respond: Respond | None, effects: Effects
    ) -> None:
        """A repeated JoinGroup replaces the waiting one, whose connection is most likely gone."""
        effects.answer(member.awaiting_join, join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
        timeout_ms = rebalance_timeout_ms(request)
        group.update(member, joined_protocols(request), request.session_timeout_ms, timeout_ms, respond)

    # --- static members ---

    def _replace_static(
        self,
        group: Group,
        request: JoinGroupRequest,
        new_id: str,
        joiner: Joiner,
        respond: Respond,
        effects: Effects,
        now_ms: int,
    ) -> None:
        """A static member returned without its member id. It gets a new one, which fences the old one."""
        assert request.group_instance_id is not None, "a static member has an instance id"
        old_id = group.static_members[request.group_instance_id]
        old_leader = group.leader_id
        member = group.members[old_id]
        effects.answer(group.take_join(member), join_error(old_id, ErrorCode.FENCED_INSTANCE_ID))
        sync_waits, member.awaiting_sync = member.awaiting_sync, None
        effects.answer(sync_waits, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        before = (member.protocols, member.session_timeout_ms, member.rebalance_timeout_ms)
        group.rename_static(member, new_id)
        effects.forget_session(group, old_id)
        self._update(group, member, request, respond, effects)
        effects.keep_alive(group, member)
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The leader may be assigning to the old id, so the rebalance starts over.
            self._rebalances.begin(group, effects, f"{old_id} returned as {new_id}", now_ms)
        elif group.state is GroupState.STABLE:
            if group.select_protocol() != group.protocol_name:
                reason = f"{old_id} returned as {new_id} and another protocol is chosen"
                self._rebalances.begin(group, effects, reason, now_ms)
                return
            group.take_join(member)
            effects.records.append(_current(group))
            effects.then = _StaticReplaced(group, member, old_id, old_leader, before, joiner, respond)


class _StaticReplaced:
    """Continues once the new member id of a static member is stored or rejected by the log."""

    __slots__ = ("_before", "_group", "_joiner", "_member", "_new_id", "_old_id", "_old_leader", "_respond")

    def __init__(
        self,
        group: Group,
        member: Member,
        old_id: str,
        old_leader: str | None,
        before: tuple[Protocols, int, int],
        joiner: Joiner,
        respond: Respond,
    ) -> None:
        self._group = group
        self._member = member
        self._new_id = member.member_id
        self._old_id = old_id
        self._old_leader = old_leader
        self._before = before
        self._joiner = joiner
        self._respond = respond

    def __call__(self, code: ErrorCode, _now_ms: int) -> Decision[Any]:
        effects = Effects()
        group, member = self._group, self._member
        if group.members.get(self._new_id) is not member:
            # Meanwhile it has left, or has returned once more.
            is_replaced = member.instance_id in group.static_members
            error = ErrorCode.FENCED_INSTANCE_ID if is_replaced else ErrorCode.UNKNOWN_MEMBER_ID
            effects.answer(self._respond, join_error(self._new_id, error))
        elif code is not ErrorCode.NONE:
            group.update(member, *self._before, None)
            group.rename_static(member, self._old_id)
            effects.forget_session(group, self._new_id)
            effects.keep_alive(group, member)
            effects.answer(self._respond, join_error("", store_error(code)))
        else:
            effects.answer(self._respond, self._reply())
        return effects.decide()

    def _reply(self) -> JoinGroupResponse:
        """The assignment is kept. Before v9 the response names the old leader id, so that no member acts as leader."""
        group, member = self._group, self._member
        if not self._joiner.may_skip_assignment:
            return join_reply(group, member, leader_id=self._old_leader)
        reply = join_reply(group, member)
        reply.skip_assignment = group.leader_id == member.member_id
        return reply


def _current(group: Group) -> tuple[bytes, bytes]:
    assignments = {member.member_id: member.assignment for member in group.members.values()}
    return group_key(group.group_id), group_value(group.stored(), assignments)


def joined_protocols(request: JoinGroupRequest) -> Protocols:
    """The protocols of a JoinGroup, with their metadata."""
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)


def rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """Version 0 has one timeout for both."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms
