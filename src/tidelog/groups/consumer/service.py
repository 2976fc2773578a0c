"""Consumer groups for the shard: requests, records, timers and descriptions of KIP-848."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from tidelog.coordination import Decision, SetTimer, StateRecord
from tidelog.groups.classic.states import GroupState
from tidelog.groups.consumer import schemas
from tidelog.groups.consumer.catalog import Catalog
from tidelog.groups.consumer.checks import JOINS, Asker, check_request
from tidelog.groups.consumer.classic import ClassicMembers
from tidelog.groups.consumer.group import ConsumerGroup, ConsumerMember, MemberState
from tidelog.groups.consumer.migration import FindGroup, send_to_rejoin, upgrade
from tidelog.groups.consumer.progress import Progress, preferred_assignor
from tidelog.groups.consumer.requests import ConsumerRequests
from tidelog.groups.consumer.schemas import Assignment
from tidelog.groups.consumer.timers import REVOCATION, SESSION, set_timer
from tidelog.groups.records import RecordKey
from tidelog.groups.schemas import SchemaError, group_key
from tidelog.groups.settings import GroupSettings, TimeoutsOf
from tidelog.groups.subscription import CONSUMER_PROTOCOL
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.consumer_group_describe import Assignment as WireAssignment
from tidelog.wire.messages.consumer_group_describe import DescribedGroup, Member, TopicPartitions
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from tidelog.groups.classic.group import Group

logger = logging.getLogger(__name__)

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


class ConsumerGroups:
    """The shard's interface to groups of the newer protocol."""

    def __init__(
        self,
        settings: GroupSettings,
        timeouts_of: TimeoutsOf,
        catalog: Catalog,
        new_id: Callable[[], str],
        find_group: FindGroup,
    ) -> None:
        self._settings = settings
        self._timeouts_of = timeouts_of
        self._catalog = catalog
        progress = Progress(catalog)
        self._requests = ConsumerRequests(settings, timeouts_of, progress, new_id, find_group)
        self.classic = ClassicMembers(settings, catalog, progress, new_id)
        """For the requests of classic members."""

    def replay(self, group: Group, key: RecordKey, value: bytes | None) -> None:
        """Apply a record of a group's members; one that cannot be read is skipped."""
        if key.kind == schemas.GROUP_EPOCH and value is None:
            group.consumer = None
            return
        if group.consumer is None:
            if value is None:
                return
            group.consumer = ConsumerGroup(group.group_id)
            # Their session timers are the consumer group's from now on; a later classic group would wait for them.
            group.pending_members.clear()
        try:
            group.consumer.replay(key.kind, key.member_id, value)
        except SchemaError as error:
            logger.error("a record of group %s is skipped: %s", group.group_id, error)

    def timers(self, group: Group) -> Iterator[SetTimer]:
        """The timers after a load: each member's session timeout, and its deadline for revoking partitions."""
        if group.consumer is None:
            return
        group_id = group.group_id
        for member in group.consumer.members.values():
            classic = member.classic
            session_ms = self._timeouts_of(group_id).session_ms if classic is None else classic.session_timeout_ms
            yield set_timer(SESSION, group_id, member.member_id, session_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                yield set_timer(REVOCATION, group_id, member.member_id, member.rebalance_timeout_ms)

    def heartbeat(
        self, group: Group | None, request: ConsumerGroupHeartbeatRequest, asker: Asker, now_ms: int
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """Decide a heartbeat. A classic group first becomes a consumer group, if it is empty or that is allowed."""
        before: list[StateRecord] = []
        if group is not None and group.consumer is None:
            check_request(request, asker)
            if group.streams is not None:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")
            if group.state is not GroupState.EMPTY:
                return self._upgrade(group, request, asker, now_ms)
            if group.generation > 0:
                before.append((group_key(group.group_id), None))
        consumer = None if group is None else group.consumer
        return self._requests.heartbeat(consumer, request, asker, now_ms, before)

    def _upgrade(
        self, group: Group, request: ConsumerGroupHeartbeatRequest, asker: Asker, now_ms: int
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        if request.member_epoch != JOINS or not self._may_upgrade(group):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")
        consumer, records = upgrade(group, self._catalog)
        decision = self._requests.heartbeat(consumer, request, asker, now_ms, records)
        logger.info("group %s becomes a consumer group with %d classic members", group.group_id, len(group.members))
        timers, answers = send_to_rejoin(group)
        return decision._replace(timers=(*timers, *decision.timers), answers=tuple(answers))

    def _may_upgrade(self, group: Group) -> bool:
        reason = None
        if not self._settings.can_upgrade:
            reason = "group.consumer.migration.policy forbids it"
        elif group.protocol_type != CONSUMER_PROTOCOL:
            reason = f"its protocol type is {group.protocol_type}"
        elif len(group.members) > self._settings.consumer_max_size:
            reason = f"it has {len(group.members)} members, more than group.consumer.max.size"
        if reason is not None:
            logger.info("group %s stays a classic group: %s", group.group_id, reason)
        return reason is None

    def on_timer(self, group: ConsumerGroup, purpose: str, member_id: str, now_ms: int) -> Decision[Any]:
        """Remove a member whose session or deadline has expired."""
        member = group.members.get(member_id)
        if member is None or (purpose == REVOCATION and member.state is not MemberState.UNREVOKED_PARTITIONS):
            return Decision()
        logger.info("group %s removes %s: its %s timed out", group.group_id, member_id, purpose)
        return self._requests.remove(group, member, now_ms)

    def describe(self, group: Group | None, group_id: str) -> DescribedGroup:
        """A group as ConsumerGroupDescribe shows it; raises ApiError for one of the classic protocol, or none."""
        if group is None or group.consumer is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        consumer = group.consumer
        return DescribedGroup(
            group_id=group_id,
            group_state=consumer.state_name,
            group_epoch=consumer.epoch,
            assignment_epoch=consumer.assignment_epoch,
            assignor_name=preferred_assignor(consumer.members),
            members=[_describe(consumer, member) for member in consumer.members.values()],
        )


def _describe(group: ConsumerGroup, member: ConsumerMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topics),
        subscribed_topic_regex=member.subscribed_regex or "",
        assignment=_named(group, member.assigned),
        target_assignment=_named(group, group.target.get(member.member_id, {})),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _named(group: ConsumerGroup, assignment: Assignment) -> WireAssignment:
    return WireAssignment(
        topic_partitions=[
            TopicPartitions(topic_id=group.topics[name].topic_id, topic_name=name, partitions=sorted(partitions))
            for name, partitions in sorted(group.named(assignment).items())
        ]
    )
