"""A run: a file of entries of 32 bytes, sorted, which never changes. Entries are taken from its front."""

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import Final

from tidelog.records.delayed import ENTRY_BYTES
from tidelog.storage._files import OpenFile

_WINDOW_ENTRIES: Final = 128
_COPIED_ENTRIES: Final = 4096


class Run:
    """An open run. Memory holds a window of a few entries, whatever the size of the file."""

    __slots__ = ("_file", "_window", "_window_start", "count", "head", "number", "path")

    def __init__(self, path: str, number: int, count: int, head: int = 0) -> None:
        self.path = path
        self.number = number
        self.count = count
        self.head = head
        """The first entry that was not taken."""
        self._file = OpenFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        self._window = b""
        self._window_start = 0

    def __len__(self) -> int:
        return self.count - self.head

    def entry(self, index: int) -> bytes:
        """The entry at an index of the file."""
        start = index - self._window_start
        if not 0 <= start < len(self._window) // ENTRY_BYTES:
            self._window = self.read(index, _WINDOW_ENTRIES)
            self._window_start = index
            start = 0
        return self._window[start * ENTRY_BYTES : (start + 1) * ENTRY_BYTES]

    def read(self, index: int, count: int) -> bytes:
        """The bytes of up to `count` entries from an index on."""
        count = min(count, self.count - index)
        data = os.pread(self._file.fd, count * ENTRY_BYTES, index * ENTRY_BYTES)
        if len(data) != count * ENTRY_BYTES:
            raise OSError(f"{self.path} ends before entry {index + count}")
        return data

    def entries(self, index: int | None = None) -> Iterator[bytes]:
        """The entries from `index`, or from the head, on."""
        index = self.head if index is None else index
        while index < self.count:
            data = self.read(index, _WINDOW_ENTRIES)
            yield from (data[at : at + ENTRY_BYTES] for at in range(0, len(data), ENTRY_BYTES))
            index += _WINDOW_ENTRIES

    def has(self, entry: bytes) -> bool:
        """Whether an entry is in the run and was not taken."""
        found = bisect_left(range(self.count), entry, lo=self.head, key=self.entry)
        return found < self.count and self.entry(found) == entry


def write_run(path: str, entries: Iterable[bytes]) -> int:
    """Write sorted entries to a new file; returns their number. It is not synced."""
    count = 0
    pending: list[bytes] = []
    with open(path, "wb", buffering=0) as file:
        for entry in entries:
            pending.append(entry)
            if len(pending) == _COPIED_ENTRIES:
                file.write(b"".join(pending))
                count += len(pending)
                pending.clear()
        if pending:
            file.write(b"".join(pending))
    return count + len(pending)


def merge_runs(path: str, sources: Sequence[tuple[str, int, int]]) -> int:
    """Merge runs, each given by path, count and head, into a new and synced one; for a thread of its own."""
    runs = [Run(source, 0, count, head) for source, count, head in sources]
    count = write_run(path, merge(*(run.entries() for run in runs)))
    sync_file(path)
    return count


def sync_file(path: str) -> None:
    """Sync a file by its name."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
