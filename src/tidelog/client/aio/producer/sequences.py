"""Idempotence: which producer id, epoch and sequence each batch carries, and what its answer means for the others.

A broker takes the batches of a producer in the order of their sequences and each of them once. So a batch that may have
been stored must be sent again with the same numbers, and a batch that was certainly not stored leaves a gap that no
later batch can cross. The way across is a new epoch, in which sequences begin at 0 again (KIP-360): a producer without
transactions raises its epoch by itself, a transactional one asks its coordinator after the abort. Batches before the
gap may have been stored, and get their answer under their old numbers first: in a new epoch they would be stored again.

Pure: no clock, no sockets. The accumulator asks `may_send` and calls `assign` when it drains; the sender reports what
became of batches.
"""

from typing import Final, NamedTuple

from tidelog.client.aio.producer.batch import ProducerBatch, ProducerState, next_sequence
from tidelog.wire.errors import ErrorCode

EPOCH_MAX: Final = 0x7FFF
NO_SEQUENCE: Final = -1
_SEQUENCES: Final = 1 << 31


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int


NO_IDENTITY: Final = ProducerIdentity(-1, -1)


class PartitionSequences:
    """The sequence of one partition."""

    __slots__ = ("gap", "identity", "in_flight", "last_acked", "last_acked_offset", "next", "unresolved_after")

    def __init__(self) -> None:
        self.identity = NO_IDENTITY
        self.next = 0
        self.last_acked = NO_SEQUENCE
        self.last_acked_offset = -1
        self.in_flight: list[ProducerBatch] = []
        """Batches with a sequence and no final answer, in order; on the wire or waiting to be sent again."""
        self.unresolved_after: int | None = None
        """A batch was given up though it may have been stored; this sequence would follow it."""
        self.gap: int | None = None
        """The first sequence that will never be stored; the epoch is raised for what follows it."""

    def is_next(self, sequence: int) -> bool:
        """Whether `sequence` is the one after the last that was acknowledged."""
        expected = 0 if self.last_acked == NO_SEQUENCE else next_sequence(self.last_acked, 1)
        return sequence == expected

    @property
    def is_open_before_gap(self) -> bool:
        """Whether a batch before the gap still waits for its final answer."""
        gap = self.gap
        return gap is not None and any(_is_later(gap, batch.state.base_sequence) for batch in self.in_flight)


