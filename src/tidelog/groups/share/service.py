"""Share groups for the shard: heartbeats, timeouts, and what becomes of the state of their partitions (KIP-932)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tidelog.coordination import CancelTimer, Decision, SetTimer, StateRecord
from tidelog.groups.consumer.catalog import Catalog
from tidelog.groups.consumer.schemas import Assignment, TargetValue, to_partitions
from tidelog.groups.records import RecordKey
from tidelog.groups.schemas import SchemaError
from tidelog.groups.share import schemas
from tidelog.groups.share.assignor import assign_simple
from tidelog.groups.share.group import ShareGroup, ShareMember, StateTopic
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.share_group_describe import Assignment as DescribedAssignment
from tidelog.wire.messages.share_group_describe import DescribedGroup, Member, TopicPartitions
from tidelog.wire.messages.share_group_heartbeat import Assignment as WireAssignment
from tidelog.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tidelog.wire.messages.share_group_heartbeat import TopicPartitions as WirePartitions

logger = logging.getLogger(__name__)

ASSIGNOR: Final = "simple"
SESSION: Final = "share session"
"""Session timeout of a member."""
JOINS: Final = 0
LEAVES: Final = -1


class MemberTimes(NamedTuple):
    """Settings of one group for its members."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    size_max: int = 200


SettingsOf = Callable[[str], MemberTimes]


