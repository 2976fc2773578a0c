"""Commits, fetches and deletions of offsets.

A group need not have members to keep offsets: tools and consumers that assign their own partitions commit with
generation -1, as long as the group has no members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from tidelog.coordination import Decision, ProducerEpoch, SetTimer, StateRecord
from tidelog.groups.classic.effects import SESSION
from tidelog.groups.classic.group import Group
from tidelog.groups.classic.states import GroupState
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.schemas import group_tombstones as consumer_tombstones
from tidelog.groups.offsets import read_committed
from tidelog.groups.schemas import (
    NO_TIMESTAMP,
    CommittedOffset,
    group_key,
    offset_key_prefix,
    offset_value,
    partition_key,
    read_partition_key,
    tombstones,
)
from tidelog.groups.settings import GroupSettings
from tidelog.groups.streams.group import StreamsGroup
from tidelog.groups.streams.schemas import group_tombstones as streams_tombstones
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.offset_commit import CommittedTopic
from tidelog.wire.primitives import NO_UUID

NO_GENERATION = -1
_NONE: Final = ErrorCode.NONE
_new = tuple.__new__
TIMESTAMP_MS_MAX = 2**63 - 1
"""The latest timestamp of a record: an offset with a retention of 2^63-1 ms expires then, and so never."""


class Committer(NamedTuple):
    """The sender of a commit."""

    generation: int = NO_GENERATION
    member_id: str = ""
    instance_id: str | None = None
    knows_epochs: bool = True
    """Members of the newer protocol have to commit with OffsetCommit 9 or later."""
    knows_missing_groups: bool = False
    """From OffsetCommit 10 on a group that does not exist is GROUP_ID_NOT_FOUND."""


class PartitionOffset(NamedTuple):
    """The committed offset of a partition: a value, None, or an error."""

    partition: int
    committed: CommittedOffset | None
    error: ErrorCode = ErrorCode.NONE


TopicId = Callable[[str], bytes]
"""The id of the topic that has a name now; `NO_UUID` if there is none."""

Codes = dict[tuple[str, int], ErrorCode]
CommitCodes = list[tuple[str, list[tuple[int, ErrorCode]]]]
"""Topics of a commit and, for each partition in the order of the request, its index and error code."""


def check_committer(
    group: Group | None, committer: Committer, is_transactional: bool, topics: Sequence[CommittedTopic] = ()
) -> None:
    """Raise ApiError unless the sender may commit offsets of these topics for the group."""
    generation, member_id, instance_id, knows_epochs, knows_missing_groups = committer
    if group is None:
        if generation < 0:
            return
        if knows_missing_groups:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, "the group does not exist")
        code = ErrorCode.UNKNOWN_MEMBER_ID if is_transactional else ErrorCode.ILLEGAL_GENERATION
        raise ApiError(code, "the group has no members")
    if generation < 0 and group.is_empty:
        return
    if group.consumer is not None:
        if not knows_epochs and group.consumer.member(member_id).classic is None:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "members of the newer protocol need OffsetCommit 9 or later")
        check_consumer_epoch(group.consumer, committer)
        return
    if group.streams is not None:
        _check_streams_committer(group.streams, committer, is_transactional, topics)
        return
    if generation >= 0 or member_id or instance_id is not None:
        group.check_member(member_id, instance_id)
        group.check_generation(generation)
    elif not is_transactional:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{group.group_id} has members, so only they may commit")
    if group.state is GroupState.COMPLETING_REBALANCE and not is_transactional:
        # It knows its generation but not its partitions, so it cannot have read any yet.
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)


def _check_streams_committer(
    group: StreamsGroup, committer: Committer, is_transactional: bool, topics: Sequence[CommittedTopic]
) -> None:
    """A member of an older epoch may commit what its tasks have read, if it has had them since then."""
    generation, member_id, instance_id, knows_epochs, _ = committer
    if is_transactional and generation == NO_GENERATION and not member_id and instance_id is None:
        return
    member = group.member(member_id)
    if not is_transactional and not knows_epochs:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "members of streams groups need OffsetCommit 9 or later")
    try:
        group.check_commit_epoch(
            member, generation, ((name, each[0]) for name, partitions in topics for each in partitions)
        )
    except ApiError as error:
        if not is_transactional:
            raise
        # TxnOffsetCommit has no error for epochs.
        raise ApiError(ErrorCode.ILLEGAL_GENERATION, error.message) from None


def check_streams_reader(group: StreamsGroup, reader: Committer) -> None:
    """A member that reads offsets sends its epoch."""
    member = group.member(reader.member_id)
    if reader.generation != member.member_epoch:
        raise ApiError(
            ErrorCode.STALE_MEMBER_EPOCH,
            f"{member.member_id} is in epoch {member.member_epoch}, the request says {reader.generation}",
        )


def check_consumer_epoch(group: ConsumerGroup, committer: Committer) -> None:
    """A member sends its epoch; a classic member sends it as its generation."""
    member = group.member(committer.member_id)
    if committer.generation != member.member_epoch:
        raise ApiError(
            ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION,
            f"{member.member_id} is in epoch {member.member_epoch}, the request says {committer.generation}",
        )


def commit(
    group_id: str,
    group: Group | None,
    committer: Committer,
    topics: Sequence[CommittedTopic],
    partition_count: Callable[[str], int],
    settings: GroupSettings,
    now_ms: int,
    retention_ms: int = -1,
    producer: ProducerEpoch | None = None,
    topic_id_of: TopicId | None = None,
) -> Decision[CommitCodes]:
    """Store offsets; the reply has a code for every partition. Raises ApiError if none may be stored.

    With `topic_id_of`, each offset is stored with the id that its topic has now.
    """
    check_committer(group, committer, producer is not None, topics)
    timers: tuple[SetTimer, ...] = ()
    if group is None:
        prefix = offset_key_prefix(group_id)
    else:
        prefix = group.offset_key_prefix
        member = group.members.get(committer.member_id) if group.members else None
        if member is not None and producer is None:
            timers = (SetTimer((SESSION, group_id, member.member_id), member.session_timeout_ms),)
    expire_timestamp = NO_TIMESTAMP if retention_ms < 0 else min(now_ms + retention_ms, TIMESTAMP_MS_MAX)
    metadata_bytes_max = settings.offset_metadata_max_bytes
    reply: CommitCodes = []
    records: list[StateRecord] = []
    key_of = _key_of
    for name, partitions in topics:
        count = partition_count(name)
        topic_id = NO_UUID if topic_id_of is None else topic_id_of(name)
        codes: list[tuple[int, ErrorCode]] = []
        for index, offset, leader_epoch, metadata, timestamp in partitions:
            if not 0 <= index < count:
                codes.append((index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            elif metadata and len(metadata) > metadata_bytes_max:
                codes.append((index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
            else:
                codes.append((index, _NONE))
                committed_ms = now_ms if timestamp == NO_TIMESTAMP else timestamp
                value = offset_value(offset, leader_epoch, metadata or "", committed_ms, expire_timestamp, topic_id)
                records.append((prefix + key_of(name, index), value))
        reply.append((name, codes))
    return _new(Decision, (reply, tuple(records), timers, (), None, producer if records else None))


_key_of = lru_cache(maxsize=1024)(partition_key)
"""Cached for partitions that exist, because each is committed repeatedly."""


def fetch(
    group: Group | None,
    topics: Sequence[tuple[str, Sequence[int]]] | None,
    require_stable: bool,
    topic_id_of: TopicId | None = None,
) -> dict[str, list[PartitionOffset]]:
    """Offsets by topic, all of them if `topics` is None. A partition without a commit has no offset and no error.

    With `topic_id_of`, an offset that was committed for an earlier topic of the same name counts as none.
    """
    found: dict[str, list[PartitionOffset]] = {}
    if topics is None:
        for topic, entry in filter(None, map(read_stored, stored_offsets(group, require_stable))):
            found.setdefault(topic, []).append(entry)
        return found
    for topic, indexes in topics:
        topic_id = NO_UUID if topic_id_of is None else topic_id_of(topic)
        found.setdefault(topic, []).extend(_fetch(group, topic, index, require_stable, topic_id) for index in indexes)
    return found


def is_of_topic(committed: CommittedOffset | None, topic_id: bytes) -> bool:
    """Whether an offset was committed for the topic with this id, as far as both ids are known."""
    return committed is None or topic_id in (committed.topic_id, NO_UUID) or committed.topic_id == NO_UUID


StoredOffset = tuple[bytes, bytes | None]
"""A partition's key and its offset as they are in the log; None in place of one that an open transaction replaces."""