class SequenceTracker:
    """The identity of one producer and the sequences of its partitions."""

    def __init__(self, *, is_transactional: bool) -> None:
        self.is_transactional = is_transactional
        self.identity = NO_IDENTITY
        self.needs_identity = True
        """Whether InitProducerId must be asked before anything is sent."""
        self.needs_epoch_bump = False
        """Transactional producers: the epoch must be raised, by the coordinator, after the abort."""
        self.lost_track = False
        """Transactional producers: what was given up may have been stored or not; only an abort clears that."""
        self._partitions: list[PartitionSequences] = []
        self._to_rewrite: list[PartitionSequences] = []
        self._unresolved: list[PartitionSequences] = []

    def partition(self) -> PartitionSequences:
        """The sequence of another partition."""
        made = PartitionSequences()
        self._partitions.append(made)
        return made

    # The identity.

    def take_identity(self, identity: ProducerIdentity) -> None:
        """The answer to InitProducerId."""
        self.identity = identity
        self.needs_identity = False
        self.needs_epoch_bump = self.lost_track = False
        if self.is_transactional:
            for partition in self._partitions:
                self._restart(partition)

    def bump_if_needed(self) -> None:
        """Raise the epoch of a producer without transactions, if a gap asks for it. The sender calls this each turn."""
        self._resolve()
        rewrite = [each for each in self._to_rewrite if not each.is_open_before_gap]
        if not rewrite or self.needs_identity:
            return
        if self.identity.epoch >= EPOCH_MAX:
            self.identity = NO_IDENTITY
            self.needs_identity = True
            return
        self.identity = ProducerIdentity(self.identity.producer_id, self.identity.epoch + 1)
        for partition in rewrite:
            self._to_rewrite.remove(partition)
            self._restart(partition)

    def _restart(self, partition: PartitionSequences) -> None:
        """Begin at 0 in the current epoch; batches that were sent already are renumbered, in their order."""
        partition.identity = self.identity
        partition.last_acked = NO_SEQUENCE
        partition.last_acked_offset = -1
        partition.unresolved_after = None
        partition.gap = None
        sequence = 0
        for batch in partition.in_flight:
            batch.state = ProducerState(*self.identity, sequence)
            sequence = next_sequence(sequence, batch.count)
        partition.next = sequence

    def _request_bump(self, partition: PartitionSequences, gap: int) -> None:
        """Ask for a new epoch: `gap` and what follows it was not stored and will not be under its old numbers."""
        if self.is_transactional:
            self.needs_epoch_bump = True
            return
        if partition.gap is None or _is_later(partition.gap, gap):
            partition.gap = gap
        if partition not in self._to_rewrite:
            self._to_rewrite.append(partition)

    # Draining.

    def may_send(self, partition: PartitionSequences, first: ProducerBatch) -> bool:
        """Whether `first`, the head of its queue, may go to the wire now."""
        if self.identity is NO_IDENTITY:
            return False
        if first.has_sequence:
            # It is being sent again: one at a time, the oldest first, until the order is restored.
            return not partition.in_flight or partition.in_flight[0] is first
        if partition.unresolved_after is not None or partition.gap is not None:
            return False
        if not partition.in_flight:
            return True
        # A batch of the new epoch must not overtake those of the old one. And a broker that knows nothing of a producer
        # takes any sequence: until it has stored the first batch, a second one could slip in before it.
        return partition.identity == self.identity and partition.last_acked != NO_SEQUENCE

    def assign(self, partition: PartitionSequences, batch: ProducerBatch) -> None:
        """Number a batch that is drained for the first time."""
        if batch.has_sequence:
            return
        if partition.identity != self.identity:
            self._restart(partition)
        batch.state = ProducerState(*self.identity, partition.next)
        batch.is_transactional = self.is_transactional
        partition.next = next_sequence(partition.next, batch.count)
        partition.in_flight.append(batch)

    # Answers.

    def completed(self, partition: PartitionSequences, batch: ProducerBatch, base_offset: int) -> None:
        """A batch was stored, now or before."""
        if not self._remove(partition, batch):
            return
        if batch.was_renumbered:
            # It was on the wire under its old numbers when the epoch was raised: the rest moves up by one.
            if partition.last_acked == NO_SEQUENCE:
                self._restart(partition)
            return
        if _is_later(batch.last_sequence, partition.last_acked):
            partition.last_acked = batch.last_sequence
        if base_offset >= 0:
            partition.last_acked_offset = max(partition.last_acked_offset, base_offset + batch.count - 1)

    def may_retry(
        self, partition: PartitionSequences, batch: ProducerBatch, code: int, log_start_offset: int
    ) -> bool | None:
        """Whether a refused batch is to be sent again; None when the code alone decides.

        An epoch bump is noted where the broker and we cannot come together without one.
        """
        if code == ErrorCode.UNKNOWN_PRODUCER_ID:
            return self._may_retry_unknown_producer(partition, batch, log_start_offset)
        if code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return None
        is_next = partition.is_next(batch.state.base_sequence)
        if partition.unresolved_after is None and (batch.was_renumbered or not is_next):
            return True  # an earlier batch comes first; when it is through, this one fits
        if self.is_transactional:
            return None
        if partition.unresolved_after is None or partition.unresolved_after == batch.state.base_sequence:
            self._request_bump(partition, batch.state.base_sequence)
        return True

    def _may_retry_unknown_producer(
        self, partition: PartitionSequences, batch: ProducerBatch, log_start_offset: int
    ) -> bool | None:
        if log_start_offset == -1 or batch.was_renumbered:
            return True
        if partition.last_acked_offset < log_start_offset:
            # Retention deleted our last records and the broker's producer state: start again at 0, nothing is lost.
            if self.is_transactional:
                self._restart(partition)
            else:
                self._request_bump(partition, batch.state.base_sequence)
            return True
        if self.is_transactional:
            return None
        self._request_bump(partition, batch.state.base_sequence)
        return True

    def failed(self, partition: PartitionSequences, batch: ProducerBatch, code: int) -> None:
        """A batch was given up and certainly not stored, so those after it do not fit any more."""
        if not self._remove(partition, batch):
            return
        if code == ErrorCode.UNKNOWN_PRODUCER_ID and self.is_transactional:
            self.needs_epoch_bump = True
            self._restart(partition)
        elif self.is_transactional and code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._close_gap(partition, batch)
        else:
            self._request_bump(partition, batch.state.base_sequence)

    def given_up_unanswered(self, partition: PartitionSequences, batch: ProducerBatch) -> None:
        """A batch that was sent expired before its answer: the results of later batches show whether it was stored."""
        if batch not in partition.in_flight:
            return
        after = next_sequence(batch.last_sequence, 1)
        if partition not in self._unresolved:
            self._unresolved.append(partition)
        if partition.unresolved_after is None or _is_later(after, partition.unresolved_after):
            partition.unresolved_after = after
        self._remove(partition, batch)

    def divided(self, partition: PartitionSequences, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """A batch was cut into parts, which take its place in the sequence."""
        if batch in partition.in_flight:
            place = partition.in_flight.index(batch)
            partition.in_flight[place : place + 1] = parts

    def _close_gap(self, partition: PartitionSequences, batch: ProducerBatch) -> None:
        """Move later batches forward, so that the transaction could go on (it is aborted, but their order matters)."""
        for later in partition.in_flight:
            if _is_later(later.state.base_sequence, batch.state.base_sequence):
                moved = (later.state.base_sequence - batch.count) % _SEQUENCES
                later.state = later.state._replace(base_sequence=moved)
        partition.next = (partition.next - batch.count) % _SEQUENCES

    def _resolve(self) -> None:
        """Find out about batches that were given up unanswered, once nothing is in flight behind them."""
        for partition in list(self._unresolved):
            if partition.unresolved_after is not None and partition.in_flight:
                continue
            if partition.unresolved_after is not None and not partition.is_next(partition.next):
                if self.is_transactional:
                    self.lost_track = True
                self._request_bump(partition, partition.next)
            partition.unresolved_after = None
            self._unresolved.remove(partition)

    @staticmethod
    def _remove(partition: PartitionSequences, batch: ProducerBatch) -> bool:
        try:
            partition.in_flight.remove(batch)
        except ValueError:
            return False
        return True


def _is_later(sequence: int, other: int) -> bool:
    """Whether `sequence` comes after `other`, given that numbers begin again after 2^31 - 1."""
    if other == NO_SEQUENCE:
        return True
    return 0 < (sequence - other) % _SEQUENCES < _SEQUENCES // 2