class ShareGroups:
    """The share groups of one shard."""

    def __init__(self, catalog: Catalog, settings_of: SettingsOf) -> None:
        self._catalog = catalog
        self._settings_of = settings_of
        self._groups: dict[str, ShareGroup] = {}

    # --- replay ---

    def replay(self, key: RecordKey, value: bytes | None) -> None:
        """Apply a record; one that cannot be read is skipped."""
        group = self._groups.get(key.group_id)
        if key.kind == schemas.GROUP_EPOCH and value is None:
            self._groups.pop(key.group_id, None)
            return
        if group is None:
            if value is None:
                return
            group = self._groups[key.group_id] = ShareGroup(key.group_id)
        try:
            group.replay(key.kind, key.member_id, value)
        except SchemaError as error:
            logger.error("a record of share group %s is skipped: %s", key.group_id, error)

    def timers(self) -> Iterator[SetTimer]:
        """The session timeouts of all members, after a load."""
        for group in self._groups.values():
            timeout_ms = self._settings_of(group.group_id).session_timeout_ms
            for member_id in group.members:
                yield SetTimer((SESSION, group.group_id, member_id), timeout_ms)

    # --- questions ---

    def groups(self) -> Iterator[ShareGroup]:
        return iter(self._groups.values())

    def get(self, group_id: str) -> ShareGroup | None:
        return self._groups.get(group_id)

    def known(self, group_id: str) -> ShareGroup:
        group = self._groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def describe(self, group_id: str) -> DescribedGroup:
        group = self.known(group_id)
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=ASSIGNOR,
            members=[
                Member(
                    member_id=member.member_id,
                    rack_id=member.rack_id,
                    member_epoch=member.member_epoch,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    subscribed_topic_names=list(member.subscribed_topics),
                    assignment=_named(group, member.assigned),
                )
                for member in group.members.values()
            ],
        )

    # --- heartbeats ---

    def missing_states(self, request: ShareGroupHeartbeatRequest) -> tuple[int, Mapping[bytes, StateTopic]]:
        """Partitions that a member is about to read and whose state is not initialized, and the epoch to do it in.

        Raises ApiError for a heartbeat that would be rejected.
        """
        group = self._checked(request)
        if request.member_epoch == LEAVES:
            return 0, {}
        group = group or ShareGroup(request.group_id)
        if group.catalog_version == self._catalog.version and request.subscribed_topic_names is None:
            return 0, {}
        names = group.subscribed_topics() | set(request.subscribed_topic_names or ())
        missing: dict[bytes, StateTopic] = {}
        for name in sorted(names):
            topic = self._catalog.topic(name)
            if topic is None:
                continue
            there = group.initialized.get(topic.topic_id)
            wanted = frozenset(range(topic.partition_count)) - (there.partitions if there else frozenset())
            if wanted:
                missing[topic.topic_id] = StateTopic(name, wanted)
        return max(group.epoch, 1), missing

    def initialized(self, group_id: str, topics: Mapping[bytes, StateTopic], _now_ms: int) -> Decision[ErrorCode]:
        """States of partitions were initialized: they may be assigned from now on."""
        group = self._groups.get(group_id) or ShareGroup(group_id)
        together = dict(group.initialized)
        for topic_id, (name, partitions) in topics.items():
            before = together.get(topic_id)
            together[topic_id] = StateTopic(name, partitions | (before.partitions if before else frozenset()))
        records = [_state_record(group_id, together)]
        if group.epoch == 0:
            records.insert(0, _epoch_record(group_id, 1))
        group.catalog_version = -1
        return Decision(ErrorCode.NONE, tuple(records))

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, client_id: str, client_host: str, now_ms: int
    ) -> Decision[ShareGroupHeartbeatResponse]:
        """Join, stay in or leave a group."""
        group = self._checked(request) or ShareGroup(request.group_id)
        settings = self._settings_of(request.group_id)
        if request.member_epoch == LEAVES:
            response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVES)
            return self._remove(group, request.member_id, now_ms)._replace(reply=response)
        before = group.members.get(request.member_id)
        if before is None and len(group.members) >= settings.size_max:
            text = f"{group.group_id} has {len(group.members)} members, group.share.max.size is {settings.size_max}"
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
        after = _updated(before or ShareMember(request.member_id), request, client_id, client_host)
        records: list[StateRecord] = []
        if before is None or before[:5] != after[:5]:
            records.append(_member_record(group.group_id, after))
        stepped = self._advance(group, before, after, records, now_ms)
        must_send = (
            request.member_epoch == JOINS
            or request.subscribed_topic_names is not None
            or before is None
            or stepped.assigned != before.assigned
        )
        response = ShareGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=stepped.member_epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            assignment=_to_wire(stepped.assigned) if must_send else None,
        )
        timer = SetTimer((SESSION, group.group_id, request.member_id), settings.session_timeout_ms)
        return Decision(response, tuple(records), (timer,))

    def _checked(self, request: ShareGroupHeartbeatRequest) -> ShareGroup | None:
        """The group of a heartbeat, None for one that it creates; raises ApiError for a heartbeat that is invalid."""
        epoch = request.member_epoch
        faults = {
            "group id is empty": not request.group_id.strip(),
            "member id is empty": not request.member_id.strip(),
            "rack id is empty": request.rack_id == "",
            "subscription is missing": epoch == JOINS and not request.subscribed_topic_names,
            "member epoch is out of range": epoch < LEAVES,
        }
        for fault, is_there in faults.items():
            if is_there:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"invalid heartbeat: its {fault}")
        group = self._groups.get(request.group_id)
        if group is None:
            if epoch != JOINS:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {request.group_id} does not exist")
            return None
        member = group.members.get(request.member_id)
        if member is None:
            if epoch != JOINS:
                text = f"{request.member_id} is not a member of {request.group_id}"
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, text)
        elif epoch > 0 and epoch not in (member.member_epoch, member.previous_epoch):
            text = f"{member.member_id} is in epoch {member.member_epoch}, the heartbeat says {epoch}"
            raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, text)
        return group

    def _advance(
        self, group: ShareGroup, before: ShareMember | None, after: ShareMember, records: list[StateRecord], now_ms: int
    ) -> ShareMember:
        """The member after its step to the group's epoch, with the records for it."""
        members = {**group.members, after.member_id: after}
        epoch, target = group.epoch, group.target
        has_changed = before is None or before.subscribed_topics != after.subscribed_topics
        if has_changed or group.catalog_version != self._catalog.version:
            assigned = self._assign(group, members)
            group.catalog_version = self._catalog.version  # not stored: after a load everything is compared once
            if has_changed or assigned != target:
                epoch, target = group.epoch + 1, assigned
                records += _target_records(group, epoch, target, now_ms)
        stepped = after
        if after.member_epoch != epoch:
            stepped = after._replace(
                member_epoch=epoch, previous_epoch=after.member_epoch, assigned=target.get(after.member_id, {})
            )
            records.append(_current_record(group.group_id, stepped))
        return stepped

    def _assign(self, group: ShareGroup, members: Mapping[str, ShareMember]) -> dict[str, Assignment]:
        names = {name for member in members.values() for name in member.subscribed_topics}
        ids = {name: topic.topic_id for name in names if (topic := self._catalog.topic(name)) is not None}
        there = {
            topic_id: group.initialized[topic_id].partitions
            for topic_id in ids.values()
            if topic_id in group.initialized
        }
        subscriptions = {
            member.member_id: frozenset(ids[name] for name in member.subscribed_topics if name in ids)
            for member in members.values()
        }
        return assign_simple(subscriptions, there) if subscriptions else {}

    # --- members leave ---

    def on_timer(self, group_id: str, member_id: str, now_ms: int) -> Decision[Any]:
        """Remove a member whose session has timed out."""
        group = self._groups.get(group_id)
        if group is None or member_id not in group.members:
            return Decision()
        logger.info("share group %s removes %s: its session timed out", group_id, member_id)
        return self._remove(group, member_id, now_ms)

    def _remove(self, group: ShareGroup, member_id: str, now_ms: int) -> Decision[Any]:
        if member_id not in group.members:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of {group.group_id}")
        kinds = (schemas.CURRENT, schemas.TARGET, schemas.MEMBER)
        records = [schemas.record(kind, group.group_id, member_id, None) for kind in kinds]
        members = {name: member for name, member in group.members.items() if name != member_id}
        target = self._assign(group, members)
        records += _target_records(group, group.epoch + 1, target, now_ms)
        return Decision(records=tuple(records), timers=(CancelTimer((SESSION, group.group_id, member_id)),))

    # --- groups as a whole ---

    def check_empty(self, group_id: str) -> ShareGroup:
        """A group that exists and has no members; raises ApiError."""
        group = self.known(group_id)
        if group.members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"share group {group_id} has members")
        return group

    def begin_epoch(self, group_id: str, _now_ms: int) -> Decision[int]:
        """A new epoch of a group without members, in which states can be initialized again."""
        group = self.check_empty(group_id)
        return Decision(group.epoch + 1, (_epoch_record(group_id, group.epoch + 1),))

    def remove_states(self, group_id: str, topic_ids: Collection[bytes], _now_ms: int) -> Decision[ErrorCode]:
        """The states of these topics were deleted."""
        group = self.check_empty(group_id)
        left = {topic_id: topic for topic_id, topic in group.initialized.items() if topic_id not in topic_ids}
        return Decision(ErrorCode.NONE, (_state_record(group_id, left),))

    def forget_topics(self, names: Collection[str]) -> list[StateRecord]:
        """Topics were deleted from the cluster: tombstones and changes for their states."""
        records = []
        for group in self._groups.values():
            left = {topic_id: topic for topic_id, topic in group.initialized.items() if topic.name not in names}
            if len(left) < len(group.initialized):
                records.append(_state_record(group.group_id, left))
        return records

    def delete(self, group_id: str) -> Decision[ErrorCode]:
        """Delete a group whose states were deleted."""
        self.check_empty(group_id)
        kinds = (schemas.STATE_PARTITIONS, schemas.TARGET_EPOCH, schemas.GROUP_EPOCH)
        return Decision(ErrorCode.NONE, tuple(schemas.record(kind, group_id, "", None) for kind in kinds))


