"""The producers of a log: epochs, sequences, the last five batches, open transactions.

With it the log rejects a batch that is out of order or from a fenced producer, and answers a retried batch with the
offsets it already has. The state is rebuilt from the log; snapshots, taken when a segment is rolled and when the log is
closed, make it unnecessary to read all of it.

`Log` calls `check` before and `update` after it has assigned offsets to a batch; recovery and truncation `replay`.
"""

import os
from collections import deque
from collections.abc import Iterable
from typing import Final

from tidelog.records.batch import iterate_records
from tidelog.records.control import ControlType, control_type, parse_end_transaction_marker
from tidelog.records.header import NO_PRODUCER_EPOCH, SEQUENCE_MASK, TRANSACTIONAL_BIT, BatchHeader
from tidelog.storage.errors import CorruptSnapshotError
from tidelog.storage.names import DELETED_SUFFIX, SNAPSHOT_SUFFIX, offset_of, segment_path
from tidelog.storage.producers._entry import (
    NO_OFFSET,
    BatchMetadata,
    CompletedTransaction,
    ProducerEntry,
)
from tidelog.storage.producers.snapshot import SnapshotEntry, read_snapshot, write_snapshot
from tidelog.storage.producers.verification import OPEN, VerificationGuard, Verifications
from tidelog.storage.replacing import unlink_if_exists
from tidelog.storage.types import AppendOrigin
from tidelog.wire.errors import ApiError, ErrorCode

__all__ = [
    "BATCHES_KEPT",
    "DAY_MS",
    "NO_OFFSET",
    "BatchMetadata",
    "CompletedTransaction",
    "ProducerEntry",
    "ProducerStateManager",
    "list_snapshots",
]

BATCHES_KEPT: Final = 5
"""An idempotent producer has at most five requests in flight, so a retry is one of the last five batches."""

DAY_MS: Final = 86_400_000


