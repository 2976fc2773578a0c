"""The requests of the share coordinator, which other brokers send: Initialize-, Read-, Write-, DeleteShareGroupState
and ReadShareGroupStateSummary (KIP-932).

A partition named twice is carried out twice, in order. Each is answered for itself once it is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog.broker.coordinators.replies import Eventual, gather
from tidelog.coordination import Decision
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.sharing.runs import StateBatch
from tidelog.sharing.schemas import ShareKey
from tidelog.sharing.state import ShareState, ShareStateShard, Summary
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages import delete_share_group_state as deleting
from tidelog.wire.messages import initialize_share_group_state as initializing
from tidelog.wire.messages import read_share_group_state as reading
from tidelog.wire.messages import read_share_group_state_summary as summing
from tidelog.wire.messages import write_share_group_state as writing

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context

ResponseT = TypeVar("ResponseT")
Operation = Callable[[ShareStateShard, ShareKey, Any, int], Decision[Any]]
"""Takes the shard, the share partition, what the request says about it, and the time."""
Shape = Callable[[int, Any], Any]
"""Makes the result of a partition of its index and the outcome."""


async def handle_initialize(
    request: initializing.InitializeShareGroupStateRequest, context: Context
) -> Eventual[initializing.InitializeShareGroupStateResponse]:
    """Begin states in a new epoch."""
    return await _each(
        request,
        context,
        lambda shard, key, entry, now_ms: shard.initialize(key, entry.state_epoch, entry.start_offset, now_ms),
        _with_error(initializing.PartitionResult),
        initializing.InitializeStateResult,
        initializing.InitializeShareGroupStateResponse,
    )


async def handle_read(
    request: reading.ReadShareGroupStateRequest, context: Context
) -> Eventual[reading.ReadShareGroupStateResponse]:
    """The states, for the leaders of their partitions."""

    def shape(index: int, outcome: ShareState | ApiError) -> reading.PartitionResult:
        if isinstance(outcome, ApiError):
            return _with_error(reading.PartitionResult)(index, outcome)  # type: ignore[no-any-return]
        return reading.PartitionResult(
            partition=index,
            state_epoch=outcome.state_epoch,
            start_offset=outcome.start_offset,
            state_batches=[reading.StateBatch(**batch.fields()) for batch in outcome.batches],
        )

    return await _each(
        request,
        context,
        lambda shard, key, entry, now_ms: shard.read(key, entry.leader_epoch, now_ms),
        shape,
        reading.ReadStateResult,
        reading.ReadShareGroupStateResponse,
    )


async def handle_write(
    request: writing.WriteShareGroupStateRequest, context: Context
) -> Eventual[writing.WriteShareGroupStateResponse]:
    """Store what has changed."""

    def operation(shard: ShareStateShard, key: ShareKey, entry: writing.PartitionData, now_ms: int) -> Decision[Any]:
        batches = [StateBatch.of(batch) for batch in entry.state_batches]
        return shard.write(
            key,
            entry.state_epoch,
            entry.leader_epoch,
            entry.start_offset,
            entry.delivery_complete_count,
            batches,
            now_ms,
        )

    return await _each(
        request,
        context,
        operation,
        _with_error(writing.PartitionResult),
        writing.WriteStateResult,
        writing.WriteShareGroupStateResponse,
    )


async def handle_delete(
    request: deleting.DeleteShareGroupStateRequest, context: Context
) -> Eventual[deleting.DeleteShareGroupStateResponse]:
    """Forget states."""
    return await _each(
        request,
        context,
        lambda shard, key, _entry, now_ms: shard.delete(key, now_ms),
        _with_error(deleting.PartitionResult),
        deleting.DeleteStateResult,
        deleting.DeleteShareGroupStateResponse,
    )


async def handle_summary(
    request: summing.ReadShareGroupStateSummaryRequest, context: Context
) -> Eventual[summing.ReadShareGroupStateSummaryResponse]:
    """The states without their batches."""

    def shape(index: int, outcome: Summary | ApiError) -> summing.PartitionResult:
        if isinstance(outcome, ApiError):
            return _with_error(summing.PartitionResult)(index, outcome)  # type: ignore[no-any-return]
        result = summing.PartitionResult(
            partition=index,
            state_epoch=outcome.state_epoch,
            leader_epoch=outcome.leader_epoch,
            start_offset=outcome.start_offset,
        )
        if context.api_version >= 1:
            result.delivery_complete_count = outcome.done_count
        return result

    return await _each(
        request,
        context,
        lambda shard, key, _entry, _now_ms: Decision(shard.summary(key)),
        shape,
        summing.ReadStateSummaryResult,
        summing.ReadShareGroupStateSummaryResponse,
    )


def _with_error(result_class: Any) -> Shape:
    def shape(index: int, outcome: ErrorCode | ApiError) -> Any:
        if isinstance(outcome, ApiError):
            return result_class(partition=index, error_code=outcome.code, error_message=outcome.message)
        return result_class(partition=index)

    return shape


async def _each(
    request: Any,
    context: Context,
    operation: Operation,
    shape: Shape,
    topic_class: Any,
    response_class: Callable[..., ResponseT],
) -> Eventual[ResponseT]:
    """Carry out an operation for every partition of a request; the response has them by topic, in its order."""
    refusal = _refusal(context)
    results: list[tuple[bytes, Eventual[Any]]] = []
    for topic in request.topics:
        for entry in topic.partitions:
            key = ShareKey(request.group_id, topic.topic_id, entry.partition)
            result = _one(key, entry, context, operation, shape) if refusal is None else shape(key.partition, refusal)
            results.append((topic.topic_id, result))
            await context.node.slices.pause()

    def together(found: list[Any]) -> ResponseT:
        topics: dict[bytes, Any] = {}
        for (topic_id, _), result in zip(results, found, strict=True):
            topics.setdefault(topic_id, topic_class(topic_id=topic_id)).partitions.append(result)
        return response_class(results=list(topics.values()))

    return gather([result for _, result in results], together)


def _refusal(context: Context) -> ApiError | None:
    """Why nothing of a request is carried out: the responses have errors for partitions only."""
    try:
        context.node.shares.check_served()
        context.check_allowed(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
    except ApiError as error:
        return error
    return None


def _one(key: ShareKey, entry: Any, context: Context, operation: Operation, shape: Shape) -> Eventual[Any]:
    try:
        return context.node.shares.edge.call(
            key.coordinator_key,
            lambda shard, _respond, now_ms: operation(shard, key, entry, now_ms),
            lambda outcome: shape(key.partition, outcome),
        )
    except ApiError as error:
        return shape(key.partition, error)