def _updated(member: ShareMember, request: ShareGroupHeartbeatRequest, client_id: str, client_host: str) -> ShareMember:
    names = request.subscribed_topic_names
    return member._replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=client_id,
        client_host=client_host,
        subscribed_topics=member.subscribed_topics if names is None else tuple(sorted(set(names))),
    )


def _target_records(
    group: ShareGroup, epoch: int, target: Mapping[str, Assignment], now_ms: int
) -> Iterable[StateRecord]:
    yield _epoch_record(group.group_id, epoch)
    for member_id, assignment in target.items():
        if group.target.get(member_id) != assignment:
            value = TargetValue(topic_partitions=to_partitions(assignment))
            yield schemas.record(schemas.TARGET, group.group_id, member_id, value)
    computed = schemas.TargetEpochValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    yield schemas.record(schemas.TARGET_EPOCH, group.group_id, "", computed)


def _epoch_record(group_id: str, epoch: int) -> StateRecord:
    return schemas.record(schemas.GROUP_EPOCH, group_id, "", schemas.GroupEpochValue(epoch=epoch))


def _member_record(group_id: str, member: ShareMember) -> StateRecord:
    value = schemas.MemberValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topics),
    )
    return schemas.record(schemas.MEMBER, group_id, member.member_id, value)


def _current_record(group_id: str, member: ShareMember) -> StateRecord:
    value = schemas.CurrentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_epoch,
        assigned_partitions=to_partitions(member.assigned),
    )
    return schemas.record(schemas.CURRENT, group_id, member.member_id, value)


def _state_record(group_id: str, topics: Mapping[bytes, StateTopic]) -> StateRecord:
    listed = [
        schemas.TopicPartitionsInfo(topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions))
        for topic_id, topic in sorted(topics.items())
    ]
    value = schemas.StatePartitionsValue(initialized_topics=listed)
    return schemas.record(schemas.STATE_PARTITIONS, group_id, "", value)


def _to_wire(assignment: Assignment) -> WireAssignment:
    return WireAssignment(
        topic_partitions=[
            WirePartitions(topic_id=topic_id, partitions=sorted(found))
            for topic_id, found in sorted(assignment.items())
        ]
    )


def _named(group: ShareGroup, assignment: Assignment) -> DescribedAssignment:
    return DescribedAssignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic_id, topic_name=group.initialized[topic_id].name, partitions=sorted(assignment[topic_id])
            )
            for topic_id in sorted(assignment)
            if topic_id in group.initialized
        ]
    )
