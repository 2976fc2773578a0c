"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets (KIP-932).

DescribeShareGroupOffsets: where a group begins in each partition, and from version 1 on how many records it has not
done with (KIP-1226). AlterShareGroupOffsets and DeleteShareGroupOffsets are for groups without members: the state of a
partition begins in a new epoch, or is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.sharing.schemas import ShareKey
from tidelog.sharing.state import NO_START
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages import alter_share_group_offsets as altering
from tidelog.wire.messages import delete_share_group_offsets as deleting
from tidelog.wire.messages import describe_share_group_offsets as describing
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.groups.share.group import ShareGroup
    from tidelog.metadata.image import TopicImage

_LATEST: Final = -1
_LAG_FROM: Final = 1
_NO_LAG: Final = -1


# --- describe ---


async def handle_describe(
    request: describing.DescribeShareGroupOffsetsRequest, context: Context
) -> describing.DescribeShareGroupOffsetsResponse:
    """Each group for itself; all partitions that it has a state of, unless the request names some."""
    groups = []
    for asked in request.groups:
        group = describing.DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id)
        groups.append(group)
        try:
            context.node.shares.check_served()
            context.check_allowed(AclOperation.DESCRIBE, AclResourceType.GROUP, asked.group_id)
            known = context.node.groups.shard_of(asked.group_id).shares.known(asked.group_id)
            group.topics = await _describe(known, _wanted(known, asked), context)
        except ApiError as error:
            group.error_code, group.error_message = error.code, error.message
    return describing.DescribeShareGroupOffsetsResponse(groups=groups)


def _wanted(group: ShareGroup, asked: describing.DescribeShareGroupOffsetsRequestGroup) -> dict[str, list[int]]:
    if asked.topics is None:
        return {topic.name: sorted(topic.partitions) for topic in group.initialized.values()}
    return {topic.topic_name: list(dict.fromkeys(topic.partitions)) for topic in asked.topics}


async def _describe(
    group: ShareGroup, wanted: dict[str, list[int]], context: Context
) -> list[describing.DescribeShareGroupOffsetsResponseTopic]:
    found = []
    denied = context.denied_topics(AclOperation.DESCRIBE, wanted)
    for name, indexes in wanted.items():
        topic = context.node.image.topic(name)
        answer = describing.DescribeShareGroupOffsetsResponseTopic(topic_name=name)
        if topic is not None and name not in denied:
            answer.topic_id = topic.topic_id
        code = _refusal(topic, name in denied)
        for index in indexes:
            entry = describing.DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=NO_START)
            answer.partitions.append(entry)
            if code is not ErrorCode.NONE:
                entry.error_code, entry.error_message = code, code.text
                continue
            assert topic is not None, "a topic that is not refused is there"
            try:
                await _fill(entry, group, topic, context)
            except ApiError as error:
                entry.error_code, entry.error_message = error.code, error.message
        found.append(answer)
    return found


def _refusal(topic: TopicImage | None, is_denied: bool) -> ErrorCode:
    if is_denied:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else ErrorCode.NONE


async def _fill(
    entry: describing.DescribeShareGroupOffsetsResponsePartition,
    group: ShareGroup,
    topic: TopicImage,
    context: Context,
) -> None:
    initialized = group.initialized.get(topic.topic_id)
    if initialized is None or entry.partition_index not in initialized.partitions:
        return  # Kafka has no error for a partition that the group does not read
    key = ShareKey(group.group_id, topic.topic_id, entry.partition_index)
    summary = await context.node.shares.states.summary(key)
    entry.start_offset, entry.leader_epoch = summary.start_offset, summary.leader_epoch
    if context.api_version >= _LAG_FROM and summary.start_offset != NO_START:
        end_offset = await _end_offset(topic, entry.partition_index, context)
        if end_offset >= 0:
            entry.lag = max(end_offset - summary.start_offset - max(summary.done_count, 0), 0)


async def _end_offset(topic: TopicImage, index: int, context: Context) -> int:
    """Where consumers of a partition have read everything; -1 if its leader cannot say."""
    node = context.node
    partition = topic.partition(index)
    if partition is None:
        return _NO_LAG
    hosted = node.replica_manager.find(topic.name, index)
    if hosted is not None and hosted.is_leader:
        return hosted.end_for_reader(False, 0)
    if partition.leader_id < 0:
        return _NO_LAG
    asked = ListOffsetsTopic(
        name=topic.name, partitions=[ListOffsetsPartition(partition_index=index, timestamp=_LATEST)]
    )
    try:
        answer: Any = await node.topology.ask(partition.leader_id, ListOffsetsRequest(replica_id=-1, topics=[asked]))
    except ApiError:
        return _NO_LAG
    assert isinstance(answer, ListOffsetsResponse), "a response is of its request's kind"
    found = answer.topics[0].partitions[0]
    return _NO_LAG if found.error_code else found.offset


