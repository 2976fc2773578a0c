"""The steps after a member joins, changes or reports its partitions, in either protocol.

In this order, each with its record:

    the member is new or changed → the group's epoch grows → the target is computed → the member takes a step

A pattern matches the topics that its member may see, by the filter of the member's last heartbeat. After a load, until
the next one, it matches those that the group reads already.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.groups.consumer.assignors import ASSIGNORS, Subscriber
from tidelog.groups.consumer.catalog import Catalog
from tidelog.groups.consumer.change import Change, current_record
from tidelog.groups.consumer.group import ConsumerMember, TopicFilter
from tidelog.groups.consumer.patterns import matching
from tidelog.groups.consumer.reconciliation import next_step
from tidelog.groups.consumer.schemas import Assignment


class Progress:
    """Applies the steps to a `Change`; has the topics of the cluster."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def advance(
        self,
        change: Change,
        before: ConsumerMember | None,
        after: ConsumerMember,
        owned: Assignment | None,
        topic_filter: TopicFilter | None = None,
    ) -> ConsumerMember:
        """The member after its step. `before` is None if it is new; `owned` are the partitions it reported, if any."""
        change.put_member(before, after)
        self._advance_epoch(change, before, after, topic_filter)
        self._assign(change)
        return self._step(change, after, owned)

    def _advance_epoch(
        self,
        change: Change,
        before: ConsumerMember | None,
        after: ConsumerMember,
        topic_filter: TopicFilter | None,
    ) -> None:
        has_changed = before is None or _subscription(before) != _subscription(after)
        has_other_filter = _put_filter(change, after, topic_filter)
        has_new_topics = False
        if has_changed or has_other_filter or change.group.catalog_version != self._catalog.version:
            has_new_topics = self.refresh_topics(change)
        if has_changed or has_new_topics:
            change.bump_epoch()

    def refresh_topics(self, change: Change) -> bool:
        """Compare the subscribed topics with the cluster's; True if they have changed since the last time."""
        group = change.group
        matched = self._match(change)
        names: set[str] = set().union(*matched.values())
        for member in change.members.values():
            names.update(member.subscribed_topics)
        topics = {name: found for name in sorted(names) if (found := self._catalog.topic(name)) is not None}
        has_other_matches = any(
            found != _matched(change, change.members[member_id]) for member_id, found in matched.items()
        )
        # Not stored: after a load everything is compared once.
        group.catalog_version = self._catalog.version
        group.matched = matched
        group.filters = {member_id: found for member_id, found in group.filters.items() if member_id in change.members}
        return change.put_topics(topics) or has_other_matches

    def _match(self, change: Change) -> dict[str, frozenset[str]]:
        """The topics for each member with a pattern."""
        filters = change.group.filters
        seen: dict[tuple[str, TopicFilter | None], frozenset[str]] = {}  # members of one user see the same
        matched = {}
        for member_id, member in change.members.items():
            pattern = member.subscribed_regex
            if not pattern:
                continue
            if member_id not in filters:
                matched[member_id] = _matched(change, member)
                continue
            topic_filter = filters[member_id]
            found = seen.get((pattern, topic_filter))
            if found is None:
                names = matching(pattern, self._catalog.names())
                found = frozenset(name for name in names if topic_filter is None or topic_filter.allows(name))
                seen[pattern, topic_filter] = found
            matched[member_id] = found
        return matched

    def _assign(self, change: Change) -> None:
        if change.epoch <= change.group.assignment_epoch:
            return
        counts = {topic.topic_id: topic.partition_count for topic in change.topics.values()}
        read: dict[frozenset[str], frozenset[bytes]] = {}  # most members, if not all, read the same
        subscribers = []
        for member in change.members.values():
            names = frozenset(member.subscribed_topics) | _matched(change, member)
            topic_ids = read.get(names)
            if topic_ids is None:
                found = (change.topics[name].topic_id for name in names if name in change.topics)
                topic_ids = read[names] = frozenset(found)
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


def _put_filter(change: Change, member: ConsumerMember, topic_filter: TopicFilter | None) -> bool:
    """Keep the filter of a member with a pattern; True if it is another one than before."""
    filters = change.group.filters
    if not member.subscribed_regex or (member.member_id in filters and filters[member.member_id] == topic_filter):
        return False
    filters[member.member_id] = topic_filter
    return True


def _matched(change: Change, member: ConsumerMember) -> frozenset[str]:
    """The topics that a member's pattern matched last; after a load, those of the group that it matches."""
    if not member.subscribed_regex:
        return frozenset()
    found = change.group.matched.get(member.member_id)
    return frozenset(matching(member.subscribed_regex, change.topics)) if found is None else found


def preferred_assignor(members: Mapping[str, ConsumerMember]) -> str:
    """The assignor most members ask for; the default if none does."""
    votes: dict[str, int] = {}
    for member in members.values():
        if member.server_assignor is not None:
            votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
    return max(votes, key=votes.__getitem__) if votes else next(iter(ASSIGNORS))
