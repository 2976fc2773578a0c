"""OffsetCommit: store how far a group has read; answered when it is committed to the log.

Version 0, which wrote to ZooKeeper, is kept here like the others: as a commit from outside the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.groups import Codes, Committer
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context

_EPOCHS_FROM: Final = 9


def handle(request: OffsetCommitRequest, context: Context) -> OffsetCommitResponse:
    """Ask the group's coordinator; topics that do not exist are refused one by one."""
    find_topic = context.node.image.topic
    committer = Committer(
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        knows_epochs=context.api_version >= _EPOCHS_FROM,
    )

    def shape(outcome: Codes | ApiError) -> OffsetCommitResponse:
        codes: Codes = {} if isinstance(outcome, ApiError) else outcome
        failure = outcome.code if isinstance(outcome, ApiError) else ErrorCode.NONE
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(
                            partition_index=partition.partition_index,
                            error_code=codes.get((topic.name, partition.partition_index), failure)
                            if codes or find_topic(topic.name)
                            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return context.node.groups.call(
        request.group_id,
        lambda shard, _respond, now_ms: shard.commit_offsets(
            request.group_id, committer, request.topics, find_topic, now_ms, retention_ms=request.retention_time_ms
        ),
        shape,
    )
