"""Tracks transactions while the cleaner reads a log from its start.

Batches of aborted transactions are removed, whatever their keys. A marker stays until all batches of its transaction
are removed and, like a tombstone, for `delete.retention.ms` more: a consumer that has read some of the transaction must
see its outcome.

Records at or above the last stable offset are never cleaned, so every transaction here has ended, and the aborted ones
are in the transaction indexes.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from tidelog.records.batch import iterate_records
from tidelog.records.compression import Buffer
from tidelog.records.control import ControlType, control_type
from tidelog.records.header import BatchHeader
from tidelog.storage.segment.transaction_index import AbortedTransaction


class AbortedTransactions:
    """The aborted transactions of a log, from the indexes of all its segments."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[AbortedTransaction]) -> None:
        self._entries = sorted(entries, key=lambda entry: entry.last_offset)

    def overlapping(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The transactions with records in [start_offset, end_offset)."""
        return [
            entry for entry in self._entries if entry.last_offset >= start_offset and entry.first_offset < end_offset
        ]


class _Ongoing:
    """An aborted transaction whose marker has not been read yet."""

    __slots__ = ("has_batches", "transaction")

    def __init__(self, transaction: AbortedTransaction) -> None:
        self.transaction = transaction
        self.has_batches = False


class TransactionTracker:
    """Follows the transactions of a log, batch by batch."""

    __slots__ = ("_aborted", "_committed", "_upcoming", "still_indexed")

    def __init__(self) -> None:
        self._upcoming: list[tuple[int, int, AbortedTransaction]] = []
        self._aborted: dict[int, _Ongoing] = {}
        self._committed: set[int] = set()
        self.still_indexed: list[AbortedTransaction] = []
        """Aborted transactions whose marker stays: the cleaned segment's index needs them."""

    def expect(self, transactions: Sequence[AbortedTransaction]) -> None:
        """Add aborted transactions with records in the part that is read next; a repetition does no harm."""
        for transaction in transactions:
            heappush(self._upcoming, (transaction.first_offset, transaction.producer_id, transaction))

    def take_still_indexed(self) -> list[AbortedTransaction]:
        """Return and clear the entries for the transaction index of the segment that is being finished."""
        taken, self.still_indexed = self.still_indexed, []
        return taken

    def on_data(self, header: BatchHeader) -> bool:
        """Whether the data batch just read belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        ongoing = self._aborted.get(header.producer_id)
        if ongoing is None:
            self._committed.add(header.producer_id)
            return False
        ongoing.has_batches = True
        return True

    def on_control(self, header: BatchHeader, window: Buffer, position: int) -> bool:
        """Whether the transaction that the control batch just read ends has no batches left."""
        self._begin_up_to(header.last_offset)
        if not header.record_count:
            return True
        kind = control_type(next(iterate_records(window, position)))
        if kind is ControlType.ABORT:
            ongoing = self._aborted.pop(header.producer_id, None)
            if ongoing is not None and ongoing.has_batches:
                self.still_indexed.append(ongoing.transaction)
                return False
            return True
        if kind is ControlType.COMMIT:
            if header.producer_id in self._committed:
                self._committed.remove(header.producer_id)
                return False
            return True
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._upcoming and self._upcoming[0][0] <= offset:
            _, producer_id, transaction = heappop(self._upcoming)
            self._aborted.setdefault(producer_id, _Ongoing(transaction))
