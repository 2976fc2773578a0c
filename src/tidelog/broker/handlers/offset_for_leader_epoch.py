"""OffsetForLeaderEpoch: the end offset of an epoch, by which followers and consumers detect diverged logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context


async def handle(request: OffsetForLeaderEpochRequest, context: Context) -> OffsetForLeaderEpochResponse:
    """Answer every partition for itself."""
    response = OffsetForLeaderEpochResponse()
    is_broker = context.is_allowed(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, is_logged=False)
    for topic in request.topics:
        result = OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(result)
        await context.pause()
        for asked in topic.partitions:
            result.partitions.append(_answer(topic.topic, asked, is_broker, context))
            await context.pause()
    return response


def _answer(topic: str, asked: OffsetForLeaderPartition, is_broker: bool, context: Context) -> EpochEndOffset:
    response = EpochEndOffset(partition=asked.partition, leader_epoch=-1, end_offset=-1)
    try:
        if not is_broker:
            context.check_allowed(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
        partition = context.node.replica_manager.partition(topic, asked.partition)
        partition.check_readable(asked.current_leader_epoch)
        response.leader_epoch, response.end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
    except ApiError as error:
        response.error_code = error.code
    return response
