"""DeleteTopics: by name, or from version 6 on by id; results in request order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.broker.handlers._topics import refuse_late
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tidelog.wire.primitives import NO_UUID

if TYPE_CHECKING:
    from tidelog.broker.client_quotas import MutationQuota
    from tidelog.broker.serving.context import Context

_STATES_FROM = 6
_QUOTA_ERROR_SINCE = 5
_TOPIC_DELETION_DISABLED_SINCE = 3


async def handle(request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    """Delete each topic for itself."""
    asked: Iterable[DeleteTopicState] = request.topics
    if context.api_version < _STATES_FROM:
        asked = (DeleteTopicState(name=name) for name in request.topic_names)
    results: list[DeletableTopicResult] = []
    deleted: list[str] = []
    quota = context.mutation_quota(_QUOTA_ERROR_SINCE)
    for topic in asked:
        result = await _delete(topic, quota, context)
        results.append(result)
        if result.error_code == ErrorCode.NONE and result.name is not None:
            deleted.append(result.name)
    if deleted:
        # In a cluster the answer waits until no client of this broker sees the topics.
        late = await context.node.topology.topics.wait_deleted(deleted, request.timeout_ms)
        await refuse_late(results, late, context)
    quota.throttle()
    return DeleteTopicsResponse(responses=results)


async def _delete(asked: DeleteTopicState, quota: MutationQuota, context: Context) -> DeletableTopicResult:
    await context.node.slices.pause()
    result = DeletableTopicResult(name=asked.name, topic_id=asked.topic_id)
    node = context.node
    try:
        if not node.config.delete_topic_enable:
            knows_the_code = context.api_version >= _TOPIC_DELETION_DISABLED_SINCE
            code = ErrorCode.TOPIC_DELETION_DISABLED if knows_the_code else ErrorCode.INVALID_REQUEST
            raise ApiError(code, "delete.topic.enable is false")
        if asked.name is not None and asked.topic_id != NO_UUID:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a topic is named by its name or by its id, not by both")
        name = asked.name
        if name is None:
            name = node.image.topic_name(asked.topic_id)
            if name is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
            # A client that may not see the topic does not learn its name.
            context.check_allowed(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
        result.name = name
        context.check_allowed(AclOperation.DELETE, AclResourceType.TOPIC, name)
        quota.take(node.image.partition_count(name))
        result.topic_id = await node.topology.topics.delete(name)
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message
    return result
