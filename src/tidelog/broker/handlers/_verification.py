"""Before a batch of a transaction is appended: is its partition part of that transaction (KIP-890)?

A producer that was delayed could otherwise write into a partition after its transaction has ended, or into one that the
coordinator does not know; that transaction would never end, and read-committed consumers would wait for ever. Called
by the handlers of Produce and TxnOffsetCommit; off with `transaction.partition.verification.enable`.

In version 2 of the transaction protocol the clients do not add partitions themselves: the coordinator is asked to add
what it does not have, whatever that setting says. While it still ends the transaction before, it is asked again for
`add.partitions.to.txn.retry.backoff.max.ms`, so that a producer need not be told to come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.coordination import ProducerEpoch
from tidelog.records.header import (
    HEADER_BYTES,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_BIT,
    unpack_attributes_and_producer,
)
from tidelog.storage.producers.verification import OPEN, VerificationGuard
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.partitions import PartitionKey
from tidelog.wire.produce import TOPIC_IDS_FROM

if TYPE_CHECKING:
    from tidelog.broker.serving.node import Node
    from tidelog.wire.produce import ProduceSpans


class ClientSupport(IntEnum):
    """What the client of a request knows of transactions, by the version of the request."""

    PLAIN = 0
    ABORTABLE = 1
    """An error may end only the transaction."""
    ADDING = 2
    """Protocol version 2: partitions are added by writing to them."""

    @classmethod
    def of(cls, version: int, abortable_from: int, adding_from: int) -> ClientSupport:
        if version >= adding_from:
            return cls.ADDING
        return cls.ABORTABLE if version >= abortable_from else cls.PLAIN


_ABORTABLE_FROM: Final = 11
_ADDING_FROM: Final = 12
_TRANSLATED: Final = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
}
"""The coordinator's errors, as a partition's errors in a Produce response; producers retry the last four.

