"""CreatePartitions: a topic grows; its existing partitions stay as they are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context


def handle(request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    """Grow each topic for itself."""
    counts = Counter(topic.name for topic in request.topics)
    return CreatePartitionsResponse(
        results=[_grow(topic, counts[topic.name], request.validate_only, context) for topic in request.topics]
    )


def _grow(
    topic: CreatePartitionsTopic, count: int, validate_only: bool, context: Context
) -> CreatePartitionsTopicResult:
    result = CreatePartitionsTopicResult(name=topic.name, error_message=None)
    try:
        if count > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"topic {topic.name} stands in the request {count} times")
        assignments = None if topic.assignments is None else [list(a.broker_ids) for a in topic.assignments]
        context.node.topics.add_partitions(topic.name, topic.count, assignments, validate_only=validate_only)
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message
    return result