class ProducerStateManager:
    """The producers of one log. `map_end_offset` is the offset up to which the state includes the log."""

    __slots__ = (
        "_last_snapshot_offset",
        "_snapshots",
        "directory",
        "expiration_ms",
        "is_recall_due",
        "map_end_offset",
        "ongoing",
        "partition",
        "producers",
        "unreplicated",
        "verifications",
    )

    def __init__(
        self,
        partition: str,
        directory: str,
        *,
        expiration_ms: int = DAY_MS,
        snapshots: list[int] | None = None,
    ) -> None:
        """`snapshots`: the offsets of the snapshot files, ascending; the directory is searched if not given."""
        self.partition = partition
        self.directory = directory
        self.expiration_ms = expiration_ms
        self.producers: dict[int, ProducerEntry] = {}
        self.ongoing: dict[int, int] = {}
        """Open transactions: first offset to producer id. First offsets only grow, so the first key is the smallest."""
        self.unreplicated: dict[int, int] = {}
        """Ended transactions whose marker is above the high watermark: first offset to the marker's offset."""
        self.verifications = Verifications()
        self.map_end_offset = 0
        self.is_recall_due = False
        """Producers came from a snapshot, which has only their last batch: the log may have more of their last five."""
        self._last_snapshot_offset = 0
        self._snapshots = list_snapshots(directory) if snapshots is None else snapshots

    def has_late_transaction(self, now_ms: int, after_ms: int) -> bool:
        """Whether a transaction is open and nothing was added to it for so long."""
        for producer_id in self.ongoing.values():
            entry = self.producers.get(producer_id)
            if entry is not None and 0 < entry.last_timestamp < now_ms - after_ms:
                return True
        return False

    # Appending

    def check(
        self,
        header: BatchHeader,
        origin: AppendOrigin,
    ) -> BatchMetadata | None:
        """Reject a batch with an ApiError, or return the batch it repeats, or None if it may be appended.

        An unknown producer may start with any sequence: its state may have expired, or been removed with deleted
        records (KIP-360). Offset commits of coordinators have no sequence; only their epoch is checked.
        """
        entry = self.producers.get(header.producer_id)
        if entry is None or origin is AppendOrigin.REPLICATION:
            return None
        epoch = header.producer_epoch
        if origin is AppendOrigin.CLIENT:
            duplicate = entry.find_duplicate(epoch, header.base_sequence, header.last_sequence)
            if duplicate is not None:
                return duplicate
        if epoch < entry.producer_epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} of {self.partition} wrote with epoch {epoch}, "
                f"but epoch {entry.producer_epoch} has already been seen",
            )
        if header.is_control:
            return None
        if origin is AppendOrigin.CLIENT:
            self._check_sequence(entry, epoch, header.base_sequence)
        if entry.transaction_first_offset >= 0 and not header.is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} of {self.partition} has a transaction open since offset "
                f"{entry.transaction_first_offset} and wrote a batch outside of it",
            )
        return None

    def _check_sequence(self, entry: ProducerEntry, epoch: int, first_sequence: int) -> None:
        if epoch != entry.producer_epoch:
            expected = 0 if entry.producer_epoch != NO_PRODUCER_EPOCH else first_sequence
        else:
            expected = (entry.last_sequence + 1) & SEQUENCE_MASK
        if first_sequence != expected:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {entry.producer_id} of {self.partition} wrote sequence {first_sequence} in epoch {epoch}; "
                f"expected {expected} after sequence {entry.last_sequence} of epoch {entry.producer_epoch}",
            )

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, begins_at_zero: bool = False
    ) -> VerificationGuard:
        """The guard to append a batch of a transaction with: `OPEN`, or one to use after verification."""
        if self.has_open_transaction(producer_id, producer_epoch):
            return OPEN
        return self.verifications.begin(producer_id, producer_epoch, sequence, now_ms, begins_at_zero=begins_at_zero)

    def is_verified(self, producer_id: int, producer_epoch: int, guard: VerificationGuard) -> bool:
        """Whether a batch may still be appended with `guard`: a marker may have been written since it was made."""
        if self.has_open_transaction(producer_id, producer_epoch):
            return True
        return guard is not OPEN and self.verifications.is_current(producer_id, guard)

    def check_verified(self, header: BatchHeader, guard: VerificationGuard) -> None:
        """Reject a batch of a transaction that is neither open here nor verified (KIP-890)."""
        producer_id = header.producer_id
        if not self.is_verified(producer_id, header.producer_epoch, guard):
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")
        if guard.begins_at_zero and header.base_sequence > 0 and producer_id not in self.producers:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} of {self.partition} wrote sequence {header.base_sequence} before any other; "
                "in transactions of version 2 it begins with 0",
            )
        if self.verifications.is_current(producer_id, guard) and guard.is_overtaken(header.base_sequence):
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} of {self.partition} wrote sequence {header.base_sequence}, "
                f"but {guard.lowest_sequence} comes first in its transaction",
            )

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a batch of this producer would continue an open transaction."""
        entry = self.producers.get(producer_id)
        return entry is not None and entry.transaction_first_offset >= 0 and entry.producer_epoch == producer_epoch

    def update(self, header: BatchHeader, first_offset: int) -> None:
        """Update the state with a data batch that has been appended at `first_offset`."""
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self.producers[header.producer_id] = ProducerEntry(header.producer_id)
        if entry.producer_epoch != header.producer_epoch:
            entry.set_epoch(header.producer_epoch)
        first_sequence = header.base_sequence
        delta = header.last_offset_delta
        last_sequence = first_sequence if first_sequence < 0 else (first_sequence + delta) & SEQUENCE_MASK
        timestamp = header.max_timestamp
        batches = entry.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(BatchMetadata(first_sequence, last_sequence, first_offset, first_offset + delta, timestamp))
        entry.last_sequence = last_sequence
        entry.last_timestamp = timestamp
        if header.attributes & TRANSACTIONAL_BIT and entry.transaction_first_offset < 0:
            entry.transaction_first_offset = first_offset
            self.ongoing[first_offset] = header.producer_id
            self.verifications.end(header.producer_id)

    def check_marker(self, header: BatchHeader, coordinator_epoch: int, origin: AppendOrigin) -> None:
        """Reject a marker of a coordinator that has been replaced; `check` has checked the producer epoch."""
        entry = self.producers.get(header.producer_id)
        if entry is not None and entry.coordinator_epoch > coordinator_epoch and origin is not AppendOrigin.REPLICATION:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"marker for producer {header.producer_id} of {self.partition} from coordinator epoch "
                f"{coordinator_epoch}, but {entry.coordinator_epoch} has already been seen",
            )

    def end_transaction(
        self, header: BatchHeader, offset: int, timestamp: int, coordinator_epoch: int, *, is_commit: bool
    ) -> CompletedTransaction | None:
        """Update the state with a marker that has been appended at `offset`; None if it ends no transaction with data.

        The caller puts an aborted transaction into the index and then calls `complete`.
        """
        producer_id = header.producer_id
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        first_offset = entry.transaction_first_offset
        self.verifications.end(producer_id)
        entry.set_epoch(header.producer_epoch)
        entry.transaction_first_offset = NO_OFFSET
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        if first_offset < 0:
            return None
        return CompletedTransaction(producer_id, first_offset, offset, not is_commit)

    def last_stable_offset(self, completed: CompletedTransaction) -> int:
        """The last stable offset once `completed` no longer counts as open."""
        for first_offset, producer_id in self.ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTransaction) -> None:
        """The transaction is over; it stays unstable until its marker is below the high watermark."""
        self.ongoing.pop(completed.first_offset, None)
        self.unreplicated[completed.first_offset] = completed.last_offset

    def replay(self, header: BatchHeader, batch: bytes | None) -> CompletedTransaction | None:
        """Update the state with a batch of the log; `batch` is its bytes if it is a control batch."""
        completed = None
        if header.producer_id >= 0:
            if not header.is_control:
                self.update(header, header.base_offset)
            elif batch is not None and header.record_count > 0:
                completed = self._replay_marker(header, batch)
        self.map_end_offset = header.next_offset
        return completed

    def _replay_marker(self, header: BatchHeader, batch: bytes) -> CompletedTransaction | None:
        for record in iterate_records(batch):
            if control_type(record) not in (ControlType.COMMIT, ControlType.ABORT):
                return None
            marker = parse_end_transaction_marker(record)
            return self.end_transaction(
                header, header.base_offset, record.timestamp, marker.coordinator_epoch, is_commit=marker.is_commit
            )
        return None

    def recall(self, batches: Iterable[BatchHeader]) -> None:
        """Remember batches from before the snapshot again; `batches` are those of the log, ascending."""
        self.is_recall_due = False
        earlier: dict[int, deque[BatchMetadata]] = {}
        for header in batches:
            entry = self.producers.get(header.producer_id)
            if entry is None or header.is_control or header.producer_epoch != entry.producer_epoch:
                continue
            if entry.batches and header.last_offset < entry.batches[0].first_offset:
                kept = earlier.setdefault(header.producer_id, deque(maxlen=BATCHES_KEPT))
                kept.append(_metadata_of(header))
        for producer_id, kept in earlier.items():
            known = self.producers[producer_id].batches
            known[:0] = list(kept)[-(BATCHES_KEPT - len(known)) :] if len(known) < BATCHES_KEPT else []

    # Queries

    def first_unstable_offset(self) -> int | None:
        """The first offset whose transaction is open, or ended but not yet below the high watermark."""
        candidates = []
        if self.ongoing:
            candidates.append(next(iter(self.ongoing)))
        if self.unreplicated:
            candidates.append(min(self.unreplicated))
        return min(candidates, default=None)

    def active_producers(self) -> list[ProducerEntry]:
        """All producers, for DescribeProducers."""
        return list(self.producers.values())

    def is_empty(self) -> bool:
        """Whether there is no state that truncation could change."""
        return not self.producers and not self.unreplicated

    # Following the log

    def on_high_watermark(self, high_watermark: int) -> None:
        """Transactions whose marker is below the high watermark are stable."""
        unreplicated = self.unreplicated
        for first_offset in [first for first, last in unreplicated.items() if last < high_watermark]:
            del unreplicated[first_offset]

    def on_log_start_offset(self, log_start_offset: int) -> None:
        """Records before `log_start_offset` were removed; producers stay until they expire."""
        self.on_high_watermark(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        self._last_snapshot_offset = self._snapshots[-1] if self._snapshots else log_start_offset

    def remove_expired(self, now_ms: int) -> int:
        """Remove producers that have been idle for `producer.id.expiration.ms`; returns how many."""
        self.verifications.remove_expired(now_ms - self.expiration_ms)
        expired = [key for key, entry in self.producers.items() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self.producers[producer_id]
        return len(expired)

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.transaction_first_offset < 0 and now_ms - entry.last_timestamp >= self.expiration_ms

    # Snapshots

    def snapshot_offsets(self) -> list[int]:
        """The offsets of the snapshot files, ascending."""
        return list(self._snapshots)

    def snapshot_path(self, offset: int) -> str:
        """The file of the snapshot at `offset`."""
        return segment_path(self.directory, offset, SNAPSHOT_SUFFIX)

    def take_snapshot(self, *, sync: bool = True) -> str | None:
        """Write a snapshot at `map_end_offset` unless there is one; its path."""
        offset = self.map_end_offset
        if offset <= self._last_snapshot_offset:
            return None
        path = self.snapshot_path(offset)
        write_snapshot(path, [entry.snapshot() for entry in self.producers.values()], sync=sync)
        if offset not in self._snapshots:
            self._snapshots.append(offset)
            self._snapshots.sort()
        self._last_snapshot_offset = offset
        return path

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """The log now spans these offsets: drop snapshots outside of it and, if its end moved, load the newest."""
        for offset in self.snapshot_offsets():
            if offset > log_end_offset or offset <= log_start_offset:
                self.remove_snapshot(offset)
        if log_end_offset == self.map_end_offset:
            self.on_log_start_offset(log_start_offset)
            return
        self._clear()
        self._load_newest_snapshot(log_start_offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """The log is empty and starts at `offset`."""
        self._clear()
        for snapshot in self.snapshot_offsets():
            self.remove_snapshot(snapshot)
        self._last_snapshot_offset = 0
        self.map_end_offset = offset

    def _clear(self) -> None:
        self.producers.clear()
        self.ongoing.clear()
        self.unreplicated.clear()
        self.verifications.clear()
        self.is_recall_due = False

    def _load_newest_snapshot(self, log_start_offset: int, now_ms: int) -> None:
        """Load the newest readable snapshot; delete unreadable ones, which would be tried again otherwise."""
        while self._snapshots:
            offset = self._snapshots[-1]
            try:
                saved = read_snapshot(self.snapshot_path(offset))
            except (CorruptSnapshotError, FileNotFoundError):
                self.remove_snapshot(offset)
                continue
            self.load_entries(saved, now_ms)
            self.map_end_offset = self._last_snapshot_offset = offset
            return
        self.map_end_offset = self._last_snapshot_offset = log_start_offset

    def load_entries(self, saved: list[SnapshotEntry], now_ms: int) -> None:
        """Load the producers of a snapshot that have not expired since."""
        entries = [ProducerEntry.from_snapshot(item) for item in saved]
        for entry in entries:
            if not self._is_expired(entry, now_ms):
                self.producers[entry.producer_id] = entry
        self.is_recall_due = bool(self.producers)
        opened = [(entry.transaction_first_offset, entry.producer_id) for entry in self.producers.values()]
        self.ongoing = dict(sorted(item for item in opened if item[0] >= 0))

    def remove_snapshot(self, offset: int) -> None:
        """Delete the snapshot at `offset`, if there is one."""
        if offset in self._snapshots:
            self._snapshots.remove(offset)
            unlink_if_exists(self.snapshot_path(offset))

    def mark_snapshot_deleted(self, offset: int) -> str | None:
        """Rename the snapshot at `offset` to `.deleted`, because its segment is deleted; its new path, if any."""
        if offset not in self._snapshots:
            return None
        self._snapshots.remove(offset)
        path = self.snapshot_path(offset)
        try:
            os.rename(path, path + DELETED_SUFFIX)
        except FileNotFoundError:
            return None
        return path + DELETED_SUFFIX

    def remove_stray_snapshots(self, segment_base_offsets: set[int]) -> None:
        """Delete snapshots that belong to no segment, except a newest one above all segments: a clean shutdown's."""
        strays = [offset for offset in self._snapshots if offset not in segment_base_offsets]
        if strays and strays[-1] >= max(segment_base_offsets, default=-1):
            strays.pop()
        for offset in strays:
            self.remove_snapshot(offset)

    def take_over(self, state: "ProducerStateManager") -> None:
        """Take over the producers of a log with the same batches, which is not used any more."""
        self.producers = state.producers
        self.ongoing = state.ongoing
        self.unreplicated = state.unreplicated
        self.verifications = state.verifications
        self.is_recall_due = state.is_recall_due

    def move_to(self, directory: str) -> None:
        """The directory has been renamed."""
        self.directory = directory


def _metadata_of(header: BatchHeader) -> BatchMetadata:
    return BatchMetadata(
        header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp
    )


def list_snapshots(directory: str) -> list[int]:
    """The offsets of the snapshot files in a directory, ascending."""
    found = (offset_of(name) for name in os.listdir(directory) if name.endswith(SNAPSHOT_SUFFIX))
    return sorted(offset for offset in found if offset is not None)
