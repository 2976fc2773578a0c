"""Produce of one batch of a transaction to one partition: what nearly every transactional request is.

Called by `produce` for producers with a transactional id. The transaction is open in the partition already, or its
coordinator, here on this broker, says at once that the partition is part of it. What is unusual about a request, or
must be refused, is left to the long way; nothing has happened by then that it would not do again.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from tidelog.broker.handlers._refusals import REFUSALS
from tidelog.broker.transaction_verification import verify_first
from tidelog.coordination import ProducerEpoch
from tidelog.metadata.image import INTERNAL_TOPICS
from tidelog.records.batch import HEADER_BYTES
from tidelog.replication.produce import SingleProduce
from tidelog.storage.types import AppendOrigin
from tidelog.storage.verification import OPEN, VerificationGuard

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.network.connection import Slot
    from tidelog.wire.produce import ProduceSpans

_LENGTH_POSITION: Final = 8
_LENGTH_PREFIX_BYTES: Final = 12
_MAGIC_2: Final = 2
_CONTROL_AND_TRANSACTIONAL: Final = 0x30
_TRANSACTIONAL: Final = 0x10
_unpack_head: Final = Struct(">i4xb4xh20xqhi").unpack_from
"""Length, magic, attributes, producer id, epoch and sequence."""


def append_single(
    node: Node, slot: Slot, data: bytearray, spans: ProduceSpans, version: int, correlation_id: int
) -> bool:
    """Stage the batch of a flexible request; False when the request is not of this kind."""
    if len(spans.topics) != 1 or len(spans.topics[0][1]) != 1 or spans.acks not in (-1, 1):
        return False
    topic, ((index, start, end),) = spans.topics[0]
    partition = node.replica_manager.find(topic, index)
    if partition is None or partition.single_reply is None or end - start < HEADER_BYTES or topic in INTERNAL_TOPICS:
        return False
    length, magic, attributes, producer_id, epoch, sequence = _unpack_head(data, start + _LENGTH_POSITION)
    if (
        magic != _MAGIC_2
        or length != end - start - _LENGTH_PREFIX_BYTES
        or attributes & _CONTROL_AND_TRANSACTIONAL != _TRANSACTIONAL
    ):
        return False
    guard: VerificationGuard | None = OPEN
    if not partition.log.producer_state.has_open_transaction(producer_id, epoch):
        assert spans.transactional_id is not None, "only such requests come here"
        guard = verify_first(node, spans.transactional_id, partition, ProducerEpoch(producer_id, epoch), sequence)
        if guard is None:
            return False
    try:
        info = partition.append(
            memoryview(data)[start:end], spans.acks, node.clock.wall_ms(), AppendOrigin.CLIENT, guard
        )
    except REFUSALS:
        return False
    replica_manager = node.replica_manager
    if not partition.is_dirty:
        replica_manager.staged(partition)
    replica_manager.answer_when_written(
        SingleProduce(partition, info, spans.acks, spans.timeout_ms, correlation_id, version, slot.fill)
    )
    node.socket_server.wake()
    return True
