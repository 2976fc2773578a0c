"""Produce: stage each partition's records and answer when they are written (acks=1) or committed (acks=all).

The hot path of the broker. Positions of records come from the frame itself, the log patches and stages those very
bytes, and the reply is encoded once, after the write of the turn. A rejected partition does not affect the others.

Every request takes the same steps in the same order, in whatever version and with however many partitions it comes;
`wire.produce` reads and writes those for one partition faster. Records that take long to check or to convert are
prepared on a worker thread, and a request for many partitions leaves the loop to others in between; the connection's
next request waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.handlers._record_sets import has_records
from tidelog.broker.handlers._refusals import REFUSALS, Refusal, refusal_reply
from tidelog.broker.runtime.slices import SLICE_SECONDS
from tidelog.metadata.image import INTERNAL_TOPICS
from tidelog.records.validation import PreparedRecords, TooMuchWorkError
from tidelog.replication.produce import Errors, PendingProduce, StagedBatch
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.storage.types import AppendOrigin, LogAppendInfo
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.primitives import NO_UUID
from tidelog.wire.produce import (
    TOPIC_IDS_FROM,
    PartitionReply,
    ProduceSpans,
    decode_request,
    encode_response,
    encode_single,
)

if TYPE_CHECKING:
    from tidelog.broker.handlers._verification import Verification
    from tidelog.broker.serving.node import Node
    from tidelog.network.connection import Slot
    from tidelog.replication.partition import Partition
    from tidelog.storage.producers.verification import VerificationGuard

_CLIENT: Final = AppendOrigin.CLIENT
_NOT_VERIFIED: Final = (None, None)
"""No refusal and no guard: a batch outside of transactions, or verification is off."""
_INTERNAL_TOPICS: Final = frozenset(name.encode() for name in INTERNAL_TOPICS)


Outcome = tuple[bytes, int, LogAppendInfo | PartitionReply]
"""Topic key, partition index, and what was staged there or the reply that is certain already."""
Prepared = PreparedRecords | Refusal
"""The records that a worker thread prepared, or its error."""
_Progress = tuple[list[Outcome], list[StagedBatch], Prepared | None]
"""Outcomes so far, what is staged, and the records of the next partition if they were prepared."""

_ANSWERED_AT_ONCE: Final = 500
"""Partitions whose replies are made in a millisecond."""


def handle_bytes(
    node: Node, slot: Slot, data: bytearray | memoryview, position: int, stop: int, version: int, correlation_id: int
) -> None:
    """One request, from its bytes to a reply that waits for the end of the turn."""
    spans = decode_request(data, position, stop, version)
    if spans[0] is None:
        _append_all(node, slot, data, spans, version, correlation_id, None)
        return
    from tidelog.broker.handlers._verification import has_transactional_batches, verify_produce

    access = node.access
    if (
        access is not None
        and has_transactional_batches(spans, data)
        and not access.allows(slot.connection.session, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, spans[0])
    ):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        _refuse_all(node, slot, spans, version, correlation_id, code)
        return
    # A producer with a transactional id: its coordinator is asked first, where that is due.
    append = partial(_append_all, node, slot, data, spans, version, correlation_id)
    verifying = _Verifying(slot, append)
    verify_produce(node, spans, data, version, verifying.on_verified)
    verifying.wait()


def _refuse_all(
    node: Node, slot: Slot, spans: ProduceSpans, version: int, correlation_id: int, code: ErrorCode
) -> None:
    """The same error for every partition, without a look at its records."""
    outcomes: list[Outcome] = [(topic, index, PartitionReply(index, code)) for topic, index, _, _ in spans.partitions]
    if spans.acks == 0:
        _answer_nothing(slot, outcomes)
    else:
        _answer(node, slot, version, correlation_id, outcomes, ())


class _Verifying:
    """A produce whose coordinator is asked. If that is another broker, the connection's next request waits."""

    __slots__ = ("_append", "_is_verified", "_is_waiting", "_slot")

    def __init__(self, slot: Slot, append: Callable[..., None]) -> None:
        self._slot = slot
        self._append = append
        self._is_waiting = self._is_verified = False

    def on_verified(self, verification: Verification) -> None:
        self._is_verified = True
        if not self._is_waiting:
            self._append(verification)
            return
        try:
            self._append(verification, ([], [], None))  # which lets the connection's next request begin
        except Exception as cause:  # noqa: BLE001 - it belongs to the request, and no caller knows that
            # No caller handles this error: it belongs to the request.
            self._slot.fail("Produce", cause)

    def wait(self) -> None:
        """The coordinator was asked."""
        if not self._is_verified:
            self._is_waiting = True
            self._slot.connection.mute()
            self._slot.park()