def stored_offsets(group: Group | None, require_stable: bool) -> list[StoredOffset]:
    """All offsets of a group, not decoded, which is fast however many there are; see `read_stored`."""
    if group is None:
        return []
    pending = group.offsets.pending_keys() if require_stable else frozenset()
    if not pending:
        return list(group.offsets.items())
    return [(key, None if key in pending else value) for key, value in group.offsets.items()]


def read_stored(stored: StoredOffset) -> tuple[str, PartitionOffset] | None:
    """The topic of a stored offset and its result as in `fetch`; None for one that cannot be read."""
    key, value = stored
    topic, index = read_partition_key(key)
    if value is None:
        return topic, PartitionOffset(index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = read_committed(value)
    return None if committed is None else (topic, PartitionOffset(index, committed))


def _fetch(group: Group | None, topic: str, index: int, require_stable: bool, topic_id: bytes) -> PartitionOffset:
    if group is None:
        return PartitionOffset(index, None)
    key = partition_key(topic, index)
    if require_stable and group.offsets.has_pending and group.offsets.is_pending(key):
        return PartitionOffset(index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = group.offsets.get(key)
    return PartitionOffset(index, committed if is_of_topic(committed, topic_id) else None)


def delete(group: Group, partitions: Sequence[tuple[str, int]]) -> Decision[Codes]:
    """Delete offsets of topics that no member reads; raises ApiError if the subscriptions are unknown."""
    if not group.is_empty and not group.is_consumer_group and group.streams is None:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"{group.group_id} has members of type {group.protocol_type}")
    codes: Codes = {}
    keys = []
    for topic, index in partitions:
        if not group.is_empty and group.is_subscribed_to(topic):
            codes[topic, index] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            continue
        codes[topic, index] = ErrorCode.NONE
        key = partition_key(topic, index)
        if group.offsets.get(key) is not None or group.offsets.is_pending(key):
            keys.append(key)
    if group.streams is not None:
        return Decision(codes, tuple(tombstones(group.group_id, keys)))  # it stays, also without members
    return Decision(codes, tuple(removal(group, keys)))


def expired_keys(group: Group, settings: GroupSettings, now_ms: int) -> list[bytes]:
    """Offsets of a group that are past `offsets.retention.minutes`.

    A group that never had members counts from each commit; one that has lost its members from that moment; one that
    has members keeps offsets of subscribed topics, and the rest counts from each commit, as long as it is stable.
    """
    retention_ms = settings.offsets_retention_ms
    if group.consumer is not None or group.streams is not None:
        return group.offsets.expired(now_ms, retention_ms, None, group.is_subscribed_to)
    if group.protocol_type is None:
        return group.offsets.expired(now_ms, retention_ms, None, _never)
    if group.state is GroupState.EMPTY:
        return group.offsets.expired(now_ms, retention_ms, group.state_since_ms, _never)
    if group.state is GroupState.STABLE and group.is_consumer_group and group.subscribed_topics is not None:
        return group.offsets.expired(now_ms, retention_ms, None, group.is_subscribed_to)
    return []


def _never(_topic: str) -> bool:
    return False


def removal(group: Group, keys: Sequence[bytes]) -> list[StateRecord]:
    """Tombstones of offsets and, if nothing is left of the group then, of the group.

    A group that never completed a rebalance was never stored: it is removed with its last offset.
    """
    records: list[StateRecord] = [*tombstones(group.group_id, keys)]
    if group.is_empty and not group.pending_members and group.offsets.has_only(keys):
        if group.consumer is not None:
            records += consumer_tombstones(group.group_id)
        elif group.streams is not None:
            records += streams_tombstones(group.group_id)
        elif group.generation > 0:
            records.append((group_key(group.group_id), None))
    return records
