"""ConsumerGroupHeartbeat: a member joins, stays, gets its assignment, or leaves (KIP-848)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from tidelog.coordination import Decision, StateRecord, TimerChange
from tidelog.groups.consumer.change import Change, current_record
from tidelog.groups.consumer.checks import (
    JOINS,
    Asker,
    check_epoch,
    check_request,
    check_room,
    from_wire,
    is_full,
    to_wire,
)
from tidelog.groups.consumer.group import LEFT_FOR_NOW, ConsumerGroup, ConsumerMember, MemberState
from tidelog.groups.consumer.migration import FindGroup, become_classic
from tidelog.groups.consumer.progress import Progress
from tidelog.groups.consumer.timers import REJOIN, RESYNC, REVOCATION, SESSION, cancel, set_timer
from tidelog.groups.settings import GroupSettings, TimeoutsOf
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

logger = logging.getLogger(__name__)


class ConsumerRequests:
    """Decides the requests of consumer groups. Decisions are appended and take effect by replay."""

    def __init__(
        self,
        settings: GroupSettings,
        timeouts_of: TimeoutsOf,
        progress: Progress,
        new_id: Callable[[], str],
        find_group: FindGroup,
    ) -> None:
        self._settings = settings
        self._timeouts_of = timeouts_of
        self._progress = progress
        self._new_id = new_id
        self._find_group = find_group

    def heartbeat(
        self,
        group: ConsumerGroup | None,
        request: ConsumerGroupHeartbeatRequest,
        asker: Asker,
        now_ms: int,
        before: Iterable[StateRecord] = (),
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """Decide a heartbeat; `before` are records to append first, if the group has to be created."""
        check_request(request, asker)
        if group is None:
            if request.member_epoch != JOINS:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {request.group_id} does not exist")
            group = ConsumerGroup(request.group_id)
        if request.member_epoch < 0:
            return self._leave(group, request, now_ms)
        change = Change(group, [*before])
        member = self._find(group, request, change)
        updated = _updated(member or ConsumerMember(change.member_id), request, asker)
        owned = None if request.topic_partitions is None else from_wire(request.topic_partitions)
        stepped = self._progress.advance(change, member, updated, owned, asker.topic_filter)
        timeouts = self._timeouts_of(group.group_id)
        timers: list[TimerChange] = [set_timer(SESSION, group.group_id, updated.member_id, timeouts.session_ms)]
        timers += _revocation_timer(group, updated, stepped)
        if member is not None and member.classic is not None:
            timers += cancel(group.group_id, updated.member_id, REJOIN, RESYNC)
        must_tell = (
            request.member_epoch == JOINS
            or is_full(request)
            or stepped.assigned != (member.assigned if member is not None else {})
        )
        response = ConsumerGroupHeartbeatResponse(
            member_id=updated.member_id,
            member_epoch=stepped.member_epoch,
            heartbeat_interval_ms=timeouts.heartbeat_interval_ms,
            assignment=to_wire(stepped.assigned) if must_tell else None,
        )
        return Decision(response, tuple(change.records), tuple(timers))

    # --- members ---

    def _find(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, change: Change
    ) -> ConsumerMember | None:
        """The member that sent the heartbeat, or None if it is new; raises ApiError if it is not allowed."""
        change.member_id = request.member_id or self._new_id()
        if request.instance_id is not None:
            member = self._find_static(group, request, change)
        else:
            member = group.members.get(change.member_id)
            if member is None and request.member_epoch != JOINS:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{request.member_id} is not a member of {group.group_id}")
            if member is not None:
                # Also for a member that joins again under its id: allowed only if the response to its first heartbeat
                # was lost.
                check_epoch(member, request)
        if member is None:
            check_room(group, self._settings)
        return member

    def _find_static(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, change: Change
    ) -> ConsumerMember | None:
        assert request.instance_id is not None, "a static member has an instance id"
        known_id = group.static_members.get(request.instance_id)
        if known_id is None:
            if request.member_epoch != JOINS:
                text = f"{group.group_id} has no member with instance {request.instance_id}"
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, text)
            return group.members.get(change.member_id)
        known = group.members[known_id]
        if known_id == change.member_id and request.member_epoch != JOINS:
            check_epoch(known, request)
            return known
        if request.member_epoch != JOINS:
            raise ApiError(ErrorCode.FENCED_INSTANCE_ID, f"instance {request.instance_id} now has another member id")
        if known.member_epoch != LEFT_FOR_NOW:
            raise ApiError(ErrorCode.UNRELEASED_INSTANCE_ID, f"instance {request.instance_id} is in use")
        return change.replace(known)

    def _leave(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, now_ms: int
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        member = group.check_member(request.member_id, request.instance_id)
        response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.member_epoch != LEFT_FOR_NOW:
            return self.remove(group, member, now_ms)._replace(reply=response)
        gone = member._replace(
            member_epoch=LEFT_FOR_NOW,
            previous_epoch=member.member_epoch,
            state=MemberState.STABLE,
            pending_revocation={},
        )
        timers: list[TimerChange] = [
            set_timer(SESSION, group.group_id, member.member_id, self._timeouts_of(group.group_id).session_ms),
            *cancel(group.group_id, member.member_id, REVOCATION),
        ]
        return Decision(response, (current_record(group.group_id, gone),), tuple(timers))

    def remove(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> Decision[Any]:
        """A member left or timed out: the others share its partitions, beginning with their next heartbeats.

        If only classic members are left, the group may become a classic one.
        """
        if self._may_downgrade(group, member):
            logger.info("group %s becomes a classic group without %s", group.group_id, member.member_id)
            return become_classic(group, member.member_id, now_ms, self._find_group)
        change = Change(group, [])
        change.remove(member)
        self._progress.refresh_topics(change)
        change.bump_epoch()
        timers = cancel(group.group_id, member.member_id)
        return Decision(records=tuple(change.records), timers=tuple(timers))

    def _may_downgrade(self, group: ConsumerGroup, leaving: ConsumerMember) -> bool:
        others = [member for member in group.members.values() if member is not leaving]
        if leaving.classic is not None or not others or any(member.classic is None for member in others):
            return False
        if not self._settings.can_downgrade or len(others) > self._settings.max_size:
            logger.info(
                "group %s stays a consumer group: group.consumer.migration.policy or group.max.size forbids classic",
                group.group_id,
            )
            return False
        return True


def _updated(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, asker: Asker) -> ConsumerMember:
    """The member with the fields of a heartbeat; fields that are left out have not changed."""
    names = request.subscribed_topic_names
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=asker.client_id,
        client_host=asker.client_host,
        subscribed_topics=member.subscribed_topics if names is None else tuple(sorted(set(names))),
        subscribed_regex=member.subscribed_regex
        if request.subscribed_topic_regex is None
        else request.subscribed_topic_regex or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )


def _revocation_timer(group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember) -> list[TimerChange]:
    if after.state is not MemberState.UNREVOKED_PARTITIONS:
        is_set = before.state is MemberState.UNREVOKED_PARTITIONS
        return [*cancel(group.group_id, after.member_id, REVOCATION)] if is_set else []
    if after == before:
        return []
    return [set_timer(REVOCATION, group.group_id, after.member_id, after.rebalance_timeout_ms)]