def _append_all(  # noqa: C901 - one sequence of decisions on the hot path, where each call costs
    node: Node,
    slot: Slot,
    data: bytearray | memoryview,
    spans: ProduceSpans,
    version: int,
    correlation_id: int,
    verified: Verification | None,
    progress: _Progress | None = None,
) -> None:
    """Stage every partition's records. `verified` is there when the producer has a transactional id.

    `progress` is there when the request goes on: the loop was left to others, or records were prepared on a thread.
    """
    _, acks, timeout_ms, partitions = spans
    access = node.access
    replica_manager = node.replica_manager
    traffic = replica_manager.traffic
    topic_by_id = node.image.topic_by_id if version >= TOPIC_IDS_FROM else None
    now_ms = node.clock.wall_ms()
    view = memoryview(data)
    if progress is None:
        outcomes: list[Outcome] = []
        staged: list[StagedBatch] = []
        prepared: Prepared | None = None
    else:
        outcomes, staged, prepared = progress
        partitions = partitions[len(outcomes) :]
    ends_at = node.slices.seconds() + SLICE_SECONDS if len(partitions) > 1 else None
    for key, index, start, end in partitions:
        if ends_at is not None and node.slices.seconds() > ends_at:
            go_on = partial(_append_all, node, slot, data, spans, version, correlation_id, verified)
            _go_on_after(node.slices.pause(), node, slot, go_on, outcomes, staged)
            return
        topic = key
        guard = asked = None
        try:
            if topic_by_id is not None:
                named = topic_by_id(key)
                if named is None:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
                topic = named.wire_name
            partition = replica_manager.find_on_wire(topic, index)
            if access is not None and not access.allows(
                slot.connection.session, AclOperation.WRITE, AclResourceType.TOPIC, topic.decode()
            ):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if verified:
                guard = _guard(verified, topic, index)
            if partition is None or start < 0 or topic in _INTERNAL_TOPICS or not -1 <= acks <= 1:
                partition = _checked(node, topic.decode(), index, start, acks)
            if topic_by_id is not None and partition.topic_id != key and partition.topic_id != NO_UUID:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)  # the log is of another topic, of the same name
            if not has_records(view, start, end, version, verified is not None):
                outcomes.append((key, index, PartitionReply(index, 0)))
                if traffic is not None:
                    traffic.count_unappended(topic, 0, 0)
                continue
            asked = partition
            if prepared is None:
                info = partition.append(view[start:end], acks, now_ms, _CLIENT, guard)
            else:
                result, prepared = prepared, None
                info = partition.append_prepared(result, acks, now_ms, guard)
        except REFUSALS as error:
            refused = refusal_reply(error, index, replica_manager, asked)
            outcomes.append((key, index, refused))
            if traffic is not None:
                traffic.count_unappended(topic, refused[1], end - start)
            prepared = None
            continue
        except TooMuchWorkError:
            assert asked is not None, "its log raised that"
            go_on = partial(_append_all, node, slot, data, spans, version, correlation_id, verified)
            _go_on_after(_prepare(node, asked, view[start:end]), node, slot, go_on, outcomes, staged)
            return
        if not partition.is_dirty:
            replica_manager.staged(partition)
        outcomes.append((key, index, info))
        staged.append((partition, info[1] + 1))
        if traffic is not None:
            appended = partition.appended
            if appended is None:
                traffic.count_append(partition, info)
            else:
                # In place: a call would cost as much again.
                appended[0] += 1
                appended[1] += info[5]
                appended[2] += info[6]
    if acks == 0:
        _answer_nothing(slot, outcomes)
    else:
        respond = partial(_answer, node, slot, version, correlation_id, outcomes)
        node.replica_manager.answer_when_written(PendingProduce(staged, acks, timeout_ms, respond, slot))
    if progress is not None:
        slot.connection.unmute()
    node.socket_server.wake()