# --- alter ---


async def handle_alter(
    request: altering.AlterShareGroupOffsetsRequest, context: Context
) -> altering.AlterShareGroupOffsetsResponse:
    """Begin the named partitions in a new epoch of the group, at the offsets given."""
    context.node.shares.check_served()
    context.check_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    denied = context.denied_topics(AclOperation.READ, (topic.topic_name for topic in request.topics))
    context.node.groups.shard_of(request.group_id).shares.check_empty(request.group_id)
    state_epoch = await context.node.groups.ask(
        request.group_id, lambda shard, _respond, now_ms: shard.shares.begin_epoch(request.group_id, now_ms)
    )
    if isinstance(state_epoch, ApiError):
        raise state_epoch
    responses = []
    done: dict[bytes, Any] = {}
    for topic in request.topics:
        image = context.node.image.topic(topic.topic_name)
        answer = altering.AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name)
        responses.append(answer)
        if image is not None:
            answer.topic_id = image.topic_id
        refusal = _refusal(image, topic.topic_name in denied)
        for asked in topic.partitions:
            index = asked.partition_index
            entry = altering.AlterShareGroupOffsetsResponsePartition(partition_index=index)
            answer.partitions.append(entry)
            if refusal is ErrorCode.NONE and (image is None or image.partition(index) is None):
                refusal_here = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                refusal_here = refusal
            if refusal_here is not ErrorCode.NONE:
                entry.error_code, entry.error_message = refusal_here, refusal_here.text
                continue
            assert image is not None, "a topic that is not refused is there"
            try:
                key = ShareKey(request.group_id, image.topic_id, index)
                await context.node.shares.states.initialize(key, state_epoch, asked.start_offset)
            except ApiError as error:
                entry.error_code, entry.error_message = error.code, error.message
            else:
                done.setdefault(image.topic_id, (image.name, set()))[1].add(index)
    await _note_initialized(request.group_id, done, context)
    return altering.AlterShareGroupOffsetsResponse(responses=responses)


async def _note_initialized(group_id: str, done: dict[bytes, Any], context: Context) -> None:
    if not done:
        return
    from tidelog.groups.share.group import StateTopic

    topics = {topic_id: StateTopic(name, frozenset(indexes)) for topic_id, (name, indexes) in done.items()}
    outcome = await context.node.groups.ask(
        group_id, lambda shard, _respond, now_ms: shard.shares.initialized(group_id, topics, now_ms)
    )
    if isinstance(outcome, ApiError):
        raise outcome


# --- delete ---


async def handle_delete(
    request: deleting.DeleteShareGroupOffsetsRequest, context: Context
) -> deleting.DeleteShareGroupOffsetsResponse:
    """Forget the states of topics: the group begins again where its settings say when it reads them next."""
    context.node.shares.check_served()
    context.check_allowed(AclOperation.DELETE, AclResourceType.GROUP, request.group_id)
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    denied = context.denied_topics(AclOperation.READ, names)
    group = context.node.groups.shard_of(request.group_id).shares.check_empty(request.group_id)
    by_name = {topic.name: topic_id for topic_id, topic in group.initialized.items()}
    responses, removed = [], []
    for name in names:
        answer = deleting.DeleteShareGroupOffsetsResponseTopic(topic_name=name)
        responses.append(answer)
        topic_id = by_name.get(name)
        refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED if name in denied else ErrorCode.NONE
        if refusal is ErrorCode.NONE and topic_id is None:
            refusal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if refusal is not ErrorCode.NONE:
            answer.error_code, answer.error_message = refusal, refusal.text
            continue
        assert topic_id is not None, "a topic that is not refused has a state"
        answer.topic_id = topic_id
        try:
            await delete_states(group, topic_id, context)
        except ApiError as error:
            answer.error_code, answer.error_message = error.code, error.message
        else:
            removed.append(topic_id)
    if removed:
        outcome = await context.node.groups.ask(
            request.group_id,
            lambda shard, _respond, now_ms: shard.shares.remove_states(request.group_id, removed, now_ms),
        )
        if isinstance(outcome, ApiError):
            raise outcome
    return deleting.DeleteShareGroupOffsetsResponse(responses=responses)


async def delete_states(group: ShareGroup, topic_id: bytes, context: Context) -> None:
    """Delete the stored state of every partition of a topic. Raises ApiError."""
    for index in sorted(group.initialized[topic_id].partitions):
        await context.node.shares.states.delete(ShareKey(group.group_id, topic_id, index))
