"""The state of one producer in a log: its epoch, its last batches, its open transaction.

`ProducerStateManager` keeps one for each producer; snapshots store part of it.
"""

from typing import Final, NamedTuple

from tidelog.records.header import NO_PRODUCER_EPOCH, SEQUENCE_MASK
from tidelog.storage.producers.snapshot import SnapshotEntry

NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1


class BatchMetadata(NamedTuple):
    """One of the last batches of a producer."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has just ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerEntry:
    """The state of one producer. `last_sequence` is that of the last batch, -1 when none is known in this epoch."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "last_sequence",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.last_sequence = NO_SEQUENCE
        self.transaction_first_offset = NO_OFFSET
        self.batches: list[BatchMetadata] = []

    @property
    def last_offset(self) -> int:
        """The offset of the last data record, -1 when none is known."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def set_epoch(self, producer_epoch: int) -> None:
        """A new epoch starts its own sequence."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.last_sequence = NO_SEQUENCE
            self.batches.clear()

    def find_duplicate(self, producer_epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """The kept batch with the same sequences, if this is one that was appended before."""
        if producer_epoch == self.producer_epoch:
            for batch in self.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
        return None

    def snapshot(self) -> SnapshotEntry:
        """The entry for a snapshot file."""
        last = self.batches[-1] if self.batches else BatchMetadata(NO_SEQUENCE, NO_SEQUENCE, 0, NO_OFFSET, -1)
        return SnapshotEntry(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            last_sequence=last.last_sequence,
            last_offset=last.last_offset,
            offset_delta=last.last_offset - last.first_offset if self.batches else 0,
            timestamp=self.last_timestamp,
            coordinator_epoch=self.coordinator_epoch,
            transaction_first_offset=self.transaction_first_offset,
        )

    @classmethod
    def from_snapshot(cls, saved: SnapshotEntry) -> "ProducerEntry":
        """The state from an entry of a snapshot file."""
        entry = cls(saved.producer_id)
        entry.producer_epoch = saved.producer_epoch
        entry.coordinator_epoch = saved.coordinator_epoch
        entry.last_timestamp = saved.timestamp
        entry.transaction_first_offset = saved.transaction_first_offset if saved.transaction_first_offset >= 0 else -1
        if saved.last_offset >= 0:
            first_sequence = (saved.last_sequence - saved.offset_delta) & SEQUENCE_MASK
            first_offset = saved.last_offset - saved.offset_delta
            entry.last_sequence = saved.last_sequence
            entry.batches.append(
                BatchMetadata(first_sequence, saved.last_sequence, first_offset, saved.last_offset, saved.timestamp)
            )
        return entry
