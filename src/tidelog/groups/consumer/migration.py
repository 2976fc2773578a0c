"""Converts a group with members between the classic and the newer protocol: the records for it.

upgrade     a consumer joins a classic group: its members keep their partitions and become members of the consumer
            group; the response to their next heartbeat asks them to join again
downgrade   the last consumer leaves a group whose other members are classic ones: they form a classic group that has
            just begun to rebalance

`group.consumer.migration.policy` allows it or not. Each conversion is appended as one batch, so that the log always has
one kind of group or the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tidelog.coordination import Answer, CancelTimer, Decision, StateRecord, TimerChange
from tidelog.groups.classic.effects import JOIN, SYNC
from tidelog.groups.classic.group import Group
from tidelog.groups.classic.joining import join_error
from tidelog.groups.classic.member import Member
from tidelog.groups.consumer import schemas
from tidelog.groups.consumer.catalog import Catalog
from tidelog.groups.consumer.change import (
    current_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from tidelog.groups.consumer.embedded import Named, Subscription, read_assignment, read_subscription, write_assignment
from tidelog.groups.consumer.group import ClassicSide, ConsumerGroup, ConsumerMember
from tidelog.groups.consumer.schemas import Assignment
from tidelog.groups.consumer.timers import REJOIN, RESYNC, REVOCATION, SESSION, cancel, set_timer
from tidelog.groups.schemas import SchemaError, group_key, group_value
from tidelog.groups.subscription import CONSUMER_PROTOCOL
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.sync_group import SyncGroupResponse

Partition = tuple[bytes, int]
FindGroup = Callable[[str], Group | None]


def upgrade(group: Group, catalog: Catalog) -> tuple[ConsumerGroup, list[StateRecord]]:
    """The consumer group that a classic one becomes, and its records; raises ApiError if its metadata is malformed."""
    try:
        members = _upgraded_members(group, catalog)
    except SchemaError as error:
        text = f"Cannot upgrade the classic group {group.group_id} to consumer group: {error}"
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, text) from None
    group_id, epoch = group.group_id, group.generation
    records = [
        *(member_record(group_id, member) for member in members),
        epoch_record(group_id, epoch),
        *(target_record(group_id, member.member_id, member.assigned) for member in members),
        target_epoch_record(group_id, epoch),
        *(current_record(group_id, member) for member in members),
    ]
    consumer = ConsumerGroup(group_id)
    for key, value in records:
        kind, _, member_id = schemas.read_key(key)
        consumer.replay(kind, member_id, value)
    tombstone: list[StateRecord] = [(group_key(group_id), None)] if epoch > 0 else []
    return consumer, tombstone + records


def send_to_rejoin(group: Group) -> tuple[list[TimerChange], list[Answer]]:
    """Timers and answers for the members of a classic group that becomes a consumer group: all have to join again."""
    timers: list[TimerChange] = [CancelTimer((purpose, group.group_id, "")) for purpose in (JOIN, SYNC)]
    answers = []
    for member in group.members.values():
        timers.append(set_timer(SESSION, group.group_id, member.member_id, member.session_timeout_ms))
        join_waits = group.take_join(member)
        sync_waits, member.awaiting_sync = member.awaiting_sync, None
        if join_waits is not None:
            answers.append(Answer(join_waits, join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)))
        if sync_waits is not None:
            answers.append(Answer(sync_waits, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)))
    return timers, answers


def _upgraded_members(group: Group, catalog: Catalog) -> list[ConsumerMember]:
    name = group.protocol_name
    subscriptions = {
        member.member_id: read_subscription(member.protocols[0][1] if name is None else member.metadata(name))
        for member in group.members.values()
    }
    holdings = _holdings(group, subscriptions, catalog)
    return [
        ConsumerMember(
            member.member_id,
            instance_id=member.instance_id,
            rack_id=subscriptions[member.member_id].rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topics=subscriptions[member.member_id].topics,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicSide(member.session_timeout_ms, member.protocols),
            member_epoch=group.generation,
            previous_epoch=group.generation,
            assigned=holdings[member.member_id],
        )
        for member in group.members.values()
    ]


def _holdings(group: Group, subscriptions: Mapping[str, Subscription], catalog: Catalog) -> dict[str, Assignment]:
    """The partitions of each member: its assignment, then the owned partitions of its JoinGroup.

    The two differ in the middle of a rebalance. Cooperative members keep reading their partitions, and no other member
    may have them before they are revoked. No partition gets two owners, whatever the assignors of clients did.
    """
    owners: dict[Partition, str] = {}
    assigned = [(member.member_id, read_assignment(member.assignment)) for member in group.members.values()]
    said = [(member_id, subscription.owned) for member_id, subscription in subscriptions.items()]
    for member_id, named in (*assigned, *said):
        for topic_id, partitions in by_id(named, catalog).items():
            for partition in partitions:
                owners.setdefault((topic_id, partition), member_id)
    found: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in group.members}
    for (topic_id, partition), member_id in owners.items():
        found[member_id].setdefault(topic_id, set()).add(partition)
    return {
        member_id: {topic_id: frozenset(partitions) for topic_id, partitions in by_topic.items()}
        for member_id, by_topic in found.items()
    }


def by_id(assignment: Named, catalog: Catalog) -> Assignment:
    """An assignment by topic ids, without deleted topics."""
    found = {name: catalog.topic(name) for name in assignment}
    return {topic.topic_id: assignment[name] for name, topic in found.items() if topic is not None}


def become_classic(group: ConsumerGroup, leaving_id: str, now_ms: int, find_group: FindGroup) -> Decision[Any]:
    """The last consumer leaves: the classic members form a classic group, and have to join again.

    The record of a group has one protocol of each member. The others are added once it has been replayed, because a new
    member may share only one of those until all have joined again.
    """
    classic, records = downgrade(group, leaving_id, now_ms)
    timers: list[TimerChange] = [*cancel(group.group_id, leaving_id)]
    for member in classic.members.values():
        timers += cancel(group.group_id, member.member_id, REJOIN, RESYNC, REVOCATION)
        timers.append(set_timer(SESSION, group.group_id, member.member_id, member.session_timeout_ms))
    timers.append(set_timer(JOIN, group.group_id, "", classic.rebalance_timeout_ms))

    def then(code: ErrorCode, _now_ms: int) -> Decision[Any]:
        live = find_group(group.group_id)
        if code is ErrorCode.NONE and live is not None and live.generation == classic.generation:
            for member in live.members.values():
                known = classic.members.get(member.member_id)
                if known is not None and member.awaiting_join is None:
                    live.update(member, known.protocols, known.session_timeout_ms, known.rebalance_timeout_ms, None)
        return Decision()

    return Decision(records=tuple(records), timers=tuple(timers), then=then)


def downgrade(group: ConsumerGroup, leaving_id: str, now_ms: int) -> tuple[Group, list[StateRecord]]:
    """The classic group that is left when a member leaves, and its records."""
    classic = Group(group.group_id)
    classic.protocol_type = CONSUMER_PROTOCOL
    classic.generation = group.epoch
    classic.state_since_ms = now_ms
    for member in group.members.values():
        if member.member_id != leaving_id:
            classic.add(_downgraded_member(member), None)
    classic.protocol_name = classic.select_protocol()
    # Their current partitions, not their targets: a consumer may join before they have joined again.
    assignments = {
        member.member_id: write_assignment(
            group.named(group.members[member.member_id].holdings), member.metadata(classic.protocol_name)
        )
        for member in classic.members.values()
    }
    value = group_value(classic.stored(), assignments)
    return classic, [*_tombstones(group.group_id, group.members), (group_key(group.group_id), value)]


def _downgraded_member(member: ConsumerMember) -> Member:
    assert member.classic is not None, "only classic members are left"
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.classic.session_timeout_ms,
        member.rebalance_timeout_ms,
        member.classic.protocols,
    )


def _tombstones(group_id: str, member_ids: Iterable[str]) -> list[StateRecord]:
    """Tombstones of a group and its members, those of assignments first."""
    ids = list(member_ids)
    return [
        *(schemas.record(schemas.CURRENT, group_id, member_id, None) for member_id in ids),
        *(schemas.record(schemas.TARGET, group_id, member_id, None) for member_id in ids),
        schemas.record(schemas.TARGET_EPOCH, group_id, "", None),
        *(schemas.record(schemas.MEMBER, group_id, member_id, None) for member_id in ids),
        schemas.record(schemas.TOPICS, group_id, "", None),
        schemas.record(schemas.GROUP_EPOCH, group_id, "", None),
    ]
