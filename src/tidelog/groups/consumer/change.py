"""The changes of one request: the group as it will be, and the records for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.coordination import StateRecord
from tidelog.groups.consumer import schemas
from tidelog.groups.consumer.group import ClassicSide, ConsumerGroup, ConsumerMember, TopicInfo
from tidelog.groups.consumer.schemas import Assignment


class Change:
    """Made for one decision. It does not change the group itself."""

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
        self.records.append(member_record(self.group.group_id, after))
        if self.replaced_id is not None:
            self.records.append(target_record(self.group.group_id, after.member_id, self.target[after.member_id]))

    def replace(self, known: ConsumerMember) -> ConsumerMember:
        """A static member returned under a new member id: it takes over all state of the old one."""
        self.replaced_id = known.member_id
        target = self.target.get(known.member_id, {})
        self.remove(known)
        self.target = {**self.target, self.member_id: target}
        return known._replace(member_id=self.member_id, member_epoch=0, previous_epoch=0)

    def remove(self, member: ConsumerMember) -> None:
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
        self.records.append(epoch_record(self.group.group_id, self.epoch))

    def put_target(self, target: Mapping[str, Assignment]) -> None:
        for member_id, assignment in target.items():
            if self.target.get(member_id) != assignment:
                self.records.append(target_record(self.group.group_id, member_id, assignment))
        self.target = target
        self.assignment_epoch = self.epoch
        self.records.append(target_epoch_record(self.group.group_id, self.epoch))

    def _record(self, kind: int, member_id: str, value: Any) -> None:
        self.records.append(schemas.record(kind, self.group.group_id, member_id, value))


def member_record(group_id: str, member: ConsumerMember) -> StateRecord:
    """A member and its subscription."""
    value = schemas.MemberValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topics),
        subscribed_topic_regex=member.subscribed_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=_classic_metadata(member.classic),
    )
    return schemas.record(schemas.MEMBER, group_id, member.member_id, value)


def _classic_metadata(classic: ClassicSide | None) -> schemas.ClassicMemberMetadata | None:
    if classic is None:
        return None
    protocols = [schemas.ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols]
    return schemas.ClassicMemberMetadata(session_timeout_ms=classic.session_timeout_ms, supported_protocols=protocols)


def current_record(group_id: str, member: ConsumerMember) -> StateRecord:
    """A member's current assignment, and the partitions it is revoking."""
    value = schemas.CurrentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=schemas.to_partitions(member.assigned),
        partitions_pending_revocation=schemas.to_partitions(member.pending_revocation),
    )
    return schemas.record(schemas.CURRENT, group_id, member.member_id, value)


def target_record(group_id: str, member_id: str, target: Assignment) -> StateRecord:
    """A member's target assignment."""
    value = schemas.TargetValue(topic_partitions=schemas.to_partitions(target))
    return schemas.record(schemas.TARGET, group_id, member_id, value)


def epoch_record(group_id: str, epoch: int) -> StateRecord:
    return schemas.record(schemas.GROUP_EPOCH, group_id, "", schemas.GroupEpochValue(epoch=epoch))


def target_epoch_record(group_id: str, epoch: int) -> StateRecord:
    return schemas.record(schemas.TARGET_EPOCH, group_id, "", schemas.TargetEpochValue(assignment_epoch=epoch))
