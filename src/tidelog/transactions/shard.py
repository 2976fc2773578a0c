"""The transactional ids of one partition of `__transaction_state`: the core of the transaction coordinator.

The runtime of `coordination` calls it, on behalf of the broker's edge: requests, timeouts and results of markers go in,
decisions come out. Two phases end a transaction:

    decide     append PrepareCommit or PrepareAbort; once that is committed nothing can change the outcome, so the
               producer is answered
    carry out  write a marker to every partition, with retries until it is there; then append CompleteCommit or
               CompleteAbort, and the next transaction may begin

A coordinator that loads the log finds a transaction between the two and carries it out again: a second marker does no
harm.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidelog.coordination import NOTHING, Answer, Decision, ProducerEpoch, SetTimer, StateRecord, TimerChange, TimerKey
from tidelog.transactions import endings, producers
from tidelog.transactions.markers import Fate, MarkerOrder, MarkerProgress, MarkerSender
from tidelog.transactions.producers import NewProducerId
from tidelog.transactions.schemas import (
    FLEXIBLE_FROM,
    SchemaError,
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from tidelog.transactions.states import TransactionEvent, TransactionState, may_happen
from tidelog.transactions.transaction import Transaction
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.partitions import PartitionKey

logger = logging.getLogger(__name__)

TIMEOUTS: Final = "timeouts"
"""The timer of the search for transactions past their timeout."""
EXPIRY: Final = "expiry"
"""The timer of the search for unused transactional ids."""
_RETRY: Final = "retry"
_RECORDS_MAX: Final = 500
"""Most records of one search step, so that a search does not delay requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The settings that the shard needs, and no others. Defaults are Kafka's."""

    id_expiration_ms: int = 7 * 24 * 60 * 60 * 1000
    """A transactional id that has not been used for so long is removed."""
    abort_timed_out_interval_ms: int = 10_000
    """Interval of the search for transactions past their timeout."""
    remove_expired_interval_ms: int = 60 * 60 * 1000
    """Interval of the search for unused transactional ids."""
    retry_backoff_ms: int = 100
    """Wait before a rejected marker or record is written again."""


