"""Produce of one batch to one partition that this broker leads: what nearly every request is, without a detour.

Called by `produce` first. A batch of a transaction is of this kind if the transaction is open in the partition already,
or if its coordinator, here on this broker, says at once that the partition is part of it. Whatever is unusual about a
request is left to the long way; nothing has happened by then that it would not do again.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from tidelog.broker.handlers._refusals import REFUSALS, refusal_reply
from tidelog.metadata.image import INTERNAL_TOPICS
from tidelog.replication.produce import SingleProduce
from tidelog.storage.types import AppendOrigin
from tidelog.storage.verification import OPEN, VerificationGuard
from tidelog.wire.produce import decode_single, encode_response

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.network.connection import Slot
    from tidelog.replication.partition import Partition

_BATCH_HEADER_BYTES: Final = 61
_LENGTH_POSITION: Final = 8
_LENGTH_PREFIX_BYTES: Final = 12
_MAGIC_2: Final = 2
_TRANSACTIONAL: Final = 0x10
_TRANSACTIONAL_OR_CONTROL: Final = 0x30
_CLIENT: Final = AppendOrigin.CLIENT
_unpack_head: Final = Struct(">i4xb4xh").unpack_from
"""Length, magic and attributes."""
_PRODUCER_POSITION: Final = 43
_unpack_producer: Final = Struct(">qhi").unpack_from
"""Producer id, epoch and sequence."""

_INTERNAL_TOPICS: Final = frozenset(name.encode() for name in INTERNAL_TOPICS)


def handle_single(
    node: Node, slot: Slot, data: bytearray, position: int, stop: int, version: int, correlation_id: int
) -> bool:
    """Stage the batch of a flexible request; False when the request is not of this kind."""
    single = decode_single(data, position, stop)
    if single is None:
        return False
    transactional_id, acks, timeout_ms, topic, index, start, end = single
    replica_manager = node.replica_manager
    partition = replica_manager.find_on_wire(topic, index)
    if partition is None or partition.single_reply is None or end - start < _BATCH_HEADER_BYTES:
        return False
    length, magic, attributes = _unpack_head(data, start + _LENGTH_POSITION)
    if (
        magic != _MAGIC_2
        or length != end - start - _LENGTH_PREFIX_BYTES
        or attributes & _TRANSACTIONAL_OR_CONTROL != (_TRANSACTIONAL if transactional_id else 0)
        or not partition.is_leader
        or topic in _INTERNAL_TOPICS
        or not (acks == 1 or (acks == -1 and len(partition.isr) >= partition.log.config.min_insync_replicas))
    ):
        return False
    guard: VerificationGuard | None = None
    if transactional_id:
        guard = _guard(node, transactional_id, partition, data, start)
        if guard is None:
            return False
    try:
        info = partition.log.append_as_leader(
            memoryview(data)[start:end], partition.leader_epoch, node.clock.wall_ms(), _CLIENT, guard
        )
    except REFUSALS as error:
        if transactional_id:
            return False
        reply = refusal_reply(error, index, replica_manager, partition)
        slot.fill(encode_response(correlation_id, version, [(partition.topic, [reply])], 0))
        return True
    if not partition.is_dirty:
        replica_manager.staged(partition)
    replica_manager.answer_when_written(SingleProduce(partition, info, acks, timeout_ms, correlation_id, version, slot))
    node.socket_server.wake()
    return True


def _guard(
    node: Node, transactional_id: bytes, partition: Partition, data: bytearray, start: int
) -> VerificationGuard | None:
    """What a batch of a transaction is appended with; None if it may not be, or that cannot be said at once."""
    producer_id, epoch, sequence = _unpack_producer(data, start + _PRODUCER_POSITION)
    if partition.log.producer_state.has_open_transaction(producer_id, epoch):
        return OPEN
    from tidelog.broker.transaction_verification import verify_first

    return verify_first(node, transactional_id.decode(), partition, producer_id, epoch, sequence)