Those of protocol version 2 know CONCURRENT_TRANSACTIONS, too."""


class Verified(NamedTuple):
    """A partition may be appended to, with this guard, or it may not."""

    refusal: ApiError | None = None
    guard: VerificationGuard | None = None


NOT_VERIFIED: Final = Verified()
"""For batches outside of transactions, and where verification is off."""

Verification = Mapping["PartitionKey", Verified]
_OnAnswer = Callable[[Mapping[PartitionKey, ErrorCode]], None]


def has_transactional_batches(spans: ProduceSpans, data: bytearray | memoryview) -> bool:
    return any(
        end - start >= HEADER_BYTES
        and data[start + MAGIC_POSITION] == MAGIC
        and unpack_attributes_and_producer(data, start)[0] & TRANSACTIONAL_BIT
        for _, _, start, end in spans.partitions
    )


def verify_produce(
    node: Node, spans: ProduceSpans, data: bytearray | memoryview, version: int, then: Callable[[Verification], None]
) -> None:
    """Verify the transactional batches of a request.

    `then` is called at once if the coordinator is on this broker or need not be asked, else later.
    """
    producers: set[ProducerEpoch] = set()
    sequences: dict[PartitionKey, int] = {}
    for key, index, start, end in spans.partitions:
        if end - start < HEADER_BYTES or data[start + MAGIC_POSITION] != MAGIC:
            continue
        attributes, producer_id, epoch, sequence = unpack_attributes_and_producer(data, start)
        topic = key.decode() if version < TOPIC_IDS_FROM else node.image.topic_name(key)
        if attributes & TRANSACTIONAL_BIT and topic is not None:
            producers.add(ProducerEpoch(producer_id, epoch))
            sequences[topic, index] = sequence
    if len(producers) > 1:
        error = ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "one request holds batches of more than one producer")
        then(dict.fromkeys(sequences, Verified(error)))
    elif not producers:
        then({})
    else:
        assert spans.transactional_id is not None, "only such requests are verified"
        support = ClientSupport.of(version, _ABORTABLE_FROM, _ADDING_FROM)
        verify(node, spans.transactional_id, producers.pop(), sequences, support, then)


def verify(
    node: Node,
    transactional_id: str,
    producer: ProducerEpoch,
    sequences: Mapping[PartitionKey, int],
    support: ClientSupport,
    then: Callable[[Verification], None],
) -> None:
    """Ask the coordinator about partitions in which the transaction is not open yet; `then` gets the answer."""
    adds = support is ClientSupport.ADDING
    if not adds and not node.config.transaction_partition_verification_enable:
        then({})
        return
    found: dict[PartitionKey, Verified] = {}
    asked: list[PartitionKey] = []
    now_ms = node.clock.wall_ms()
    for key, sequence in sequences.items():
        partition = node.replica_manager.find(*key)
        if partition is None or not partition.is_leader:
            continue  # the append says why not
        guard = partition.log.producer_state.begin_verification(*producer, sequence, now_ms, begins_at_zero=adds)
        found[key] = Verified(None, guard)
        if guard is not OPEN:
            asked.append(key)
    if not asked:
        then(found)
        return

    def on_answer(codes: Mapping[PartitionKey, ErrorCode]) -> None:
        for key, code in codes.items():
            if code is not ErrorCode.NONE:
                _withdraw(node, key, producer)
                found[key] = Verified(_refusal(code, support))
        then(found)

    if adds:
        _ask_until_complete(node, partial(_ask, node, transactional_id, producer, asked, adds), on_answer)
    else:
        _ask(node, transactional_id, producer, asked, adds, on_answer)


def _ask(
    node: Node,
    transactional_id: str,
    producer: ProducerEpoch,
    asked: Sequence[PartitionKey],
    adds: bool,
    on_answer: _OnAnswer,
) -> None:
    coordinator_id = _coordinator_elsewhere(node, transactional_id)
    if coordinator_id is None:
        node.transactions.verify(transactional_id, producer, asked, on_answer, adds=adds)
    else:
        node.topology.verify(coordinator_id, transactional_id, producer, asked, on_answer, adds=adds)


def _ask_until_complete(node: Node, ask: Callable[[_OnAnswer], None], on_answer: _OnAnswer) -> None:
    """Ask again while the transaction before is completing, for a while."""
    loop = asyncio.get_running_loop()
    backoff_s = node.config.add_partitions_to_txn_retry_backoff_ms / 1000
    limit_ms = min(node.config.add_partitions_to_txn_retry_backoff_max_ms, node.config.request_timeout_ms)
    ends_at = loop.time() + limit_ms / 1000

    def again() -> None:
        ask(on_codes)
        node.socket_server.wake()

    def on_codes(codes: Mapping[PartitionKey, ErrorCode]) -> None:
        if ErrorCode.CONCURRENT_TRANSACTIONS in codes.values() and loop.time() < ends_at:
            loop.call_later(backoff_s, again)
        else:
            on_answer(codes)

    ask(on_codes)


def _coordinator_elsewhere(node: Node, transactional_id: str) -> int | None:
    """The broker that coordinates a transactional id, if it is another one."""
    try:
        broker_id = node.transactions.edge.find(transactional_id)
    except ApiError:
        return None  # the coordinator of this broker says why
    return None if broker_id == node.broker_id else broker_id


def _withdraw(node: Node, key: PartitionKey, producer: ProducerEpoch) -> None:
    """Nothing may be appended with a guard that the coordinator did not agree to."""
    partition = node.replica_manager.find(*key)
    if partition is not None:
        partition.log.producer_state.verifications.end(producer.producer_id)


def _refusal(code: ErrorCode, support: ClientSupport) -> ApiError:
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and support is ClientSupport.ADDING:
        return ApiError(code)
    if code is ErrorCode.TRANSACTION_ABORTABLE and support is ClientSupport.PLAIN:
        return ApiError(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
    translated = _TRANSLATED.get(code)
    if translated is ErrorCode.NOT_ENOUGH_REPLICAS:
        text = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return ApiError(translated, text)
    return ApiError(translated or code)
