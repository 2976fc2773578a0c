"""The steps after a member joins, changes or reports its partitions, in either protocol.

In this order, each with its record:

    the member is new or changed → the group's epoch grows → the target is computed → the member takes a step
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.groups.consumer.assignors import ASSIGNORS, Subscriber
from tidelog.groups.consumer.catalog import Catalog
from tidelog.groups.consumer.change import Change, current_record
from tidelog.groups.consumer.group import ConsumerMember
from tidelog.groups.consumer.patterns import matching
from tidelog.groups.consumer.reconciliation import next_step
from tidelog.groups.consumer.schemas import Assignment


class Progress:
    """Applies the steps to a `Change`; has the topics of the cluster."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def advance(
        self, change: Change, before: ConsumerMember | None, after: ConsumerMember, owned: Assignment | None
    ) -> ConsumerMember:
        """The member after its step. `before` is None if it is new; `owned` are the partitions it reported, if any."""
        change.put_member(before, after)
        self._advance_epoch(change, before, after)
        self._assign(change)
        return self._step(change, after, owned)

    def _advance_epoch(self, change: Change, before: ConsumerMember | None, after: ConsumerMember) -> None:
        has_changed = before is None or _subscription(before) != _subscription(after)
        has_new_topics = False
        if has_changed or change.group.catalog_version != self._catalog.version:
            has_new_topics = self.refresh_topics(change)
        if has_changed or has_new_topics:
            change.bump_epoch()

    def refresh_topics(self, change: Change) -> bool:
        """Compare the subscribed topics with the cluster's; True if they have changed since the last time."""
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
        read: dict[object, frozenset[bytes]] = {}  # most members, if not all, read the same
        subscribers = []
        for member in change.members.values():
            subscription = _subscription(member)
            topic_ids = read.get(subscription)
            if topic_ids is None:
                found = (topic.topic_id for name, topic in change.topics.items() if _reads(member, name))
                topic_ids = read[subscription] = frozenset(found)
            before = change.target.get(member.member_id, {})
            subscribers.append(Subscriber(member.member_id, member.instance_id, topic_ids, before))
        change.put_target(ASSIGNORS[preferred_assignor(change.members)](subscribers, counts))

    def _step(self, change: Change, member: ConsumerMember, owned: Assignment | None) -> ConsumerMember:
        owners = change.group.owners
        target = change.target.get(member.member_id, {})
        replaced = change.replaced_id

        def is_free(topic_id: bytes, partition: int) -> bool:
            owner = owners.get((topic_id, partition))
            return owner is None or owner == replaced

        stepped = next_step(member, change.assignment_epoch, target, owned, is_free)
        if stepped != member or change.replaced_id is not None:
            change.records.append(current_record(change.group.group_id, stepped))
        return stepped


def _subscription(member: ConsumerMember) -> tuple[tuple[str, ...], str | None]:
    return member.subscribed_topics, member.subscribed_regex


def _reads(member: ConsumerMember, topic: str) -> bool:
    return topic in member.subscribed_topics or bool(
        member.subscribed_regex and matching(member.subscribed_regex, (topic,))
    )


def preferred_assignor(members: Mapping[str, ConsumerMember]) -> str:
    """The assignor most members ask for; the default if none does."""
    votes: dict[str, int] = {}
    for member in members.values():
        if member.server_assignor is not None:
            votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
    return max(votes, key=votes.__getitem__) if votes else next(iter(ASSIGNORS))
