"""OffsetDelete: forget offsets of topics that a group does not read any more (KIP-496)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.broker.handlers._groups import check_group_id
from tidelog.broker.handlers._parts import in_parts
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context
    from tidelog.broker.group_coordinator import Operation as GroupOperation


async def handle(request: OffsetDeleteRequest, context: Context) -> OffsetDeleteResponse:
    """Ask the group's coordinator about partitions of topics that exist; a partition named twice is deleted once."""
    context.check_allowed(AclOperation.DELETE, AclResourceType.GROUP, request.group_id)
    check_group_id(request.group_id)
    image = context.node.image
    response = OffsetDeleteResponse()
    answered: set[tuple[str, int]] = set()
    denied = context.denied_topics(AclOperation.READ, (topic.name for topic in request.topics))
    # A missing group is an error of the whole response, so the coordinator is asked even if no topic exists.
    topics = [(topic.name, topic.partitions) for topic in request.topics] or [("", [])]
    for part in in_parts(topics):
        wanted = dict.fromkeys((name, each.partition_index) for name, partitions in part for each in partitions)
        new = [key for key in wanted if key not in answered]
        answered.update(new)
        deletable = [key for key in new if image.topic(key[0]) is not None and key[0] not in denied]
        outcome = await context.node.groups.ask(request.group_id, _deleting(request.group_id, deletable))
        if isinstance(outcome, ApiError):
            return OffsetDeleteResponse(error_code=outcome.code)
        for name, index in new:
            if not response.topics or response.topics[-1].name != name:
                response.topics.append(OffsetDeleteResponseTopic(name=name))
            code = outcome.get((name, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if name in denied:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            response.topics[-1].partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
        await context.node.slices.pause()
    return response


def _deleting(group_id: str, partitions: Sequence[tuple[str, int]]) -> GroupOperation:
    return lambda shard, _respond, now_ms: shard.delete_offsets(group_id, partitions, now_ms)
