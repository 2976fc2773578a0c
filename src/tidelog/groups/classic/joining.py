"""JoinGroup: who becomes a member, who stays one, who is turned away.

new, dynamic    v4+: gets an id and comes again with it (KIP-394); before: is taken in at once
new, static     is taken in; or takes the place of the member with its instance id (KIP-345)
with an id      given out before: is taken in; a member's: joins the next generation, or hears of this one again
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
    """Who asks, and what its version of JoinGroup can be told."""

    client_id: str
    client_host: str
    needs_member_id: bool = False
    """A dynamic member is given its id first (v4+)."""
    may_skip_assignment: bool = False
    """A static leader that came back can be told that there is nothing to assign (v9+)."""


MEMBER_ID_NAME_LENGTH_MAX: Final = 1000
"""Characters of an instance id or client id in a member id. Whole ones may be as long as a string of a reply can be."""


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
        """A new member id, which begins with the instance id or the client id as far as a string has room for it."""
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

        While members join, those that have done so count: when the limit was lowered, the last ones to come are put
        out. Otherwise members stay members.
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
            # It may not have received the answer to its JoinGroup, so it gets the same again.
            return join_reply(group, member)
        if group.state is GroupState.STABLE and is_unchanged and group.leader_id != member_id:
            # It missed its generation and can still ask for its assignment. A leader that joins wants a rebalance:
            # it has seen topics change, which its own metadata does not show.
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
        """A repeated JoinGroup takes the place of the one that waits, whose connection is most likely gone."""
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
        """A static member came back without its id. It gets a new one, and the old one, should it live, is fenced."""
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
            # The leader may be assigning to the old id, so everybody starts over.
            self._rebalances.begin(group, effects, f"{old_id} came back as {new_id}", now_ms)
        elif group.state is GroupState.STABLE:
            if group.select_protocol() != group.protocol_name:
                reason = f"{old_id} came back as {new_id} and another protocol is chosen"
                self._rebalances.begin(group, effects, reason, now_ms)
                return
            group.take_join(member)
            effects.records.append(_current(group))
            effects.then = _StaticReplaced(group, member, old_id, old_leader, before, joiner, respond)


class _StaticReplaced:
    """What follows when the new id of a static member is stored, or could not be."""

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
            # While the log was written it has left, or has come back once more.
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
        """Nothing is to be assigned. Before v9 that is said by naming the old leader, which nobody is any more."""
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
    """What a JoinGroup says its member can speak."""
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)


def rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """Version 0 has one timeout for both."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms
