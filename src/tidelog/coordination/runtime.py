"""Carries out the decisions of shards: append, replay, set timers, and answer once everything is committed.

The edges in `tidelog.broker` own one runtime for each coordinator. A partition of the internal topic is in one of three
states here:

    not here   requests get NOT_COORDINATOR
    loading    its log is being replayed; requests get COORDINATOR_LOAD_IN_PROGRESS
    active     requests are decided

Records are replayed as soon as they are appended, so that the next request sees their effect. Replies wait for the
commit. A reply without records also waits for earlier records that are not committed, because it may depend on them.
So it does when their own requests were answered with an error because the commit took too long: such records are part
of the state, and can still be lost. When this broker loses the log, the shard is dropped, and its waiting requests get
an error.

A reply that raises is reported to the timer's `on_error`; the other replies of the same commit are still sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from typing import Any, Final, Generic, NamedTuple, TypeVar

from tidelog.coordination._batches import build_record_batch, replay_batches
from tidelog.coordination.active import ActiveShard, OpenBatch, Pending
from tidelog.coordination.decision import Decision, ProducerEpoch, Respond, TimerKey
from tidelog.coordination.shard import Shard
from tidelog.records.builder import RECORD_OVERHEAD_BYTES_MAX, build_end_transaction_marker
from tidelog.records.compression import Codec
from tidelog.timing import Clock, Timer
from tidelog.wire.errors import ApiError, ErrorCode

ShardT = TypeVar("ShardT", bound=Shard)

Append = Callable[[int, bytearray, Callable[[ErrorCode, int], None]], int]
"""`(partition, batch, on_committed(error, first offset)) -> first offset`; raises ApiError when the log rejects it."""

AwaitCommit = Callable[[int, Callable[[ErrorCode, int], None]], None]
"""`(partition, on_committed)`: calls back once all that the log holds now is committed, or with the error.

Raises ApiError when this broker does not have the log."""


class Batching(NamedTuple):
    """The functions that let decisions share batches."""

    bytes_max: Callable[[int], int]
    """The largest batch that the log of a partition takes; raises ApiError if it takes none."""
    before_write: Callable[[Callable[[], None]], None]
    """Calls back when the turn ends, before its records are written."""
    reload: Callable[[int], None]
    """Loads a partition again."""


_NONE: Final = ErrorCode.NONE
REFUSALS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""The error for the client when the log rejects records. Clients of a coordinator do not know its partitions."""

