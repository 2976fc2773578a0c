"""OffsetDelete: forget offsets of topics that a group does not read any more (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.handlers._groups import check_group_id
from tidelog.groups import Codes
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context


def handle(request: OffsetDeleteRequest, context: Context) -> OffsetDeleteResponse:
    """Ask the group's coordinator about the partitions of topics that exist."""
    check_group_id(request.group_id)
    image = context.node.image
    partitions = [
        (topic.name, partition.partition_index)
        for topic in request.topics
        if image.topic(topic.name) is not None
        for partition in topic.partitions
    ]

    def shape(outcome: Codes | ApiError) -> OffsetDeleteResponse:
        if isinstance(outcome, ApiError):
            return OffsetDeleteResponse(error_code=outcome.code)
        return OffsetDeleteResponse(
            topics=[
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=partition.partition_index,
                            error_code=outcome.get(
                                (topic.name, partition.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                            ),
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return context.node.groups.call(
        request.group_id,
        lambda shard, _respond, now_ms: shard.delete_offsets(request.group_id, partitions, now_ms),
        shape,
    )