class TransactionShard:
    """State of one partition."""

    def __init__(
        self,
        partition: int,
        coordinator_epoch: int,
        settings: TransactionSettings,
        new_producer_id: NewProducerId,
        send_markers: MarkerSender,
        on_completed: Callable[[Transaction], None] | None = None,
        level: Callable[[], int] = lambda: 0,
    ) -> None:
        """`coordinator_epoch` is the leader epoch of the partition; markers of an earlier coordinator are rejected.

        `level` is the level of transaction.version that is in effect.
        """
        self.partition = partition
        self.coordinator_epoch = coordinator_epoch
        self._settings = settings
        self._new_producer_id = new_producer_id
        self._send_markers = send_markers
        self._on_completed = on_completed
        self._level = level
        self._transactions: dict[str, Transaction] = {}
        self._ongoing: dict[str, None] = {}
        self._writing: dict[str, MarkerProgress] = {}
        self._decided: dict[bytes, Transaction] = {}
        self._is_timeout_search_set = False

    # --- replay ---

    def replay(self, key: bytes, value: bytes | None, _producer_id: int, _producer_epoch: int) -> None:
        try:
            transactional_id = read_transaction_key(key)
            if transactional_id is None:
                return
            if value is None:
                self._transactions.pop(transactional_id, None)
                return
            # A decision of this shard has more than its record: the last epoch is not in the log.
            transaction = self._decided.pop(value, None) or read_transaction_value(transactional_id, value)
        except SchemaError as error:
            logger.error("a record of __transaction_state-%d is skipped: %s", self.partition, error)
            return
        self._transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self._ongoing[transactional_id] = None
            self._is_timeout_search_set = True
        else:
            self._ongoing.pop(transactional_id, None)
            if not transaction.state.is_prepared:
                self._writing.pop(transactional_id, None)

    def replay_end_transaction(self, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        """Does nothing: records of `__transaction_state` are not part of transactions."""

    # --- loading and unloading ---

    def on_loaded(self, _now_ms: int) -> Decision[Any]:
        """Continue the transactions that an earlier coordinator decided and did not complete."""
        prepared = [transaction for transaction in self._transactions.values() if transaction.state.is_prepared]
        for transaction in prepared:
            self._carry_out(transaction)
        timers: list[TimerChange] = [SetTimer(EXPIRY, self._settings.remove_expired_interval_ms)]
        timers += [self._retry_timer(each.transactional_id) for each in prepared if not each.partitions]
        if self._ongoing:
            timers.append(SetTimer(TIMEOUTS, self._settings.abort_timed_out_interval_ms))
        self._is_timeout_search_set = bool(self._ongoing)
        return Decision(timers=tuple(timers))

    def on_unloaded(self, _error: ApiError) -> Iterable[Answer]:
        """No request waits in the shard itself; the next coordinator of the partition writes the markers again."""
        self._writing.clear()
        return ()

    def on_timer(self, key: TimerKey, now_ms: int) -> Decision[Any]:
        if key == TIMEOUTS:
            return self._abort_timed_out(now_ms)
        if key == EXPIRY:
            return self._forget_unused(now_ms)
        assert isinstance(key, tuple), "the other timers are named by purpose and transactional id"
        return self._retry(key[1], now_ms)

    # --- requests ---

    def initialize(
        self, transactional_id: str, timeout_ms: int, expected: ProducerEpoch | None, now_ms: int
    ) -> Decision[ProducerEpoch | ApiError]:
        """InitProducerId; the reply is the producer id and epoch, or CONCURRENT_TRANSACTIONS while an abort is due."""
        current = self._transactions.get(transactional_id)
        following = producers.initialize(
            current, transactional_id, timeout_ms, expected, self._new_producer_id, now_ms, self._level()
        )
        if following.state is TransactionState.EMPTY:
            return Decision(following.producer, self._records(following))
        logger.info("the open transaction of %s is aborted: a new producer has started", transactional_id)
        text = f"the open transaction of {transactional_id} is being aborted"
        error = ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, text)
        return self._prepare(following)._replace(reply=error)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerEpoch,
        partitions: Collection[PartitionKey],
        now_ms: int,
        protocol: int = 0,
    ) -> Decision[ErrorCode]:
        """Add partitions to the transaction; the first ones begin it. `protocol` is its client's version."""
        current = self._open_or_ended(transactional_id, producer)
        if current.state is TransactionState.ONGOING and current.partitions.issuperset(partitions):
            return Decision(ErrorCode.NONE)
        following = current.with_partitions(frozenset(partitions), now_ms, protocol)
        return Decision(ErrorCode.NONE, self._records(following), self._timeout_search())

    def verify(
        self, transactional_id: str, producer: ProducerEpoch, partitions: Iterable[PartitionKey]
    ) -> dict[PartitionKey, ErrorCode]:
        """Whether partitions are part of the open transaction (KIP-890); raises ApiError if none is open."""
        joined = self._open_or_ended(transactional_id, producer).partitions
        return {
            partition: ErrorCode.NONE if partition in joined else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    def end(
        self, transactional_id: str, producer: ProducerEpoch, is_commit: bool, now_ms: int, protocol: int = 0
    ) -> Decision[ProducerEpoch]:
        """Commit or abort; the reply, sent once the outcome is committed, is what the producer goes on with."""
        current = self._transactions.get(transactional_id)
        ended = endings.end(transactional_id, current, producer, is_commit, self._new_producer_id, now_ms, protocol)
        if ended is None:
            assert current is not None, "an end is repeated"
            return Decision(current.producer)
        return self._prepare(ended)._replace(reply=ended.following_producer)

    def _open_or_ended(self, transactional_id: str, producer: ProducerEpoch) -> Transaction:
        """The transaction of this producer; raises ApiError for another producer, or while markers are missing."""
        current = endings.check_producer(transactional_id, self._transactions.get(transactional_id), producer)
        if current.state.is_prepared:
            raise ApiError(
                ErrorCode.CONCURRENT_TRANSACTIONS, f"a transaction of {transactional_id} is still completing"
            )
        return current

    # --- looking ---

    def get(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    def transactions(self) -> Iterator[Transaction]:
        """All of them, for listings."""
        return iter(self._transactions.values())

    # --- the end of a transaction ---

    def _records(self, *transactions: Transaction) -> tuple[StateRecord, ...]:
        """The records of transactions. `replay` uses these objects as they are once the log has the records."""
        self._decided.clear()
        records: list[StateRecord] = []
        for transaction in transactions:
            value = transaction_value(transaction, is_flexible=self._level() >= FLEXIBLE_FROM)
            self._decided[value] = transaction
            records.append((transaction_key(transaction.transactional_id), value))
        return tuple(records)

    def _prepare(self, *prepared: Transaction) -> Decision[Any]:
        """Append outcomes, and carry them out as soon as they are committed."""

        def then(code: ErrorCode, now_ms: int) -> Decision[Any]:
            # If the log rejected the records, nothing has changed and there is nothing to do. If they are in the log
            # but their commit is uncertain, they are written again until one is committed.
            current = [entry for entry in prepared if self._transactions.get(entry.transactional_id) is entry]
            if code is not ErrorCode.NONE:
                return Decision(timers=tuple(self._retry_timer(entry.transactional_id) for entry in current))
            for transaction in current:
                self._carry_out(transaction)
            empty = [entry.transactional_id for entry in current if not entry.partitions]
            return self._complete(empty, now_ms) if empty else NOTHING

        return Decision(records=self._records(*prepared), then=then)

    def _carry_out(self, transaction: Transaction) -> None:
        order = MarkerOrder(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            self.coordinator_epoch,
            transaction.is_commit,
            tuple(sorted(transaction.partitions)),
            transaction.protocol,
        )
        self._writing[transaction.transactional_id] = MarkerProgress(order)
        if order.partitions:
            self._send_markers(order)

    def on_marker(self, order: MarkerOrder, partition: PartitionKey, code: ErrorCode, now_ms: int) -> Decision[Any]:
        """A marker was written, or was rejected with `code`."""
        transactional_id = order.transactional_id
        progress = self._writing.get(transactional_id)
        if progress is None or not progress.is_of(order):
            return NOTHING
        fate = progress.settle(partition, code)
        if fate is Fate.FENCED:
            del self._writing[transactional_id]
            logger.error(
                "%s-%d rejected the marker of %s with %s: a newer coordinator completes the transaction",
                *partition,
                transactional_id,
                code.name,
            )
            return NOTHING
        if fate is Fate.RETRY:
            logger.info("%s-%d rejected the marker of %s with %s: retrying", *partition, transactional_id, code.name)
            return Decision(timers=(self._retry_timer(transactional_id),))
        return self._complete([transactional_id], now_ms) if progress.is_done else NOTHING

    def _complete(self, transactional_ids: Sequence[str], now_ms: int) -> Decision[Any]:
        following = [self._transactions[transactional_id].completed(now_ms) for transactional_id in transactional_ids]

        def then(code: ErrorCode, _now_ms: int) -> Decision[Any]:
            if code is ErrorCode.NONE:
                if self._on_completed is not None:
                    for transaction in following:
                        self._on_completed(transaction)
                return NOTHING
            refused = [name for name in transactional_ids if name in self._writing]
            return Decision(timers=tuple(self._retry_timer(name) for name in refused))

        return Decision(records=self._records(*following), then=then)

    def _retry_timer(self, transactional_id: str) -> TimerChange:
        return SetTimer((_RETRY, transactional_id), self._settings.retry_backoff_ms)

    def _retry(self, transactional_id: str, now_ms: int) -> Decision[Any]:
        """Retry the step of a transaction that failed."""
        current = self._transactions.get(transactional_id)
        if current is None or not current.state.is_prepared:
            return NOTHING
        progress = self._writing.get(transactional_id)
        if progress is None:
            return self._prepare(current)
        if progress.is_done:
            return self._complete([transactional_id], now_ms)
        if progress.to_retry:
            self._send_markers(progress.take_retries())
        return NOTHING

    # --- time ---

    def _timeout_search(self) -> tuple[TimerChange, ...]:
        """Start the search when the first open transaction begins; it repeats as long as any is open."""
        if self._is_timeout_search_set:
            return ()
        return (SetTimer(TIMEOUTS, self._settings.abort_timed_out_interval_ms),)

    def _abort_timed_out(self, now_ms: int) -> Decision[Any]:
        """Abort transactions that have been open too long, and fence their producers."""
        late = [self._transactions[name] for name in self._ongoing if self._transactions[name].is_timed_out(now_ms)]
        if not late:
            self._is_timeout_search_set = bool(self._ongoing)
            again = (SetTimer(TIMEOUTS, self._settings.abort_timed_out_interval_ms),)
            return Decision(timers=again) if self._ongoing else NOTHING
        delay_ms = 1 if len(late) > _RECORDS_MAX else self._settings.abort_timed_out_interval_ms
        for transaction in late[:_RECORDS_MAX]:
            logger.info(
                "the transaction of %s is aborted: open since %d, longer than its timeout of %d ms",
                transaction.transactional_id,
                transaction.start_ms,
                transaction.timeout_ms,
            )
        level, new_id = self._level(), self._new_producer_id
        try:
            aborted = [producers.fenced_and_aborted(each, new_id, now_ms, level) for each in late[:_RECORDS_MAX]]
        except ApiError as error:
            # A producer id that has no epoch left could not be replaced. The search is repeated.
            logger.warning("transactions past their timeout are not aborted yet: %s", error)
            return Decision(timers=(SetTimer(TIMEOUTS, self._settings.abort_timed_out_interval_ms),))
        decision = self._prepare(*aborted)
        return _with_timer(decision, SetTimer(TIMEOUTS, delay_ms))

    def _forget_unused(self, now_ms: int) -> Decision[Any]:
        """Remove transactional ids that have not been used for `transactional.id.expiration.ms`."""
        oldest_ms = now_ms - self._settings.id_expiration_ms
        unused = [
            transaction.transactional_id
            for transaction in self._transactions.values()
            if transaction.updated_ms <= oldest_ms and may_happen(transaction.state, TransactionEvent.EXPIRED)
        ]
        interval_ms = self._settings.remove_expired_interval_ms
        if not unused:
            return Decision(timers=(SetTimer(EXPIRY, interval_ms),))
        logger.info("removing %d transactional ids: unused for transactional.id.expiration.ms", len(unused))
        records: tuple[StateRecord, ...] = tuple((transaction_key(name), None) for name in unused[:_RECORDS_MAX])
        return _with_timer(
            Decision(records=records), SetTimer(EXPIRY, 1 if len(unused) > _RECORDS_MAX else interval_ms)
        )


def _with_timer(decision: Decision[Any], timer: SetTimer) -> Decision[Any]:
    """The decision, with a timer that is set once its records are committed or rejected."""
    following = decision.then

    def then(code: ErrorCode, now_ms: int) -> Decision[Any]:
        after = NOTHING if following is None else following(code, now_ms)
        return after._replace(timers=(*after.timers, timer))

    return decision._replace(then=then)
