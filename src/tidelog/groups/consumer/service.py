"""Consumer groups for the shard: between its groups and requests, records, timers and descriptions of KIP-848."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidelog.coordination import Decision, SetTimer, StateRecord
from tidelog.groups.consumer import schemas
from tidelog.groups.consumer.checks import Asker
from tidelog.groups.consumer.group import ConsumerGroup, ConsumerMember, MemberState
from tidelog.groups.consumer.requests import REVOCATION, SESSION, ConsumerRequests, preferred_assignor
from tidelog.groups.consumer.schemas import Assignment
from tidelog.groups.schemas import SchemaError, group_key
from tidelog.groups.settings import GroupSettings
from tidelog.groups.states import GroupState
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.consumer_group_describe import Assignment as WireAssignment
from tidelog.wire.messages.consumer_group_describe import DescribedGroup, Member, TopicPartitions
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from tidelog.groups.group import Group

logger = logging.getLogger(__name__)

_CONSUMER_MEMBER = 1


class ConsumerGroups:
    """What the shard asks about groups of the newer protocol."""

    def __init__(self, settings: GroupSettings, requests: ConsumerRequests) -> None:
        self._settings = settings
        self._requests = requests

    def replay(self, group: Group, key: schemas.RecordKey, value: bytes | None) -> None:
        """Apply a record of a group's members; one that cannot be read is passed over."""
        if key.kind == schemas.GROUP_EPOCH and value is None:
            group.consumer = None
            return
        if group.consumer is None:
            if value is None:
                return
            group.consumer = ConsumerGroup(group.group_id)
        try:
            group.consumer.replay(key.kind, key.member_id, value)
        except SchemaError as error:
            logger.error("a record of group %s is passed over: %s", group.group_id, error)

    def timers(self, group: Group) -> Iterator[SetTimer]:
        """After a load: members have a session timeout to show up, and time to give up what they have to."""
        if group.consumer is None:
            return
        for member in group.consumer.members.values():
            yield SetTimer((SESSION, group.group_id, member.member_id), self._settings.consumer_session_timeout_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                yield SetTimer((REVOCATION, group.group_id, member.member_id), member.rebalance_timeout_ms)

    def heartbeat(
        self, group: Group | None, request: ConsumerGroupHeartbeatRequest, asker: Asker
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """A group whose classic members have all gone becomes a consumer group with its first heartbeat."""
        before: list[StateRecord] = []
        if group is not None and group.consumer is None:
            if group.state is not GroupState.EMPTY:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{group.group_id} has members of the classic protocol")
            if group.generation > 0:
                before.append((group_key(group.group_id), None))
        consumer = None if group is None else group.consumer
        return self._requests.heartbeat(consumer, request, asker, before)

    def on_timer(self, group: ConsumerGroup, purpose: str, member_id: str) -> Decision[Any]:
        """A member was not heard of, or has not given up what it had to: it is put out."""
        member = group.members.get(member_id)
        if member is None or (purpose == REVOCATION and member.state is not MemberState.UNREVOKED_PARTITIONS):
            return Decision()
        logger.info("group %s goes on without %s: its %s timed out", group.group_id, member_id, purpose)
        return self._requests.remove(group, member)

    def describe(self, group: Group | None, group_id: str) -> DescribedGroup:
        if group is None or group.consumer is None:
            text = f"Group {group_id} not found."
            return DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=text, group_id=group_id)
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
    names = {topic.topic_id: name for name, topic in group.topics.items()}
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topics),
        subscribed_topic_regex=member.subscribed_regex,
        assignment=_named(member.assigned, names),
        target_assignment=_named(group.target.get(member.member_id, {}), names),
        member_type=_CONSUMER_MEMBER,
    )


def _named(assignment: Assignment, names: dict[bytes, str]) -> WireAssignment:
    """With topic names; a topic that is gone has none and is left out."""
    return WireAssignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=names[topic_id], partitions=sorted(partitions))
            for topic_id, partitions in sorted(assignment.items())
            if topic_id in names
        ]
    )
