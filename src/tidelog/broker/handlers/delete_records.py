"""DeleteRecords: move the start of partitions forward; what lies before is gone for every reader."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.broker.coordinators.replies import Eventual, Reply, gather, settled
from tidelog.broker.handlers._parts import PARTITIONS_AT_ONCE, are_few
from tidelog.replication.delete_records import DeleteResult
from tidelog.security.acls import AclOperation
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context


def handle(
    request: DeleteRecordsRequest, context: Context
) -> Eventual[DeleteRecordsResponse] | Coroutine[Any, Any, Eventual[DeleteRecordsResponse]]:
    """Delete before the given offsets; answered once every replica has followed."""
    if context.node.delayed.has_partitions or not are_few([topic.partitions for topic in request.topics]):
        return _delete_many(request, context)
    offsets = {
        (topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }
    deletion = _delete(list(offsets.items()), request.timeout_ms, context)
    return gather((deletion,), _response)


async def _delete_many(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    """More partitions than are dealt with in one step. Of a partition that is named twice the last offset counts."""
    offsets: dict[tuple[str, int], int] = {}
    for topic in request.topics:
        await context.node.slices.pause()
        for partition in topic.partitions:
            offsets[topic.name, partition.partition_index] = partition.offset
            await context.node.slices.pause()
    await _carry_delayed(offsets, context)
    wanted = list(offsets.items())
    deletions = []
    for start in range(0, len(wanted), PARTITIONS_AT_ONCE):
        deletions.append(_delete(wanted[start : start + PARTITIONS_AT_ONCE], request.timeout_ms, context))
        await context.node.slices.pause()
    topics: dict[str, DeleteRecordsTopicResult] = {}
    for deletion in deletions:
        _add(await settled(deletion), topics)
        await context.node.slices.pause()
    return DeleteRecordsResponse(topics=list(topics.values()))


async def _carry_delayed(offsets: dict[tuple[str, int], int], context: Context) -> None:
    """Copy records that still wait out of what is deleted: they are not in the topic yet."""
    delayed = context.node.delayed
    denied = context.denied_topics(AclOperation.DELETE, (topic for topic, _ in offsets))
    for (topic, index), offset in offsets.items():
        waiting = delayed.find(topic, index)
        if waiting is None or topic in denied or not waiting.partition.is_leader:
            continue
        # What is copied lies after the high watermark of this moment, which -1 stands for.
        high_watermark = waiting.partition.log.high_watermark
        if offset == -1:
            offsets[topic, index] = high_watermark
        await delayed.carry_before(topic, index, high_watermark if offset == -1 else min(offset, high_watermark))


def _delete(
    offsets: Sequence[tuple[tuple[str, int], int]], timeout_ms: int, context: Context
) -> Eventual[list[DeleteResult]]:
    denied = context.denied_topics(AclOperation.DELETE, (topic for (topic, _), _ in offsets))
    refused = [
        DeleteResult(topic, index, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for (topic, index), _ in offsets
        if topic in denied
    ]
    reply: Reply[list[DeleteResult]] = Reply(lambda results: [*refused, *results])
    wanted = [(topic, index, offset) for (topic, index), offset in offsets if topic not in denied]
    context.node.replica_manager.delete_records(wanted, timeout_ms, reply)
    if not reply.is_there:
        context.node.socket_server.wake()  # the end of the turn sets the timer
    return reply.result()


def _response(results: list[list[DeleteResult]]) -> DeleteRecordsResponse:
    topics: dict[str, DeleteRecordsTopicResult] = {}
    for deleted in results:
        _add(deleted, topics)
    return DeleteRecordsResponse(topics=list(topics.values()))


def _add(deleted: list[DeleteResult], topics: dict[str, DeleteRecordsTopicResult]) -> None:
    """Put results under their topics."""
    for result in deleted:
        if result.topic not in topics:
            topics[result.topic] = DeleteRecordsTopicResult(name=result.topic)
        topics[result.topic].partitions.append(
            DeleteRecordsPartitionResult(
                partition_index=result.partition_index, low_watermark=result.low_watermark, error_code=result.error_code
            )
        )
