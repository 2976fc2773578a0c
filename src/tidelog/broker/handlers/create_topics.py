"""CreateTopics: each topic on its own, results in request order; validate-only writes nothing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from tidelog.broker.handlers._topics import COUNTED_AT_ONCE, partition_limit_error, refuse_late
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.client_quotas import MutationQuota
    from tidelog.broker.serving.context import Context
    from tidelog.metadata.image import TopicImage


_QUOTA_ERROR_SINCE: Final = 6


async def handle(request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    """Create the valid topics; return the error of each of the others."""
    counts: Counter[str] = Counter()
    new_partitions = 0
    for position, topic in enumerate(request.topics):
        if position % COUNTED_AT_ONCE == COUNTED_AT_ONCE - 1:
            await context.node.slices.pause()
        counts[topic.name] += 1
        new_partitions += max(len(topic.assignments) or topic.num_partitions, 0)
    too_many = partition_limit_error(new_partitions)
    quota = context.mutation_quota(_QUOTA_ERROR_SINCE)
    results: list[CreatableTopicResult] = []
    made: dict[str, int] = {}
    for topic in request.topics:
        result = await _create(topic, counts[topic.name], too_many, quota, request.validate_only, context)
        results.append(result)
        if result.error_code == ErrorCode.NONE:
            made[result.name] = result.num_partitions
    if made and not request.validate_only:
        # In a cluster the answer waits until this broker knows the leaders.
        late = await context.node.topology.topics.wait_created(made, request.timeout_ms)
        await refuse_late(results, late, context)
    quota.throttle()
    return CreateTopicsResponse(topics=results)


async def _create(
    topic: CreatableTopic,
    count: int,
    too_many: ApiError | None,
    quota: MutationQuota,
    validate_only: bool,
    context: Context,
) -> CreatableTopicResult:
    await context.node.slices.pause()
    result = CreatableTopicResult(name=topic.name, error_message=None, num_partitions=-1, replication_factor=-1)
    try:
        if not context.is_allowed(AclOperation.CREATE, AclResourceType.CLUSTER, is_logged=False):
            context.check_allowed(AclOperation.CREATE, AclResourceType.TOPIC, topic.name)
        if too_many is not None:
            raise too_many
        if count > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"topic {topic.name} stands in the request {count} times")
        assignments = {a.partition_index: list(a.broker_ids) for a in topic.assignments}
        if len(assignments) != len(topic.assignments):
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"a partition of {topic.name} is assigned twice")
        overrides = _overrides(topic)
        if not validate_only and context.node.image.topic(topic.name) is None:
            partition_count = len(assignments) or topic.num_partitions
            quota.take(partition_count if partition_count > 0 else context.node.config.num_partitions)
        made = await context.node.topology.topics.create(
            topic.name,
            topic.num_partitions,
            topic.replication_factor,
            assignments or None,
            overrides,
            validate_only=validate_only,
        )
        if not validate_only:
            result.topic_id = made.topic_id
        _describe(result, made, overrides, context)
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message
        if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            result.topic_config_error_code = error.code
    return result


def _overrides(topic: CreatableTopic) -> dict[str, str]:
    """The settings that were given; of one that was given twice the last counts."""
    overrides: dict[str, str] = {}
    for entry in topic.configs:
        if entry.value is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{entry.name} has a null value for topic {topic.name}")
        overrides[entry.name] = entry.value
    return overrides


def _describe(result: CreatableTopicResult, made: TopicImage, overrides: dict[str, str], context: Context) -> None:
    """From version 5 on the response has the counts and every setting with its source."""
    result.num_partitions = len(made.partitions)
    result.replication_factor = len(made.partitions[0].replicas)
    if context.api_version < 5:
        return
    if not context.is_allowed(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, made.name, is_logged=False):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        result.num_partitions = result.replication_factor = -1
        result.configs = None
        return
    result.configs = [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in context.node.config_layers.describe_topic(overrides)
    ]
