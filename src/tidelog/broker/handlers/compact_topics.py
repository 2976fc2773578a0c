"""CompactTopics, an API of Tidelog: compact partitions now, or report the progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.own_messages import (
    CompactedPartition,
    CompactedTopic,
    CompactTopicsRequest,
    CompactTopicsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.broker.serving.node import Node


async def handle(request: CompactTopicsRequest, context: Context) -> CompactTopicsResponse:
    """Request the compaction of each partition, unless only its state is wanted; then return the state."""
    response = CompactTopicsResponse()
    for topic in request.topics:
        answer = CompactedTopic(name=topic.name)
        response.topics.append(answer)
        await context.pause()
        for index in topic.partitions:
            answer.partitions.append(_compact(context, topic.name, index, only_status=request.only_status))
            await context.pause()
    return response


def _compact(context: Context, topic: str, index: int, *, only_status: bool) -> CompactedPartition:
    node = context.node
    try:
        context.check_allowed(AclOperation.ALTER, AclResourceType.TOPIC, topic)
        if not only_status:
            _request(node, topic, index)
        return _status(node, topic, index)
    except ApiError as error:
        return CompactedPartition(partition_index=index, error_code=error.code, error_message=error.message)


def _request(node: Node, topic: str, index: int) -> None:
    log = node.log_manager.get_log(topic, index)
    if log is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"broker {node.broker_id} holds no partition {topic}-{index}"
        )
    if not log.config.is_compacted:
        policy = ",".join(log.config.cleanup_policy)
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"topic {topic} is not compacted: its cleanup.policy is {policy or 'empty'}"
        )
    try:
        node.cleaning.core().request(log)
    except RuntimeError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error


def _status(node: Node, topic: str, index: int) -> CompactedPartition:
    cleaner = node.cleaning.core()
    request = cleaner.requests.get((topic, index))
    if request is None:
        return CompactedPartition(partition_index=index)
    progress = cleaner.progress_of((topic, index))
    return CompactedPartition(
        partition_index=index,
        state=request.state.value,
        error_message=request.message or None,
        bytes_before=request.bytes_before,
        bytes_after=request.bytes_after,
        bytes_done=progress.bytes_done if progress else 0,
        bytes_total=progress.bytes_total if progress else 0,
    )