def _go_on_after(
    work: Coroutine[Any, Any, Prepared | None],
    node: Node,
    slot: Slot,
    go_on: Callable[[_Progress], None],
    outcomes: list[Outcome],
    staged: list[StagedBatch],
) -> None:
    """Go on when `work` is done. The connection's next request waits until this one has taken effect."""

    def then(result: Prepared | None) -> None:
        try:
            go_on((outcomes, staged, result))
        except Exception as cause:  # noqa: BLE001 - it belongs to the request, and no caller knows that
            slot.fail("Produce", cause)

    if not node.slices.start(work, then, lambda cause: slot.fail("Produce", cause)):
        slot.connection.mute()


async def _prepare(node: Node, partition: Partition, records: memoryview) -> Prepared:
    """Prepare records on a thread."""
    log = partition.log
    prepare = partial(log.prepare_append, log.name, records, log.rules, node.clock.wall_ms())
    return await node.preparation.run(partial(_prepared, prepare))


def _prepared(prepare: Callable[[], PreparedRecords]) -> Prepared:
    try:
        return prepare()
    except REFUSALS as error:
        # The frames of its traceback hold what was decompressed, and would until the next garbage collection.
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)


def _guard(verified: Verification, topic: bytes, index: int) -> VerificationGuard | None:
    """What a batch of a transaction is appended with; raises the coordinator's refusal."""
    refusal, guard = verified.get((topic.decode(), index), _NOT_VERIFIED)
    if refusal is not None:
        raise refusal
    return guard


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


def _answer(
    node: Node, slot: Slot, version: int, correlation_id: int, outcomes: Sequence[Outcome], errors: Errors
) -> None:
    """Respond with the result of each partition; `errors` are those of the staged ones, in their order."""
    throttle_ms = slot.connection.throttle_ms
    if len(outcomes) == 1 and not errors and not throttle_ms:
        topic, index, result = outcomes[0]
        if type(result) is LogAppendInfo:
            first_offset, _, _, log_append_time_ms, log_start_offset, _, _, _ = result
            slot.fill(
                encode_single(correlation_id, version, topic, index, first_offset, log_append_time_ms, log_start_offset)
            )
            return
    if len(outcomes) > _ANSWERED_AT_ONCE:
        _answer_many(node, slot, version, correlation_id, outcomes, errors)
        return
    topics: dict[bytes, list[PartitionReply]] = {}
    remaining = iter(errors)
    for topic, index, result in outcomes:
        reply = result if isinstance(result, PartitionReply) else _staged_reply(index, result, next(remaining, None))
        topics.setdefault(topic, []).append(reply)
    slot.fill(encode_response(correlation_id, version, list(topics.items()), throttle_ms))


def _answer_many(
    node: Node, slot: Slot, version: int, correlation_id: int, outcomes: Sequence[Outcome], errors: Errors
) -> None:
    """The same for so many partitions that the reply is made in slices."""
    from tidelog.broker.handlers._large_produce import reply_in_slices

    remaining = iter(errors)
    replies = (
        (topic, result if isinstance(result, PartitionReply) else _staged_reply(index, result, next(remaining, None)))
        for topic, index, result in outcomes
    )
    work = reply_in_slices(node.slices, version, correlation_id, replies, slot.connection.throttle_ms)
    node.slices.start(work, slot.fill, partial(slot.fail, "Produce"))


def _staged_reply(index: int, info: LogAppendInfo, error: ApiError | None) -> PartitionReply:
    if error is not None:
        return PartitionReply(index, error.code, error_message=error.message)
    return PartitionReply(index, 0, info.first_offset, info.log_append_time_ms, info.log_start_offset)


def _answer_nothing(slot: Slot, outcomes: Sequence[Outcome]) -> None:
    """acks=0: no answer, not even an error; on an error the connection is closed, as the only sign there is."""
    if any(type(result) is PartitionReply and result.error_code for _, _, result in outcomes):
        slot.close_connection()
    else:
        slot.fill(b"")
