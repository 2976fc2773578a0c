"""Produce: stage each partition's records and answer when they are written (acks=1) or committed (acks=all).

The hot path of the broker. Positions of records come from the frame itself, the log patches and stages those very
bytes, and the reply is encoded once, after the write of the turn. One partition's refusal never disturbs the others.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from tidelog.broker.handlers._record_sets import check_one_batch, first_size
from tidelog.broker.handlers._refusals import REFUSALS, refusal_reply
from tidelog.broker.handlers._single_produce import handle_single
from tidelog.metadata.image import INTERNAL_TOPICS
from tidelog.replication.partition import Partition
from tidelog.replication.produce import Appended, PendingProduce
from tidelog.storage.types import AppendOrigin
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.produce import FLEXIBLE_FROM, PartitionReply, ProduceSpans, decode_request, encode_response

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.network.connection import Slot
    from tidelog.storage.verification import VerificationGuard

_CLIENT: Final = AppendOrigin.CLIENT
_ZSTD_FROM: Final = 7
_CODEC_MASK: Final = 0x07
_ZSTD: Final = 4
_ATTRIBUTES_LOW_BYTE: Final = 22
_ONE_BATCH_FROM: Final = 3
_MAGIC_2: Final = 2
_LENGTH_POSITION: Final = 8
_LENGTH_PREFIX_BYTES: Final = 12
"""Offset and length, which the length does not count."""
_HEAD_BYTES: Final = 23
"""From the offset to the attributes."""
_TRANSACTIONAL: Final = 0x10
_unpack_head: Final = Struct(">i4xb4xh").unpack_from
"""Length, magic and attributes."""


def handle_bytes(
    node: Node, slot: Slot, data: bytearray, position: int, stop: int, version: int, correlation_id: int
) -> None:
    """One request, from its bytes to a reply that waits for the end of the turn."""
    if version >= FLEXIBLE_FROM and handle_single(node, slot, data, position, stop, version, correlation_id):
        return
    spans = decode_request(data, position, stop, version)
    acks = spans.acks
    if spans.transactional_id is not None:
        _handle_transactional(node, slot, data, spans, version, correlation_id)
        return
    if acks == 0:
        _append_without_answer(node, slot, data, spans, version)
        return
    now_ms = node.clock.wall_ms()
    view = memoryview(data)
    appended = [
        _append(node, topic, index, view, start, end, acks, version, now_ms)
        for topic, partitions in spans.topics
        for index, start, end in partitions
    ]

    def respond(results: list[Appended]) -> None:
        _fill(slot, results, version, correlation_id)

    node.replica_manager.answer_when_written(PendingProduce(appended, acks, spans.timeout_ms, slot, respond))
    node.socket_server.wake()


def _fill(slot: Slot, results: list[Appended], version: int, correlation_id: int) -> None:
    topics: dict[str, list[PartitionReply]] = {}
    for result in results:
        topics.setdefault(result.topic, []).append(result.reply)
    slot.fill(encode_response(correlation_id, version, list(topics.items()), 0))


def _handle_transactional(
    node: Node, slot: Slot, data: bytearray, spans: ProduceSpans, version: int, correlation_id: int
) -> None:
    """The same for a producer with a transactional id: its coordinator is asked first where that is due."""
    from tidelog.broker.transaction_verification import NOT_VERIFIED, Verification, verify_produce

    view = memoryview(data)

    def append(verified: Verification) -> None:
        now_ms = node.clock.wall_ms()
        appended = []
        for topic, partitions in spans.topics:
            for index, start, end in partitions:
                refusal, guard = verified.get((topic, index), NOT_VERIFIED)
                if refusal is not None:
                    reply = PartitionReply(index, refusal.code, error_message=refusal.message)
                    appended.append(Appended(topic, None, reply, -1))
                    continue
                appended.append(
                    _append(node, topic, index, view, start, end, spans.acks, version, now_ms, guard, _TRANSACTIONAL)
                )
        if spans.acks == 0:
            _answer_nothing(slot, appended)
        else:
            node.replica_manager.answer_when_written(
                PendingProduce(
                    appended,
                    spans.acks,
                    spans.timeout_ms,
                    slot,
                    lambda results: _fill(slot, results, version, correlation_id),
                )
            )
        node.socket_server.wake()

    verify_produce(node, spans, view, version, append)


def _append(
    node: Node,
    topic: str,
    index: int,
    view: memoryview,
    start: int,
    end: int,
    acks: int,
    version: int,
    now_ms: int,
    guard: VerificationGuard | None = None,
    allowed: int = 0,
) -> Appended:
    """Stage one partition's records. `allowed` is the transactional bit if the producer has a transactional id.

    Before version 3 there may be no whole message among them: nothing is written then, and that is no error.
    """
    replica_manager = node.replica_manager
    try:
        partition = replica_manager.find(topic, index)
        if partition is None or start < 0 or topic in INTERNAL_TOPICS or not -1 <= acks <= 1:
            partition = _checked(node, topic, index, start, acks)
        if version >= _ONE_BATCH_FROM:
            _check_one_batch(view, start, end, version, allowed)
        elif first_size(view[start:end]) is None:
            return Appended(topic, partition, PartitionReply(index, 0), -1)
        if version < _ZSTD_FROM:
            _check_codec(view, start, end, version)
    except REFUSALS as error:
        return Appended(topic, None, refusal_reply(error, index, replica_manager), -1)
    try:
        info = partition.append(view[start:end], acks, now_ms, _CLIENT, guard)
    except REFUSALS as error:
        return Appended(topic, None, refusal_reply(error, index, replica_manager, partition), -1)
    if not partition.is_dirty:
        replica_manager.staged(partition)
    # first offset, log append time, log start offset
    reply = PartitionReply(index, 0, info[0], info[3], info[4])
    return Appended(topic, partition, reply, info[1] + 1)


def _checked(node: Node, topic: str, index: int, start: int, acks: int) -> Partition:
    """The rare refusals that need no log, in Kafka's order."""
    partition = node.replica_manager.partition(topic, index)
    if start < 0:
        raise ApiError(ErrorCode.INVALID_RECORD, f"the request holds no record batch for {topic}-{index}")
    if not -1 <= acks <= 1:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}; it may be 0, 1 or -1 (all)")
    if topic in INTERNAL_TOPICS:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"clients may not write to the internal topic {topic}")
    return partition