_LOG_LOST: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors after which this broker no longer has the log. After any other, only the rejected records are missing."""


class ShardState(Enum):
    """State of a partition on this broker."""

    NOT_HERE = auto()
    LOADING = auto()
    ACTIVE = auto()


class Loading(Generic[ShardT]):
    """A partition that is being loaded. The edge feeds it the log, in order and in pieces of whole batches."""

    __slots__ = ("_shard", "is_cancelled", "partition")

    def __init__(self, partition: int, shard: ShardT) -> None:
        self.partition = partition
        self.is_cancelled = False
        self._shard = shard

    def replay(self, batches: bytes | memoryview) -> Iterator[int]:
        """Replay batch by batch; yields the offset after each, so that the caller may pause between them."""
        return replay_batches(self._shard, batches)


class CoordinatorRuntime(Generic[ShardT]):
    """All shards of one coordinator on this broker. Everything runs on one thread."""

    def __init__(
        self,
        new_shard: Callable[[int], ShardT],
        append: Append,
        await_commit: AwaitCommit,
        clock: Clock,
        timer: Timer,
        *,
        codec: Codec = Codec.NONE,
        batching: Batching | None = None,
        refusals: dict[ErrorCode, ErrorCode] | None = None,
        on_lost: Callable[[int], None] | None = None,
    ) -> None:
        """`refusals` adds to `REFUSALS`; `on_lost` is called with a partition whose log this broker no longer has."""
        self._new_shard = new_shard
        self._append = append
        self._await_commit = await_commit
        self._clock = clock
        self._timer = timer
        self._codec = codec
        self._batching = batching
        self._with_open_batch: list[ActiveShard[ShardT]] = []
        self._refusals = {**REFUSALS, **(refusals or {})}
        self._on_lost = on_lost
        self._loading: dict[int, tuple[Loading[ShardT], ShardT]] = {}
        self._active: dict[int, ActiveShard[ShardT]] = {}

    # --- partitions come and go ---

    def begin_load(self, partition: int) -> Loading[ShardT]:
        """This broker leads `partition` from now on: feed its log to the returned `Loading`, then `finish_load`."""
        self.unload(partition)
        shard = self._new_shard(partition)
        loading = Loading(partition, shard)
        self._loading[partition] = (loading, shard)
        return loading

    def finish_load(self, loading: Loading[ShardT], *, is_committed: bool = True) -> None:
        """The log was replayed to its end: serve requests, unless the partition was unloaded meanwhile.

        `is_committed` is False if it ends with records that may still be lost.
        """
        if loading.is_cancelled:
            return
        _, shard = self._loading.pop(loading.partition)
        active = ActiveShard(loading.partition, shard)
        active.is_uncertain = not is_committed
        self._active[loading.partition] = active
        now_ms = self._clock.wall_ms()
        self._carry_out(active, shard.on_loaded(now_ms), None, now_ms)

    def load(self, partition: int, batches: Iterable[bytes | memoryview]) -> None:
        """Load a partition in one go."""
        loading = self.begin_load(partition)
        for piece in batches:
            for _ in loading.replay(piece):
                pass
        self.finish_load(loading)

    def unload(self, partition: int, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """This broker no longer leads `partition`: drop its shard, and fail waiting requests with `code`."""
        loading = self._loading.pop(partition, None)
        if loading is not None:
            loading[0].is_cancelled = True
        active = self._active.pop(partition, None)
        if active is not None:
            error = ApiError(code)
            for respond in active.close():
                self._answer(respond, error)
            for respond, reply in active.shard.on_unloaded(error):
                self._answer(respond, reply)

    def unload_all(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Unload every partition, for shutdown."""
        for partition in [*self._loading, *self._active]:
            self.unload(partition, code)

    def state_of(self, partition: int) -> ShardState:
        if partition in self._active:
            return ShardState.ACTIVE
        return ShardState.LOADING if partition in self._loading else ShardState.NOT_HERE

    def active_partitions(self) -> list[int]:
        return sorted(self._active)

    def loading_partitions(self) -> list[int]:
        return sorted(self._loading)

    def shard(self, partition: int) -> ShardT:
        """The shard of an active partition, for reading; raises the client's ApiError otherwise."""
        return self._find(partition).shard

    # --- requests ---

    def execute(
        self, partition: int, operation: Callable[[ShardT, int], Decision[Any]], respond: Respond | None
    ) -> None:
        """Decide `operation(shard, now_ms)` and carry it out; `respond` gets the reply or an ApiError, once."""
        now_ms = self._clock.wall_ms()
        try:
            active = self._active.get(partition) or self._find(partition)
            decision = operation(active.shard, now_ms)
        except ApiError as error:
            if respond is not None:
                self._answer(respond, error)
            return
        self._carry_out(active, decision, respond, now_ms)

    def end_transaction(
        self, partition: int, producer: ProducerEpoch, coordinator_epoch: int, is_commit: bool, respond: Respond
    ) -> None:
        """Write the marker that ends a producer's transaction here; `respond` gets None once it is committed."""
        try:
            active = self._find(partition)
        except ApiError as error:
            self._answer(respond, error)
            return
        producer_id, producer_epoch = producer
        marker = build_end_transaction_marker(
            is_commit=is_commit,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=self._clock.wall_ms(),
        )
        pending = Pending(None)
        pending.answers.append((respond, None))
        if active.open_batch is not None and not self._append_open(active):
            self._answer(respond, ApiError(ErrorCode.NOT_COORDINATOR))
            return
        if self._stage(active, pending, bytearray(marker)):
            try:
                active.shard.replay_end_transaction(producer_id, producer_epoch, is_commit)
            except Exception as cause:  # noqa: BLE001 - a bug of one shard: its requests get the error
                self._not_replayed(active, pending, cause)
            self._staged(active, pending)

    def _find(self, partition: int) -> ActiveShard[ShardT]:
        active = self._active.get(partition)
        if active is None:
            is_loading = partition in self._loading
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NOT_COORDINATOR)
        return active

    # --- decisions ---

    def _carry_out(
        self, active: ActiveShard[ShardT], decision: Decision[Any], respond: Respond | None, now_ms: int
    ) -> None:
        reply, records, timers, answers, then, producer = decision
        if timers:
            # Also when the log rejects the records: state without records still needs its timers.
            active.change_timers(timers, self)
        if records:
            if self._batching is not None and then is None and producer is None:
                if self._add(active, decision, respond, self._batching, now_ms):
                    return
            elif active.open_batch is not None and not self._append_open(active):
                self._refuse(active, decision, respond, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                return
            pending = _pending_of(decision, respond)
            batch = build_record_batch([(now_ms, key, value, ()) for key, value in records], self._codec, producer)
            if not self._stage(active, pending, batch):
                return
            producer_id, producer_epoch = producer or (-1, -1)
            replay = active.shard.replay
            try:
                for key, value in records:
                    replay(key, value, producer_id, producer_epoch)
            except Exception as cause:  # noqa: BLE001 - a bug of one shard: its requests get the error
                self._not_replayed(active, pending, cause)
            self._staged(active, pending)
            return
        assert then is None, "only a decision with records has a `then`"
        if active.pending:
            waiting = active.pending[-1].answers
            if respond is not None and reply is not None:
                waiting.append((respond, reply))
            waiting += answers
            return
        if active.is_uncertain and (answers or (respond is not None and reply is not None)):
            self._answer_when_certain(active, decision, respond)
            return
        if respond is not None and reply is not None:
            self._answer(respond, reply)
        for later, its_reply in answers:
            self._answer(later, its_reply)

    def _answer_when_certain(
        self, active: ActiveShard[ShardT], decision: Decision[Any], respond: Respond | None
    ) -> None:
        """Answer a decision without records once the records that it may depend on are committed."""
        pending = _pending_of(decision, respond)
        pending.is_replayed = True
        active.pending.append(pending)
        try:
            self._await_commit(active.partition, self._on_committed(active, pending))
        except ApiError as error:
            pending.outcome = error.code
            self._release(active)

    # --- batches that decisions share ---

    def _add(
        self,
        active: ActiveShard[ShardT],
        decision: Decision[Any],
        respond: Respond | None,
        batching: Batching,
        now_ms: int,
    ) -> bool:
        """Replay records and add them to the open batch; False if they are too large for a shared batch."""
        reply, records, _, other_answers, _, _ = decision
        size = 0
        for key, value in records:
            size += RECORD_OVERHEAD_BYTES_MAX + len(key) + (0 if value is None else len(value))
        batch = active.open_batch
        if batch is None or batch.bytes_left < size:
            if batch is not None and not self._append_open(active):
                self._refuse(active, decision, respond, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                return True
            try:
                batch = OpenBatch(batching.bytes_max(active.partition))
            except ApiError as error:
                self._refuse(active, decision, respond, error.code)
                return True
            if batch.bytes_left < size:
                return False
            active.open_batch = batch
            active.pending.append(batch)
            if not self._with_open_batch:
                batching.before_write(self._append_all_open)
            self._with_open_batch.append(active)
        batch.bytes_left -= size
        answers = batch.answers
        first_answer = len(answers)
        if respond is not None and reply is not None:
            answers.append((respond, reply))
        if other_answers:
            answers += other_answers
        replay, append = active.shard.replay, batch.records.append
        for key, value in records:
            append((now_ms, key, value, ()))
        try:
            for key, value in records:
                replay(key, value, -1, -1)
        except Exception as cause:  # noqa: BLE001 - a bug of one shard: its requests get the error
            self._not_replayed(active, batch, cause, first_answer)
        return True

    def _append_all_open(self) -> None:
        """The turn ends: append the open batches."""
        shards, self._with_open_batch = self._with_open_batch, []
        for active in shards:
            if active.open_batch is not None:
                self._append_open(active)

    def _append_open(self, active: ActiveShard[ShardT]) -> bool:
        """Append the open batch; False when the log rejected it: the shard is then dropped."""
        batch = active.open_batch
        assert batch is not None, "there is an open batch to append"
        assert active.pending[-1] is batch, "nothing was staged behind the open batch"
        active.open_batch = None
        records, batch.records = batch.records, []
        try:
            self._append(active.partition, build_record_batch(records, self._codec), self._on_committed(active, batch))
            return True
        except ApiError as error:
            active.pending.pop()
            self._refused(active, batch, error.code)
        if not active.is_closed and self._batching is not None:
            # The shard has replayed records that are not in the log, so it is loaded again.
            self.unload(active.partition, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            self._batching.reload(active.partition)
        return False

    def _answer(self, respond: Respond, reply: Any) -> None:
        """Answer one request. An error is reported and does not affect other requests."""
        try:
            respond(reply)
        except Exception as cause:  # noqa: BLE001 - it belongs to one request
            self._timer.report(respond, cause)

    def _stage(self, active: ActiveShard[ShardT], pending: Pending, batch: bytearray) -> bool:
        """Append a batch; False when the log rejected it: its requests have then been answered with the error."""
        try:
            self._append(active.partition, batch, self._on_committed(active, pending))
        except ApiError as error:
            self._refused(active, pending, error.code)
            return False
        active.pending.append(pending)
        return True

    def _on_committed(self, active: ActiveShard[ShardT], pending: Pending) -> Callable[[ErrorCode, int], None]:
        """The callback for the log: the outcome of records is known."""

        def on_committed(code: ErrorCode, _first_offset: int) -> None:
            pending.outcome = code
            if pending.is_replayed:
                self._release(active)

        return on_committed

    def _not_replayed(
        self, active: ActiveShard[ShardT], pending: Pending, cause: Exception, first_answer: int = 0
    ) -> None:
        """A bug in a shard: fail its requests, so that later ones do not wait for ever."""
        error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        pending.answers[first_answer:] = [(respond, error) for respond, _ in pending.answers[first_answer:]]
        self._timer.report(active.shard, cause)

    def _staged(self, active: ActiveShard[ShardT], pending: Pending) -> None:
        pending.is_replayed = True
        self._release(active)

    def _release(self, active: ActiveShard[ShardT]) -> None:
        """Answer the requests whose records are committed, in the order of the log."""
        queue = active.pending
        while queue and queue[0].outcome is not None and queue[0].is_replayed:
            pending = queue.popleft()
            if pending.outcome is not _NONE:
                assert pending.outcome is not None
                self._refused(active, pending, pending.outcome)
                active.is_uncertain = True  # only now: the answers of `then` are about the failure itself
                continue
            active.is_uncertain = False
            if pending.then is not None:
                self._follow(active, pending.then, ErrorCode.NONE)
            for respond, reply in pending.answers:
                try:
                    respond(reply)
                except Exception as cause:  # noqa: BLE001 - it belongs to one request
                    self._timer.report(respond, cause)

    def _follow(
        self, active: ActiveShard[ShardT], then: Callable[[ErrorCode, int], Decision[Any]], code: ErrorCode
    ) -> None:
        """Carry out the decision of `then`, once records are committed or rejected."""
        try:
            now_ms = self._clock.wall_ms()
            self._carry_out(active, then(code, now_ms), None, now_ms)
        except Exception as cause:  # noqa: BLE001 - it belongs to one shard
            self._timer.report(active.shard, cause)

    def _refuse(
        self, active: ActiveShard[ShardT], decision: Decision[Any], respond: Respond | None, code: ErrorCode
    ) -> None:
        """The log rejects the records of a decision, which were not replayed."""
        self._refused(active, _pending_of(decision, respond), code)

    def _refused(self, active: ActiveShard[ShardT], pending: Pending, code: ErrorCode) -> None:
        error = ApiError(self._refusals.get(code, ErrorCode.UNKNOWN_SERVER_ERROR))
        if code in _LOG_LOST and not active.is_closed:
            self.unload(active.partition)
            if self._on_lost is not None:
                self._on_lost(active.partition)
        elif pending.then is not None and not active.is_closed:
            self._follow(active, pending.then, code)
        for respond, _ in pending.answers:
            self._answer(respond, error)

    # --- timers ---

    def on_timer(self, active: ActiveShard[Any], key: TimerKey) -> None:
        """A timer of a shard ran out; called by the timer alone."""
        now_ms = self._clock.wall_ms()
        self._carry_out(active, active.shard.on_timer(key, now_ms), None, now_ms)

    def set_timer(self, active: ActiveShard[Any], key: TimerKey, delay_ms: int) -> None:
        """For `ActiveShard` alone."""
        now_ms = self._clock.monotonic_ms()
        self._timer.add(active.timer_task(key, now_ms + delay_ms, self), now_ms)


def _pending_of(decision: Decision[Any], respond: Respond | None) -> Pending:
    """What waits for the commit of a decision: its follow-up, its reply, and its answers to earlier requests."""
    pending = Pending(decision.then)
    if respond is not None and decision.reply is not None:
        pending.answers.append((respond, decision.reply))
    pending.answers += decision.answers
    return pending
