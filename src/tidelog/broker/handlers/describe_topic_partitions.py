"""DescribeTopicPartitions: topics page by page (KIP-966), which Java's admin client asks first."""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, Final

from tidelog.metadata.topics import check_topic_name
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.metadata.image import PartitionImage

_SORTED_AT_ONCE: Final = 2000


async def handle(request: DescribeTopicPartitionsRequest, context: Context) -> DescribeTopicPartitionsResponse:
    """Describe topics in order of their names until the page is full; the cursor says where to go on."""
    image = context.node.image
    names = await _names(request, context)
    denied: frozenset[str] = frozenset()
    if request.topics:
        denied = context.denied_topics(AclOperation.DESCRIBE, names)
    else:
        names = [
            name
            for name in names
            if context.is_allowed(AclOperation.DESCRIBE, AclResourceType.TOPIC, name, is_logged=False)
        ]
    first_index = 0
    if request.cursor is not None:
        if request.cursor.partition_index < 0:
            return _refusal(names)
        if names and names[0] == request.cursor.topic_name:
            first_index = request.cursor.partition_index
    left = min(max(request.response_partition_limit, 1), context.node.config.max_request_partition_size_limit)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        await context.pause()
        if not left:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        if name in denied:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            response.topics.append(DescribeTopicPartitionsResponseTopic(name=name, error_code=code))
            first_index = 0
            continue
        topic = image.topic(name)
        if topic is None:
            response.topics.append(_missing(name))
            first_index = 0
            continue
        page = topic.partitions[first_index : first_index + left]
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partitions=[_partition(partition) for partition in page],
                topic_authorized_operations=context.operations_allowed(AclResourceType.TOPIC, name),
            )
        )
        left -= len(page)
        if first_index + len(page) < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=first_index + len(page))
            break
        first_index = 0
    return response


async def _names(request: DescribeTopicPartitionsRequest, context: Context) -> list[str]:
    """What is asked for, each name once, in order, from the cursor on; sorted in parts that take a millisecond each."""
    asked = [topic.name for topic in request.topics] or [topic.name for topic in context.node.image.topics()]
    first = request.cursor.topic_name if request.cursor is not None and request.cursor.partition_index >= 0 else ""
    parts = []
    for start in range(0, len(asked), _SORTED_AT_ONCE):
        parts.append(sorted({name for name in asked[start : start + _SORTED_AT_ONCE] if name >= first}))
        await context.pause()
    names: list[str] = []
    for name in merge(*parts):
        if not names or names[-1] != name:
            names.append(name)
        await context.pause()
    return names


def _refusal(names: list[str]) -> DescribeTopicPartitionsResponse:
    """The request is invalid. The response has no error of its own, so each topic has it, as in Kafka."""
    code = ErrorCode.INVALID_REQUEST
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(name=name, error_code=code) for name in names]
    )


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    try:
        check_topic_name(name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    except ApiError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(name=name, error_code=code)


def _partition(partition: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if partition.leader_id >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.index,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=list(partition.offline_replicas),
    )
