"""The transaction index of a segment: the aborted transactions that end in it.

The response to a read-committed fetch has them, so that the consumer can skip their records. The file exists only if a
transaction was aborted; an entry is 34 bytes. `Segment` owns it; `tidelog log dump` reads it.
"""

import os
from struct import Struct
from typing import Final, NamedTuple

from tidelog.storage._pools import open_descriptor, read_whole
from tidelog.storage.errors import CorruptIndexError
from tidelog.storage.replacing import unlink_if_exists

TRANSACTION_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted: its data lies in `first_offset` … `last_offset`, where the marker is.

    `last_stable_offset` is what the last stable offset was when the marker was written: no transaction that began
    before it can end after this one.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Aborted transactions in the order in which they ended. Read from the file at the first use."""

    __slots__ = ("_entries", "base_offset", "path")

    def __init__(self, path: str, base_offset: int, *, is_new: bool) -> None:
        self.path = path
        self.base_offset = base_offset
        self._entries: list[AbortedTransaction] | None = [] if is_new else None

    def entries(self) -> list[AbortedTransaction]:
        """All entries. The list is the index's own."""
        if self._entries is None:
            self._entries = read_transaction_index(self.path)
        return self._entries

    def append(self, transaction: AbortedTransaction) -> None:
        """Add an aborted transaction; it must end after all that are there."""
        entries = self.entries()
        assert not entries or transaction.last_offset > entries[-1].last_offset, (
            f"aborted transaction ends at {transaction.last_offset}, after {entries[-1].last_offset} in {self.path}"
        )
        fd = open_descriptor(self.path, os.O_CREAT | os.O_WRONLY)
        try:
            os.pwrite(fd, TRANSACTION_ENTRY.pack(_VERSION, *transaction), len(entries) * TRANSACTION_ENTRY.size)
        finally:
            os.close(fd)
        entries.append(transaction)

    def collect(self, start_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions that overlap [start_offset, end_offset), and whether later segments hold no more."""
        found = []
        for entry in self.entries():
            if entry.last_offset >= start_offset and entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Forget the transactions that end at or above `offset`."""
        entries = self.entries()
        kept = [entry for entry in entries if entry.last_offset < offset]
        if len(kept) < len(entries):
            os.truncate(self.path, len(kept) * TRANSACTION_ENTRY.size)
            self._entries = kept

    def reset(self) -> None:
        """Forget everything, before it is rebuilt. The file may be half an entry too long, so it is not read."""
        if os.path.exists(self.path):
            os.truncate(self.path, 0)
        self._entries = []

    def sanity_check(self) -> None:
        """Raise CorruptIndexError when the file cannot be an index of this segment."""
        for entry in self.entries():
            if entry.last_offset < self.base_offset:
                raise CorruptIndexError(
                    f"transaction index {self.path}: a transaction ends at {entry.last_offset}, "
                    f"below the base offset {self.base_offset}"
                )

    def rename(self, path: str) -> None:
        """Give the file another name, if it exists."""
        if os.path.exists(self.path):
            os.rename(self.path, path)
        self.path = path

    def delete(self) -> bool:
        """Remove the file; whether it was there."""
        return unlink_if_exists(self.path)


def read_transaction_index(path: str) -> list[AbortedTransaction]:
    """The entries of a transaction index file; none when it does not exist."""
    try:
        data = read_whole(path)
    except FileNotFoundError:
        return []
    if len(data) % TRANSACTION_ENTRY.size:
        raise CorruptIndexError(f"transaction index {path}: its {len(data)} bytes are not whole entries")
    entries = []
    for version, *fields in TRANSACTION_ENTRY.iter_unpack(data):
        if version != _VERSION:
            raise CorruptIndexError(f"transaction index {path}: unknown version {version}")
        entries.append(AbortedTransaction(*fields))
    return entries
