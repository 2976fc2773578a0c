"""AlterPartitionReassignments and ListPartitionReassignments: where replicas are to move.

The replicas of a single broker have nowhere to move to. An assignment that is in place is confirmed, every other one is
refused for what is wrong with it, and no reassignment is ever under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context


async def handle_alter(
    request: AlterPartitionReassignmentsRequest, context: Context
) -> AlterPartitionReassignmentsResponse:
    """Answer each partition once; of two assignments for the same one the last counts."""
    topics: dict[str, dict[int, ReassignablePartitionResponse]] = {}
    for topic in request.topics:
        answers = topics.setdefault(topic.name, {})
        for partition in topic.partitions:
            index = partition.partition_index
            answer = ReassignablePartitionResponse(partition_index=index, error_message=None)
            try:
                _check(topic.name, index, partition.replicas, context)
            except ApiError as error:
                answer.error_code, answer.error_message = error.code, error.message or error.code.text
            answers[index] = answer
            await context.pause()
    return AlterPartitionReassignmentsResponse(
        responses=[
            ReassignableTopicResponse(name=name, partitions=list(answers.values())) for name, answers in topics.items()
        ]
    )


def handle_list(_request: ListPartitionReassignmentsRequest, _context: Context) -> ListPartitionReassignmentsResponse:
    """None."""
    return ListPartitionReassignmentsResponse()


def _check(topic: str, index: int, replicas: Sequence[int] | None, context: Context) -> None:
    """Raise ApiError unless the replicas are where they are wanted."""
    if replicas is None:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    alive = context.node.image.broker_ids()
    if not replicas:
        raise _invalid("a partition needs at least one replica")
    if len(set(replicas)) < len(replicas):
        raise _invalid(f"the replicas {list(replicas)} name a broker twice")
    if missing := [broker_id for broker_id in replicas if broker_id not in alive]:
        raise _invalid(f"brokers {missing} are not alive; alive are {alive}")
    partition = context.node.image.partition(topic, index)
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if tuple(replicas) != tuple(partition.replicas):
        text = "replicas cannot be moved between brokers yet"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text)


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
