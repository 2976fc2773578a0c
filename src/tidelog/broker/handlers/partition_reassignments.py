"""AlterPartitionReassignments and ListPartitionReassignments: where replicas are to move.

In a cluster the controller moves them: an answer says that a move has begun, and the list shows those under way. The
replicas of a single broker have nowhere to move to: an assignment that is in place is confirmed, every other one is
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
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from tidelog.wire.partitions import TopicPartition

if TYPE_CHECKING:
    from tidelog.broker.context import Context
    from tidelog.broker.controller_service import ControllerService


async def handle_alter(
    request: AlterPartitionReassignmentsRequest, context: Context
) -> AlterPartitionReassignmentsResponse:
    """Answer each partition once; of two assignments for the same one the last counts."""
    if context.node.member is not None:
        return await _alter_in_cluster(request, context.node.member.controller, context)
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


async def _alter_in_cluster(
    request: AlterPartitionReassignmentsRequest, controller: ControllerService, context: Context
) -> AlterPartitionReassignmentsResponse:
    targets: dict[TopicPartition, tuple[int, ...] | None] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            target = None if partition.replicas is None else tuple(partition.replicas)
            targets[TopicPartition(topic.name, partition.partition_index)] = target
        await context.pause()
    outcomes = await controller.alter_reassignments(targets)
    topics: dict[str, ReassignableTopicResponse] = {}
    for (name, index), error in outcomes.items():
        answer = ReassignablePartitionResponse(partition_index=index, error_message=None)
        if error is not None:
            answer.error_code, answer.error_message = error.code, error.message or error.code.text
        topics.setdefault(name, ReassignableTopicResponse(name=name)).partitions.append(answer)
        await context.node.slices.pause()
    return AlterPartitionReassignmentsResponse(error_message=None, responses=list(topics.values()))


async def handle_list(
    request: ListPartitionReassignmentsRequest, context: Context
) -> ListPartitionReassignmentsResponse:
    """Those under way: of the partitions named, or of all. A single broker has none."""
    if context.node.member is None:
        return ListPartitionReassignmentsResponse()
    asked = None
    if request.topics is not None:
        asked = tuple(
            TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes
        )
    found = await context.node.member.controller.list_reassignments(asked)
    topics: dict[str, OngoingTopicReassignment] = {}
    for (name, index), assignment in found.items():
        topics.setdefault(name, OngoingTopicReassignment(name=name)).partitions.append(
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            )
        )
        await context.pause()
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values()))


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
