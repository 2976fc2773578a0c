"""One transactional id: its producer, and its open or last transaction.

Immutable: every change makes a new value, which the shard uses once its record is in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tidelog.coordination import ProducerEpoch
from tidelog.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tidelog.transactions.states import TransactionEvent, TransactionState, advance
from tidelog.wire.partitions import PartitionKey

NO_TIME: Final = -1
EPOCH_BUMPS_FROM: Final = 2
"""The version of the transaction protocol in which every end of a transaction bumps the epoch (KIP-890)."""
EPOCH_MAX: Final = 2**15 - 1


def is_exhausted(producer_epoch: int) -> bool:
    """Whether a producer id has no epoch left. The very last one is reserved for fencing its last producer."""
    return producer_epoch >= EPOCH_MAX - 1


class Transaction(NamedTuple):
    """State of a transactional id. No record has the last epoch; only those of version 1 have the fields after it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[PartitionKey] = frozenset()
    start_ms: int = NO_TIME
    """When the first partition was added; it stays after the end, until the next InitProducerId."""
    updated_ms: int = NO_TIME
    last_producer_id: int = NO_PRODUCER_ID
    """The previous producer id, for a producer whose id was exhausted and that missed the response."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The previous epoch if the same producer got the next one, so that it may retry (KIP-360)."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id once the transaction is complete, if the epochs of this one ran out."""
    protocol: int = 0
    """The version of the transaction protocol that the last change was asked for in."""

    @property
    def producer(self) -> ProducerEpoch:
        return ProducerEpoch(self.producer_id, self.producer_epoch)

    @property
    def following_producer(self) -> ProducerEpoch:
        """The producer once a prepared transaction is complete."""
        return self.producer if self.next_producer_id < 0 else ProducerEpoch(self.next_producer_id, 0)

    @property
    def is_commit(self) -> bool:
        """How a prepared transaction ends."""
        return self.state is TransactionState.PREPARE_COMMIT

    def initialized(
        self, producer: ProducerEpoch, last_producer_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """The state after InitProducerId of a producer that starts or continues."""
        return self._replace(
            state=advance(self.state, TransactionEvent.INITIALIZED),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            last_producer_id=self.producer_id,
            last_producer_epoch=last_producer_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIME,
            updated_ms=now_ms,
        )

    def with_partitions(self, added: frozenset[PartitionKey], now_ms: int, protocol: int = 0) -> Transaction:
        """The state with more partitions; the first ones begin the transaction."""
        is_open = self.state is TransactionState.ONGOING
        return self._replace(
            state=advance(self.state, TransactionEvent.PARTITIONS_ADDED),
            partitions=self.partitions | added,
            start_ms=self.start_ms if is_open else now_ms,
            updated_ms=now_ms,
            protocol=protocol,
        )

    def ended(self, is_commit: bool, now_ms: int) -> Transaction:
        """The outcome is decided."""
        event = TransactionEvent.COMMIT_ASKED if is_commit else TransactionEvent.ABORT_ASKED
        return self._replace(state=advance(self.state, event), updated_ms=now_ms, protocol=0)

    def ended_with_bump(self, is_commit: bool, new_producer_id: Callable[[], int], now_ms: int) -> Transaction:
        """The same in protocol version 2: the markers have the next epoch, which the producer has from now on.

        If the epochs run out with that, the producer gets `new_producer_id()` when the transaction is complete.
        """
        assert self.producer_epoch < EPOCH_MAX, f"{self.transactional_id} has no epoch left to end with"
        if self.state is TransactionState.ONGOING:
            event, start_ms = (
                TransactionEvent.COMMIT_ASKED if is_commit else TransactionEvent.ABORT_ASKED,
                self.start_ms,
            )
        else:
            event, start_ms = TransactionEvent.NOTHING_ABORTED, now_ms
        return self._replace(
            state=advance(self.state, event),
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=self.producer_epoch,
            next_producer_id=new_producer_id() if is_exhausted(self.producer_epoch) else NO_PRODUCER_ID,
            start_ms=start_ms,
            updated_ms=now_ms,
            protocol=EPOCH_BUMPS_FROM,
        )

    def fenced(self) -> Transaction:
        """The producer is fenced by an epoch that no producer gets; the abort follows at once."""
        assert self.producer_epoch < EPOCH_MAX, f"{self.transactional_id} has no epoch left to fence with"
        return self._replace(
            state=advance(self.state, TransactionEvent.FENCED),
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=NO_PRODUCER_EPOCH,
        )

    def completed(self, now_ms: int) -> Transaction:
        """Every partition has its marker."""
        complete = self._replace(
            state=advance(self.state, TransactionEvent.MARKERS_WRITTEN), partitions=frozenset(), updated_ms=now_ms
        )
        if self.next_producer_id < 0:
            return complete
        return complete._replace(
            producer_id=self.next_producer_id,
            producer_epoch=0,
            last_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )

    def is_timed_out(self, now_ms: int) -> bool:
        """Whether it has been open for longer than its timeout."""
        return self.state is TransactionState.ONGOING and self.start_ms + self.timeout_ms < now_ms
