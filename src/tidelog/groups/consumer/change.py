"""What a heartbeat is about to change: the group as it will be, and the records that make it so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.coordination import StateRecord
from tidelog.groups.consumer import schemas
from tidelog.groups.consumer.group import ConsumerGroup, ConsumerMember, TopicInfo
from tidelog.groups.consumer.schemas import Assignment


class Change:
    """Made for one decision. Nothing of it touches the group itself."""

    def __init__(self, group: ConsumerGroup, records: list[StateRecord]) -> None:
        self.group = group
        self.records = records
        self.member_id = ""
        self.replaced_id: str | None = None
        self.epoch = group.epoch
        self.assignment_epoch = group.assignment_epoch
        self.members: Mapping[str, ConsumerMember] = group.members
        self.topics: Mapping[str, TopicInfo] = group.topics
        self.target: Mapping[str, Assignment] = group.target

    def put_member(self, before: ConsumerMember | None, after: ConsumerMember) -> None:
        if before == after and self.replaced_id is None:
            return
        self.members = {**self.members, after.member_id: after}
        value = schemas.MemberValue(
            instance_id=after.instance_id,
            rack_id=after.rack_id,
            client_id=after.client_id,
            client_host=after.client_host,
            subscribed_topic_names=list(after.subscribed_topics),
            subscribed_topic_regex=after.subscribed_regex,
            rebalance_timeout_ms=after.rebalance_timeout_ms,
            server_assignor=after.server_assignor,
        )
        self._record(schemas.MEMBER, after.member_id, value)
        if self.replaced_id is not None:
            target = schemas.TargetValue(topic_partitions=schemas.to_partitions(self.target[after.member_id]))
            self._record(schemas.TARGET, after.member_id, target)

    def replace(self, known: ConsumerMember) -> ConsumerMember:
        """A static member is back under a new id: it takes over everything, and nothing else changes."""
        self.replaced_id = known.member_id
        target = self.target.get(known.member_id, {})
        self._forget(known)
        self.target = {**self.target, self.member_id: target}
        return known._replace(member_id=self.member_id, previous_epoch=0)

    def remove(self, member: ConsumerMember) -> None:
        self._forget(member)

    def _forget(self, member: ConsumerMember) -> None:
        gone = member.member_id
        for kind in (schemas.CURRENT, schemas.TARGET, schemas.MEMBER):
            self._record(kind, gone, None)
        self.members = {name: other for name, other in self.members.items() if name != gone}
        self.target = {name: target for name, target in self.target.items() if name != gone}

    def put_topics(self, topics: Mapping[str, TopicInfo]) -> bool:
        if topics == self.topics:
            return False
        self.topics = topics
        listed = [
            schemas.TopicMetadata(topic_id=topic.topic_id, topic_name=name, num_partitions=topic.partition_count)
            for name, topic in topics.items()
        ]
        self._record(schemas.TOPICS, "", schemas.TopicsValue(topics=listed))
        return True

    def bump_epoch(self) -> None:
        self.epoch += 1
        self._record(schemas.GROUP_EPOCH, "", schemas.GroupEpochValue(epoch=self.epoch))

    def put_target(self, target: Mapping[str, Assignment]) -> None:
        for member_id, assignment in target.items():
            if self.target.get(member_id) != assignment:
                value = schemas.TargetValue(topic_partitions=schemas.to_partitions(assignment))
                self._record(schemas.TARGET, member_id, value)
        self.target = target
        self.assignment_epoch = self.epoch
        self._record(schemas.TARGET_EPOCH, "", schemas.TargetEpochValue(assignment_epoch=self.epoch))

    def _record(self, kind: int, member_id: str, value: Any) -> None:
        self.records.append(schemas.record(kind, self.group.group_id, member_id, value))


def current_record(group: ConsumerGroup, member: ConsumerMember) -> StateRecord:
    value = schemas.CurrentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=schemas.to_partitions(member.assigned),
        partitions_pending_revocation=schemas.to_partitions(member.pending_revocation),
    )
    return schemas.record(schemas.CURRENT, group.group_id, member.member_id, value)
