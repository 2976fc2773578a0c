"""OffsetFetch: how far groups have read; from version 8 on for several groups at once.

From version 10 on topics are named by their ids. In all versions, what was committed for a topic that is gone counts as
never committed for the topic that has its name now.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tidelog.broker.coordinators.replies import Eventual, gather
from tidelog.broker.handlers._answers import Answers
from tidelog.broker.handlers._parts import are_few, in_parts
from tidelog.coordination import Decision
from tidelog.groups import Committer, PartitionOffset, TopicId, is_of_topic, read_stored
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tidelog.wire.primitives import NO_UUID

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.coordination import Respond
    from tidelog.groups import GroupShard

_GROUP_ERROR_FROM: Final = 2
_SEVERAL_FROM: Final = 8
_IDS_FROM: Final = 10
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED

OFFSETS_PER_REPLY_MAX: Final = 100_000
"""Of requests for all offsets of several groups. Groups beyond are said to be loading, and are asked for again."""

Offsets = Mapping[str, Sequence[PartitionOffset]]
Partition = TypeVar("Partition", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)


class _Fetched(NamedTuple):
    """The result of one group: its offsets, or an error for all of them."""

    offsets: Offsets
    error: ErrorCode = ErrorCode.NONE

    @classmethod
    def of(cls, outcome: Offsets | ApiError) -> _Fetched:
        return cls({}, outcome.code) if isinstance(outcome, ApiError) else cls(outcome)


def handle(
    request: OffsetFetchRequest, context: Context
) -> Eventual[OffsetFetchResponse] | Coroutine[Any, Any, Eventual[OffsetFetchResponse]]:
    """Ask the coordinator of each group."""
    if context.api_version >= _SEVERAL_FROM:
        lists = [topic.partition_indexes for group in request.groups for topic in group.topics or ()]
        if (
            context.node.access is not None
            or not are_few(lists)
            or not are_few([request.groups])
            or any(each.topics is None for each in request.groups)
        ):
            return _fetch_many_groups(request, context)
        found = [_fetch_group(group, request.require_stable, context) for group in request.groups]
        return gather(found, lambda groups: OffsetFetchResponse(groups=groups))
    topics = request.topics
    if context.node.access is not None:
        return _fetch_many(request, context)
    if topics is None or not are_few([topic.partition_indexes for topic in topics]):
        return _fetch_many(request, context)
    wanted = [(topic.name, topic.partition_indexes) for topic in topics]

    def shape(outcome: Offsets | ApiError) -> OffsetFetchResponse:
        fetched = _as_of(context.api_version, _Fetched.of(outcome), topics)
        return OffsetFetchResponse(
            error_code=fetched.error,
            topics=[
                OffsetFetchResponseTopic(
                    name=name, partitions=[_fill(OffsetFetchResponsePartition(), entry) for entry in entries]
                )
                for name, entries in fetched.offsets.items()
            ],
        )

    return context.node.groups.call(
        request.group_id,
        partial(_fetching, request.group_id, wanted, request.require_stable, None, context.node.image.topic_id),
        shape,
    )


async def _fetch_many(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    """All offsets of a group, or more than are fetched in one step."""
    found = await _offsets(request.group_id, request.topics, request.require_stable, None, context)
    version = context.api_version
    if isinstance(found, ApiError) and version < _GROUP_ERROR_FROM:
        found = await _failed(request.topics or (), found.code, context)
    fetched = _Fetched.of(found)
    response = OffsetFetchResponse(error_code=fetched.error)
    for name, entries in fetched.offsets.items():
        topic = OffsetFetchResponseTopic(name=name)
        response.topics.append(topic)
        for entry in entries:
            partition = entry if version else _as_version_0(entry)
            topic.partitions.append(_fill(OffsetFetchResponsePartition(), partition))
            await context.pause()
    return response


async def _failed(topics: Sequence[OffsetFetchRequestTopic], code: ErrorCode, context: Context) -> Offsets:
    """Old versions have room for an error only beside each partition."""
    failed: dict[str, list[PartitionOffset]] = {}
    for topic in topics:
        failed.setdefault(topic.name, []).extend(
            PartitionOffset(index, None, code) for index in topic.partition_indexes
        )
        await context.pause()
    return failed


def _fetch_group(
    group: OffsetFetchRequestGroup, require_stable: bool, context: Context
) -> Eventual[OffsetFetchResponseGroup]:
    unknown = _name_topics(group, context)
    wanted = [(topic.name, topic.partition_indexes) for topic in group.topics or ()]
    reader = _reader(group)
    image = context.node.image

    def shape(outcome: Offsets | ApiError) -> OffsetFetchResponseGroup:
        fetched = _Fetched.of(outcome)
        return OffsetFetchResponseGroup(
            group_id=group.group_id,
            error_code=fetched.error,
            topics=[
                *(
                    OffsetFetchResponseTopics(
                        name=name,
                        topic_id=image.topic_id(name),
                        partitions=[_fill(OffsetFetchResponsePartitions(), entry) for entry in entries],
                    )
                    for name, entries in fetched.offsets.items()
                ),
                *(() if fetched.error else unknown),
            ],
        )

    return context.node.groups.call(
        group.group_id,
        partial(_fetching, group.group_id, wanted, require_stable, reader, image.topic_id),
        shape,
    )


def _name_topics(group: OffsetFetchRequestGroup, context: Context) -> list[OffsetFetchResponseTopics]:
    """Give the topics that a request names by id the names that they have now; the answers to those that have none."""
    if context.api_version < _IDS_FROM or group.topics is None:
        return []
    unknown = []
    for topic in group.topics:
        topic.name = context.node.image.topic_name(topic.topic_id) or ""
        if not topic.name:
            entries = [PartitionOffset(index, None, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes]
            partitions = [_fill(OffsetFetchResponsePartitions(), entry) for entry in entries]
            unknown.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions))
    group.topics = [topic for topic in group.topics if topic.name]
    return unknown


def _reader(group: OffsetFetchRequestGroup) -> Committer | None:
    is_member = group.member_id is not None or group.member_epoch >= 0
    return Committer(group.member_epoch, group.member_id or "") if is_member else None


async def _fetch_many_groups(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    answers: Answers[OffsetFetchResponseGroup] = Answers()
    offsets_left = OFFSETS_PER_REPLY_MAX
    for number, group in enumerate(request.groups):
        await context.pause()
        wants_all = group.topics is None
        key = (group.group_id, group.member_id, group.member_epoch) if wants_all else number
        if answers.repeat(key):
            continue
        if wants_all and offsets_left <= 0:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            answers.put(key, OffsetFetchResponseGroup(group_id=group.group_id, error_code=code))
            continue
        fetched = await _fetch_large_group(group, request.require_stable, context)
        answers.put(key, fetched)
        offsets_left -= sum(len(topic.partitions) for topic in fetched.topics)
    return OffsetFetchResponse(groups=answers.all)


async def _fetch_large_group(
    group: OffsetFetchRequestGroup, require_stable: bool, context: Context
) -> OffsetFetchResponseGroup:
    unknown = _name_topics(group, context)
    fetched = _Fetched.of(await _offsets(group.group_id, group.topics, require_stable, _reader(group), context))
    response = OffsetFetchResponseGroup(group_id=group.group_id, error_code=fetched.error)
    for name, entries in fetched.offsets.items():
        topic = OffsetFetchResponseTopics(name=name, topic_id=context.node.image.topic_id(name))
        if context.api_version >= _IDS_FROM and topic.topic_id == NO_UUID:
            continue  # it is gone, and without an id there is no way to say so
        response.topics.append(topic)
        for entry in entries:
            topic.partitions.append(_fill(OffsetFetchResponsePartitions(), entry))
            await context.pause()
    if not fetched.error:
        response.topics += unknown
    return response


async def _offsets(
    group_id: str,
    topics: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None,
    require_stable: bool,
    reader: Committer | None,
    context: Context,
) -> Offsets | ApiError:
    """The offsets of a group, a part of them at a time; all of them if `topics` is None.

    Topics that the client may not describe are refused, or left out if it did not name them.
    """
    if not context.is_allowed(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id):
        return ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    found: dict[str, list[PartitionOffset]] = {}
    ask = context.node.groups.ask
    topic_id_of = context.node.image.topic_id
    if topics is None:
        stored = await ask(
            group_id,
            lambda shard, _respond, _now_ms: Decision(shard.stored_offsets(group_id, require_stable, reader)),
        )
        if isinstance(stored, ApiError):
            return stored
        for each in stored:
            read = read_stored(each)
            if read is None or not is_of_topic(read[1].committed, topic_id_of(read[0])):
                continue
            if context.is_allowed(AclOperation.DESCRIBE, AclResourceType.TOPIC, read[0], is_logged=False):
                found.setdefault(read[0], []).append(read[1])
            await context.pause()
        return found
    denied = context.denied_topics(AclOperation.DESCRIBE, (topic.name for topic in topics))
    for part in in_parts((topic.name, topic.partition_indexes) for topic in topics):
        allowed = [(name, indexes) for name, indexes in part if name not in denied]
        for name, indexes in part:
            if name in denied:
                found.setdefault(name, []).extend(PartitionOffset(index, None, _TOPIC_DENIED) for index in indexes)
        outcome = await ask(group_id, partial(_fetching, group_id, allowed, require_stable, reader, topic_id_of))
        if isinstance(outcome, ApiError):
            return outcome
        for name, entries in outcome.items():
            found.setdefault(name, []).extend(entries)
        await context.pause()
    return found


def _fetching(
    group_id: str,
    wanted: Sequence[tuple[str, Sequence[int]]],
    require_stable: bool,
    reader: Committer | None,
    topic_id_of: TopicId,
    shard: GroupShard,
    _respond: Respond,
    _now_ms: int,
) -> Decision[Offsets]:
    return Decision(shard.fetch_offsets(group_id, wanted, require_stable, reader, topic_id_of))


def _as_of(version: int, fetched: _Fetched, topics: Sequence[OffsetFetchRequestTopic]) -> _Fetched:
    """For old versions: the error is repeated for each partition."""
    if not version:
        fetched = _Fetched(
            {name: [_as_version_0(entry) for entry in entries] for name, entries in fetched.offsets.items()},
            fetched.error,
        )
    if fetched.error and version < _GROUP_ERROR_FROM:
        failed: dict[str, list[PartitionOffset]] = {}
        for topic in topics:
            entries = [PartitionOffset(index, None, fetched.error) for index in topic.partition_indexes]
            failed.setdefault(topic.name, []).extend(entries)
        return _Fetched(failed)
    return fetched


def _as_version_0(entry: PartitionOffset) -> PartitionOffset:
    """Version 0, which asked ZooKeeper, says in the error that there is no offset."""
    return entry if entry.committed is not None else entry._replace(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _fill(partition: Partition, entry: PartitionOffset) -> Partition:
    """What was never committed is answered with -1 and no error."""
    committed = entry.committed
    partition.partition_index = entry.partition
    partition.committed_offset = -1 if committed is None else committed.offset
    partition.committed_leader_epoch = -1 if committed is None else committed.leader_epoch
    partition.metadata = "" if committed is None else committed.metadata
    partition.error_code = entry.error
    return partition
