"""ConsumerGroupHeartbeat: a member joins, stays, learns what it has, or leaves (KIP-848).

One heartbeat may do several things, in this order, and each leaves its record:

    the member is new or changed → the group's epoch grows → the target is computed → the member takes a step
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tidelog.coordination import CancelTimer, Decision, SetTimer, StateRecord, TimerChange
from tidelog.groups.consumer.assignors import ASSIGNORS, Subscriber
from tidelog.groups.consumer.catalog import Catalog
from tidelog.groups.consumer.change import Change, current_record
from tidelog.groups.consumer.checks import JOINS, Asker, check_epoch, check_request, from_wire, is_full, to_wire
from tidelog.groups.consumer.group import LEFT_FOR_NOW, ConsumerGroup, ConsumerMember, MemberState
from tidelog.groups.consumer.patterns import matching
from tidelog.groups.consumer.reconciliation import next_step
from tidelog.groups.settings import GroupSettings
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

SESSION: Final = "session"
REVOCATION: Final = "revocation"
"""A member had until now to give up partitions."""


class ConsumerRequests:
    """Decides about consumer groups. What it decides is written down and takes effect by replay."""

    def __init__(self, settings: GroupSettings, catalog: Catalog, new_id: Callable[[], str]) -> None:
        self._settings = settings
        self._catalog = catalog
        self._new_id = new_id

    def heartbeat(
        self,
        group: ConsumerGroup | None,
        request: ConsumerGroupHeartbeatRequest,
        asker: Asker,
        before: Iterable[StateRecord] = (),
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """Decide a heartbeat; `before` are records to be written first, if the group has to be made."""
        check_request(request, asker)
        if group is None:
            if request.member_epoch != JOINS:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {request.group_id}")
            group = ConsumerGroup(request.group_id)
        if request.member_epoch < 0:
            return self._leave(group, request)
        change = Change(group, [*before])
        member = self._find(group, request, change)
        updated = _updated(member or ConsumerMember(change.member_id), request, asker)
        change.put_member(member, updated)
        self._advance_epoch(change, updated, member)
        self._assign(change)
        stepped = self._step(change, updated, request)
        timers: list[TimerChange] = [
            SetTimer((SESSION, group.group_id, updated.member_id), self._settings.consumer_session_timeout_ms)
        ]
        timers += _revocation_timer(group, updated, stepped)
        must_tell = (
            request.member_epoch == JOINS
            or is_full(request)
            or stepped.assigned != (member.assigned if member is not None else {})
        )
        response = ConsumerGroupHeartbeatResponse(
            member_id=updated.member_id,
            member_epoch=stepped.member_epoch,
            heartbeat_interval_ms=self._settings.consumer_heartbeat_interval_ms,
            assignment=to_wire(stepped.assigned) if must_tell else None,
        )
        return Decision(response, tuple(change.records), tuple(timers))

    # --- members ---

    def _find(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, change: Change
    ) -> ConsumerMember | None:
        """The member that asks, or None if it is new; raises ApiError for one that may not."""
        change.member_id = request.member_id or self._new_id()
        if request.instance_id is not None:
            member = self._find_static(group, request, change)
        else:
            member = group.members.get(change.member_id)
            if member is None and request.member_epoch != JOINS:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{request.member_id} is no member of {group.group_id}")
        if member is None and len(group.members) >= self._settings.consumer_max_size:
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"{group.group_id} has {len(group.members)} members")
        if member is not None and request.member_epoch > 0:
            check_epoch(member, request)
        return member

    def _find_static(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, change: Change
    ) -> ConsumerMember | None:
        assert request.instance_id is not None, "a static member has an instance id"
        known_id = group.static_members.get(request.instance_id)
        if known_id is None:
            if request.member_epoch != JOINS:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{group.group_id} knows no instance {request.instance_id}")
            return None
        known = group.members[known_id]
        if known_id == change.member_id:
            return known
        if request.member_epoch != JOINS:
            raise ApiError(ErrorCode.FENCED_INSTANCE_ID, f"instance {request.instance_id} has another member id by now")
        if known.member_epoch != LEFT_FOR_NOW:
            raise ApiError(ErrorCode.UNRELEASED_INSTANCE_ID, f"instance {request.instance_id} is in use")
        return change.replace(known)

    def _leave(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            known_id = group.static_members.get(request.instance_id)
            if known_id is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{group.group_id} knows no instance {request.instance_id}")
            if known_id != request.member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID, f"instance {request.instance_id} has another member id")
            member = group.members[known_id]
        response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.member_epoch != LEFT_FOR_NOW:
            return self.remove(group, member)._replace(reply=response)
        gone = member._replace(
            member_epoch=LEFT_FOR_NOW,
            previous_epoch=member.member_epoch,
            state=MemberState.STABLE,
            pending_revocation={},
        )
        timers = (
            SetTimer((SESSION, group.group_id, member.member_id), self._settings.consumer_session_timeout_ms),
            CancelTimer((REVOCATION, group.group_id, member.member_id)),
        )
        return Decision(response, (current_record(group, gone),), timers)

    def remove(self, group: ConsumerGroup, member: ConsumerMember) -> Decision[Any]:
        """A member left or was not heard of: the others share what it had, beginning with their next heartbeats."""
        change = Change(group, [])
        change.remove(member)
        self._refresh_topics(change)
        change.bump_epoch()
        keys = [(purpose, group.group_id, member.member_id) for purpose in (SESSION, REVOCATION)]
        return Decision(records=tuple(change.records), timers=tuple(CancelTimer(key) for key in keys))

    # --- steps ---

    def _advance_epoch(self, change: Change, updated: ConsumerMember, member: ConsumerMember | None) -> None:
        group = change.group
        is_new = member is None
        has_changed = is_new or (updated.subscribed_topics, updated.subscribed_regex) != (
            member.subscribed_topics,  # type: ignore[union-attr]
            member.subscribed_regex,  # type: ignore[union-attr]
        )
        has_new_topics = False
        if has_changed or group.catalog_version != self._catalog.version:
            has_new_topics = self._refresh_topics(change)
        if has_changed or has_new_topics:
            change.bump_epoch()

    def _refresh_topics(self, change: Change) -> bool:
        """Compare the topics members read with the cluster's; whether they differ from what the group has seen."""
        names: set[str] = set()
        for member in change.members.values():
            names.update(member.subscribed_topics)
            if member.subscribed_regex:
                names.update(matching(member.subscribed_regex, self._catalog.names()))
        topics = {name: found for name in sorted(names) if (found := self._catalog.topic(name)) is not None}
        # Not stored: after a load everything is compared once.
        change.group.catalog_version = self._catalog.version
        return change.put_topics(topics)

    def _assign(self, change: Change) -> None:
        if change.epoch <= change.group.assignment_epoch:
            return
        counts = {topic.topic_id: topic.partition_count for topic in change.topics.values()}
        subscribers = [
            Subscriber(
                member.member_id,
                member.instance_id,
                frozenset(topic.topic_id for name, topic in change.topics.items() if _reads(member, name)),
                change.target.get(member.member_id, {}),
            )
            for member in change.members.values()
        ]
        change.put_target(ASSIGNORS[preferred_assignor(change.members)](subscribers, counts))

    def _step(self, change: Change, member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
        owned = None if request.topic_partitions is None else from_wire(request.topic_partitions)
        owners = change.group.owners
        target = change.target.get(member.member_id, {})
        replaced = change.replaced_id

        def is_free(topic_id: bytes, partition: int) -> bool:
            owner = owners.get((topic_id, partition))
            return owner is None or owner == replaced

        stepped = next_step(member, change.assignment_epoch, target, owned, is_free)
        if stepped != member or change.replaced_id is not None:
            change.records.append(current_record(change.group, stepped))
        return stepped


def _updated(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, asker: Asker) -> ConsumerMember:
    """The member with what a heartbeat says has changed; what it leaves out has not."""
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
    )


def _reads(member: ConsumerMember, topic: str) -> bool:
    return topic in member.subscribed_topics or bool(
        member.subscribed_regex and matching(member.subscribed_regex, (topic,))
    )


def preferred_assignor(members: Mapping[str, ConsumerMember]) -> str:
    """The one most members ask for; the default if nobody does."""
    votes: dict[str, int] = {}
    for member in members.values():
        if member.server_assignor is not None:
            votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
    return max(votes, key=votes.__getitem__) if votes else next(iter(ASSIGNORS))


def _revocation_timer(group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember) -> list[TimerChange]:
    key = (REVOCATION, group.group_id, after.member_id)
    if after.state is not MemberState.UNREVOKED_PARTITIONS:
        return [CancelTimer(key)] if before.state is MemberState.UNREVOKED_PARTITIONS else []
    return [SetTimer(key, after.rebalance_timeout_ms)] if after != before else []
