"""AddPartitionsToTxn, AddOffsetsToTxn and EndTxn: the steps of a transaction from its first record to its end.

AddPartitionsToTxn: adds partitions to a transaction; from version 4 on to several, or only to verify them.

Clients send versions 0 to 3. Brokers send 4 and newer, to verify a transactional append (KIP-890).
AddOffsetsToTxn: adds the offsets partition of a group to a transaction.
EndTxn: commit or abort a transaction; the response waits for the decision's commit and, briefly, for the markers.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tidelog.broker.coordinators.replies import Eventual, Reply, settled
from tidelog.broker.handlers._parts import are_few
from tidelog.broker.handlers._transactions import code_of, error_for_version, partitions_by_topic, partitions_of
from tidelog.coordination import ProducerEpoch
from tidelog.metadata.image import INTERNAL_TOPICS, OFFSETS_TOPIC
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.transactions.transaction import EPOCH_BUMPS_FROM
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.partitions import PartitionKey

if TYPE_CHECKING:
    from tidelog.broker.coordinators.replies import Eventual
    from tidelog.broker.serving.context import Context


_SEVERAL_FROM: Final = 4
_END_BUMPS_FROM: Final = 5
_FENCED_SINCE: Final = 2
"""The version of each of these APIs whose clients know PRODUCER_FENCED."""

Codes = Mapping[PartitionKey, ErrorCode]
T = TypeVar("T")


def handle_add_partitions(
    request: AddPartitionsToTxnRequest, context: Context
) -> Eventual[AddPartitionsToTxnResponse] | Coroutine[Any, Any, Eventual[AddPartitionsToTxnResponse]]:
    """Ask the coordinator of each transactional id."""
    if context.api_version >= _SEVERAL_FROM:
        context.check_allowed(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
        return _handle_several(request, context)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    if not are_few([topic.partitions for topic in transaction.topics]):
        return _add_many(transaction, context)
    return _add(
        transaction, context, lambda codes: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topics(codes))
    )


async def _add_many(transaction: AddPartitionsToTxnTransaction, context: Context) -> AddPartitionsToTxnResponse:
    """More partitions than are answered in one step. They are still added all at once, or none."""
    found: Eventual[Codes] = _add(transaction, context, lambda codes: codes)
    codes = await settled(found)
    response = AddPartitionsToTxnResponse()
    for topic, partitions in partitions_by_topic(codes).items():
        result = AddPartitionsToTxnTopicResult(name=topic)
        response.results_by_topic_v3_and_below.append(result)
        for index, code in partitions:
            result.results_by_partition.append(
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
            )
            await context.node.slices.pause()
    return response


async def _handle_several(request: AddPartitionsToTxnRequest, context: Context) -> AddPartitionsToTxnResponse:
    results = []
    for transaction in request.transactions:
        ask = _verify if transaction.verify_only else _add
        results.append(ask(transaction, context, partial(_result, transaction)))
        await context.node.slices.pause()
    return AddPartitionsToTxnResponse(results_by_transaction=[await settled(result) for result in results])


def _add(transaction: AddPartitionsToTxnTransaction, context: Context, shape: Callable[[Codes], T]) -> Eventual[T]:
    name = transaction.transactional_id
    partitions = partitions_of(transaction.topics)
    refused = _denied(name, partitions, context) or _unknown(partitions, context)
    if refused:
        return shape({entry: refused.get(entry, ErrorCode.OPERATION_NOT_ATTEMPTED) for entry in partitions})
    producer = ProducerEpoch(transaction.producer_id, transaction.producer_epoch)
    protocol = EPOCH_BUMPS_FROM if context.api_version >= _SEVERAL_FROM else 0
    return context.node.transactions.call(
        "partitions",
        name,
        lambda shard, now_ms: shard.add_partitions(name, producer, partitions, now_ms, protocol),
        lambda outcome: shape(
            dict.fromkeys(partitions, error_for_version(code_of(outcome), context.api_version, _FENCED_SINCE))
        ),
    )


def _verify(transaction: AddPartitionsToTxnTransaction, context: Context, shape: Callable[[Codes], T]) -> Eventual[T]:
    reply = Reply(shape)
    partitions = partitions_of(transaction.topics)
    producer = ProducerEpoch(transaction.producer_id, transaction.producer_epoch)
    context.node.transactions.verify(transaction.transactional_id, producer, partitions, reply)
    return reply.result()


def _denied(transactional_id: str, partitions: list[PartitionKey], context: Context) -> Codes:
    """Partitions that the client may not add. Newer versions come from brokers, which asked the client's leave."""
    if context.api_version >= _SEVERAL_FROM:
        return {}
    if not context.is_allowed(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id):
        return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    # Markers in the coordinators' own logs are theirs alone to write; offsets have AddOffsetsToTxn.
    denied = context.denied_topics(AclOperation.WRITE, (name for name, _ in partitions)) | INTERNAL_TOPICS
    return {key: ErrorCode.TOPIC_AUTHORIZATION_FAILED for key in partitions if key[0] in denied}


def _unknown(partitions: list[PartitionKey], context: Context) -> Codes:
    """Partitions that do not exist. With one of them, none is added: half a transaction would be useless."""
    image = context.node.image
    unknown = {}
    for name, index in partitions:
        topic = image.topic(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            unknown[name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return unknown


def _result(transaction: AddPartitionsToTxnTransaction, codes: Codes) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=_topics(codes))


def _topics(codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                for index, code in partitions
            ],
        )
        for topic, partitions in partitions_by_topic(codes).items()
    ]


def handle_add_offsets(request: AddOffsetsToTxnRequest, context: Context) -> Eventual[AddOffsetsToTxnResponse]:
    """The group is not checked here, but by TxnOffsetCommit."""
    context.check_allowed(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
    context.check_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    node = context.node
    name = request.transactional_id
    producer = ProducerEpoch(request.producer_id, request.producer_epoch)
    partition = (OFFSETS_TOPIC, node.groups.partition_of(request.group_id))
    return node.transactions.call(
        "partitions",
        name,
        lambda shard, now_ms: shard.add_partitions(name, producer, (partition,), now_ms),
        lambda outcome: AddOffsetsToTxnResponse(
            error_code=error_for_version(code_of(outcome), context.api_version, _FENCED_SINCE)
        ),
    )


def handle_end(request: EndTxnRequest, context: Context) -> Eventual[EndTxnResponse]:
    """Until all markers are written, the next transaction gets CONCURRENT_TRANSACTIONS.

    Version 5 bumps the epoch; only clients of a cluster with `transaction.version` 2 send it.
    """
    name = request.transactional_id
    context.check_allowed(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, name)
    producer = ProducerEpoch(request.producer_id, request.producer_epoch)
    protocol = EPOCH_BUMPS_FROM if context.api_version >= _END_BUMPS_FROM else 0

    def shape(outcome: ProducerEpoch | ApiError) -> EndTxnResponse:
        if isinstance(outcome, ApiError):
            return EndTxnResponse(error_code=error_for_version(outcome.code, context.api_version, _FENCED_SINCE))
        return EndTxnResponse(producer_id=outcome.producer_id, producer_epoch=outcome.producer_epoch)

    return context.node.transactions.call(
        "end",
        name,
        lambda shard, now_ms: shard.end(name, producer, request.committed, now_ms, protocol),
        shape,
    )
