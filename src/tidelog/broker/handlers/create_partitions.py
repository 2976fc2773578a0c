"""CreatePartitions: a topic grows; its existing partitions stay as they are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from tidelog.broker.handlers._topics import COUNTED_AT_ONCE, partition_limit_error, refuse_late
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.client_quotas import MutationQuota
    from tidelog.broker.serving.context import Context


_QUOTA_ERROR_SINCE: Final = 3


async def handle(request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    """Extend each topic on its own; one that a request names twice is rejected, and answered once."""
    counts: Counter[str] = Counter()
    topics: dict[str, CreatePartitionsTopic] = {}
    new_partitions = 0
    for position, topic in enumerate(request.topics):
        if position % COUNTED_AT_ONCE == COUNTED_AT_ONCE - 1:
            await context.node.slices.pause()
        counts[topic.name] += 1
        topics[topic.name] = topic
        new_partitions += max(topic.count - _count_of(topic.name, context), 0)
    too_many = partition_limit_error(new_partitions)
    quota = context.mutation_quota(_QUOTA_ERROR_SINCE)
    results: list[CreatePartitionsTopicResult] = []
    grown: dict[str, int] = {}
    for topic in topics.values():
        result = await _grow(topic, counts[topic.name], too_many, quota, request.validate_only, context)
        results.append(result)
        if result.error_code == ErrorCode.NONE:
            grown[topic.name] = topic.count
    if grown and not request.validate_only:
        # In a cluster the answer waits until this broker knows the leaders.
        late = await context.node.topology.topics.wait_created(grown, request.timeout_ms)
        await refuse_late(results, late, context)
    quota.throttle()
    return CreatePartitionsResponse(results=results)


def _count_of(name: str, context: Context) -> int:
    topic = context.node.image.topic(name)
    return 0 if topic is None else len(topic.partitions)


async def _grow(
    topic: CreatePartitionsTopic,
    count: int,
    too_many: ApiError | None,
    quota: MutationQuota,
    validate_only: bool,
    context: Context,
) -> CreatePartitionsTopicResult:
    await context.node.slices.pause()
    result = CreatePartitionsTopicResult(name=topic.name, error_message=None)
    try:
        context.check_allowed(AclOperation.ALTER, AclResourceType.TOPIC, topic.name)
        if too_many is not None:
            raise too_many
        if count > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"topic {topic.name} stands in the request {count} times")
        assignments = None if topic.assignments is None else [list(a.broker_ids) for a in topic.assignments]
        if not validate_only:
            quota.take(max(topic.count - _count_of(topic.name, context), 0))
        await context.node.topology.topics.add_partitions(
            topic.name, topic.count, assignments, validate_only=validate_only
        )
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message
    return result
