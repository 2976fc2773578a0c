"""OffsetCommit: store how far a group has read; answered when it is committed to the log.

Version 0, which wrote to ZooKeeper, is kept here like the others: as a commit from outside the group.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.handlers._groups import committed_in_parts
from tidelog.broker.handlers._parts import are_few
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


def handle(
    request: OffsetCommitRequest, context: Context
) -> OffsetCommitResponse | Coroutine[Any, Any, OffsetCommitResponse]:
    """Ask the group's coordinator; partitions that do not exist are refused one by one, whatever it says."""
    if are_few([topic.partitions for topic in request.topics]):
        return _commit(request, context)
    return committed_in_parts(request, OffsetCommitResponse(), _commit, context)


def _commit(request: OffsetCommitRequest, context: Context) -> OffsetCommitResponse:
    partition_count = context.node.image.partition_count
    committer = Committer(
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        knows_epochs=context.api_version >= _EPOCHS_FROM,
    )

    def code_of(name: str, index: int, outcome: Codes | ApiError) -> ErrorCode:
        if not isinstance(outcome, ApiError):
            return outcome[name, index]
        return outcome.code if 0 <= index < partition_count(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def shape(outcome: Codes | ApiError) -> OffsetCommitResponse:
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(
                            partition_index=partition.partition_index,
                            error_code=code_of(topic.name, partition.partition_index, outcome),
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
                if topic.partitions
            ]
        )

    return context.node.groups.call(
        request.group_id,
        lambda shard, _respond, now_ms: shard.commit_offsets(
            request.group_id, committer, request.topics, partition_count, now_ms, retention_ms=request.retention_time_ms
        ),
        shape,
    )
