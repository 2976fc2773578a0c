"""AlterPartitionReassignments and ListPartitionReassignments: where replicas are to move.

An answer says that a move has begun, or why it has not; the list shows those under way.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    from tidelog.broker.serving.context import Context


async def handle_alter(
    request: AlterPartitionReassignmentsRequest, context: Context
) -> AlterPartitionReassignmentsResponse:
    """Answer each partition once; of two assignments for the same one the last counts."""
    targets: dict[TopicPartition, tuple[int, ...] | None] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            target = None if partition.replicas is None else tuple(partition.replicas)
            targets[TopicPartition(topic.name, partition.partition_index)] = target
            await context.pause()
    refused: dict[TopicPartition, ApiError] = {}
    if not request.allow_replication_factor_change:
        refused = await _changes_of_size(targets, context)
    allowed = {where: target for where, target in targets.items() if where not in refused}
    outcomes = {**refused, **await context.node.topology.alter_reassignments(allowed)}
    topics: dict[str, ReassignableTopicResponse] = {}
    for (name, index), error in outcomes.items():
        answer = ReassignablePartitionResponse(partition_index=index, error_message=None)
        if error is not None:
            answer.error_code, answer.error_message = error.code, error.message or error.code.text
        topics.setdefault(name, ReassignableTopicResponse(name=name)).partitions.append(answer)
        await context.node.slices.pause()
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=list(topics.values()),
    )


async def _changes_of_size(
    targets: Mapping[TopicPartition, tuple[int, ...] | None], context: Context
) -> dict[TopicPartition, ApiError]:
    """Targets with another number of replicas than the partition has, or will have after a move under way."""
    ongoing = await context.node.topology.list_reassignments(tuple(targets))
    refused = {}
    for where, target in targets.items():
        partition = context.node.image.partition(*where)
        if target and partition is not None:
            size = len(ongoing[where].target if where in ongoing else partition.replicas)
            if size != len(target):
                refused[where] = ApiError(
                    ErrorCode.INVALID_REPLICATION_FACTOR,
                    f"The replication factor is changed from {size} to {len(target)}",
                )
        await context.pause()
    return refused


async def handle_list(
    request: ListPartitionReassignmentsRequest, context: Context
) -> ListPartitionReassignmentsResponse:
    """Those under way: of the partitions named, or of all."""
    asked = None
    if request.topics is not None:
        asked = tuple(
            TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes
        )
    found = await context.node.topology.list_reassignments(asked)
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