def _check_one_batch(view: memoryview, start: int, end: int, version: int, allowed: int) -> None:
    """From version 3 on a partition's records are exactly one batch of magic 2."""
    if end - start >= _HEAD_BYTES:
        length, magic, attributes = _unpack_head(view, start + _LENGTH_POSITION)
        if magic != _MAGIC_2 or length != end - start - _LENGTH_PREFIX_BYTES:
            check_one_batch(view[start:end], version)
        if attributes & _TRANSACTIONAL & ~allowed:
            raise _no_transactional_id()
    else:
        check_one_batch(view[start:end], version)


def _no_transactional_id() -> ApiError:
    """Kafka's way to say that whoever writes to a transaction must name its transactional id."""
    return ApiError(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "a batch of a transaction came in a request without a transactional id",
    )


def _check_codec(view: memoryview, start: int, end: int, version: int) -> None:
    """Zstandard came with version 7: a client that speaks less could not read its own records back (KIP-110)."""
    if end - start <= _ATTRIBUTES_LOW_BYTE:
        return
    if view[start + 16] != _MAGIC_2:
        return
    attributes = view[start + _ATTRIBUTES_LOW_BYTE]
    if version < _ONE_BATCH_FROM and attributes & _TRANSACTIONAL:
        raise _no_transactional_id()
    if attributes & _CODEC_MASK == _ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce version 7 or newer, this is version {version}"
        )


def _append_without_answer(node: Node, slot: Slot, data: bytearray, spans: ProduceSpans, version: int) -> None:
    """acks=0: what is right is appended all the same, as the producer has no way to send it again."""
    now_ms = node.clock.wall_ms()
    view = memoryview(data)
    appended = [
        _append(node, topic, index, view, start, end, 0, version, now_ms)
        for topic, partitions in spans.topics
        for index, start, end in partitions
    ]
    _answer_nothing(slot, appended)
    node.socket_server.wake()


def _answer_nothing(slot: Slot, appended: list[Appended]) -> None:
    """acks=0: no answer, not even an error; on an error the connection is closed, as the only sign there is."""
    if any(entry.partition is None for entry in appended):
        slot.connection.close()
    else:
        slot.fill(b"")
