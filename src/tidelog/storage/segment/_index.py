"""The base of the offset and the time index: a file of fixed-size entries in ascending order, mapped into memory.

The file of an active segment is as long as `segment.index.bytes` allows, its unused rest full of zeros (and sparse); it
is trimmed to its entries when the segment is rolled or closed. The mapping is made at the first use and may be dropped
at any time, because a process has far fewer descriptors than a broker may have indexes (`_pools`).

A store into a hole of a mapped file allocates a block, and a full disk then kills the process with a signal. So a page
of the file is written through a descriptor, where a full disk is an ordinary `OSError`, before the first entry is
stored in it.
"""

import mmap
import os
from abc import ABC, abstractmethod
from typing import ClassVar, Final

from tidelog.storage._pools import MAPPINGS, map_descriptor, open_descriptor
from tidelog.storage.errors import CorruptIndexError
from tidelog.storage.replacing import unlink_if_exists

_PAGE_BYTES: Final = 4096
NOT_LOADED: Final = -1


class MappedIndex(ABC):
    """A memory-mapped file of `count` entries. `count` is `NOT_LOADED` until an existing file is first looked at."""

    __slots__ = ("_map", "_reserved_entries", "base_offset", "count", "max_entries", "path", "recently_used")

    entry_bytes: ClassVar[int]

    def __init__(self, path: str, base_offset: int, max_bytes: int, *, is_new: bool) -> None:
        self.path = path
        self.base_offset = base_offset
        self.max_entries = max_bytes // self.entry_bytes
        self.count = 0 if is_new else NOT_LOADED
        self.recently_used = False
        self._map: mmap.mmap | None = None
        self._reserved_entries = 0

    def create(self) -> None:
        """Create the file, preallocated and sparse."""
        fd = open_descriptor(self.path, os.O_CREAT | os.O_RDWR)
        try:
            os.ftruncate(fd, self.max_entries * self.entry_bytes)
        finally:
            os.close(fd)

    def load(self) -> None:
        """Count the entries of an existing file; one that is missing has none."""
        try:
            self.count = os.stat(self.path).st_size // self.entry_bytes
        except FileNotFoundError:
            self.count = 0
        self._load_last()

    @abstractmethod
    def _load_last(self) -> None:
        """Cache the last entry after `count` has changed otherwise than by an append."""

    def entries(self) -> int:
        """How many entries there are."""
        if self.count < 0:
            self.load()
        return self.count

    def size_bytes(self) -> int:
        """The bytes that hold entries."""
        return self.entries() * self.entry_bytes

    def release(self) -> None:
        """Drop the mapping; the entries stay in the file."""
        if self._map is not None:
            self._map.close()
            self._map = None
            MAPPINGS.discard(self)
        self._reserved_entries = 0

    def mapped(self) -> mmap.mmap:
        """The mapping, for reading the entries there are."""
        mapped = self._map
        if mapped is None:
            fd = open_descriptor(self.path, os.O_RDWR)
            try:
                mapped = self._map = map_descriptor(self.path, fd, 0)
            finally:
                os.close(fd)
            MAPPINGS.admit(self)
        self.recently_used = True
        return mapped

    def writable(self) -> mmap.mmap:
        """The mapping, with room for one more entry that can be stored without a fault."""
        if self._map is None or self.count >= self._reserved_entries:
            self._reserve()
        self.recently_used = True
        assert self._map is not None
        return self._map

    def _reserve(self) -> None:
        """Allocate blocks for the next page of entries; extend and map the file if necessary."""
        fd = open_descriptor(self.path, os.O_CREAT | os.O_RDWR)
        try:
            used_bytes = self.count * self.entry_bytes
            file_bytes = self.max_entries * self.entry_bytes
            if os.fstat(fd).st_size != file_bytes:
                self.release()
                os.ftruncate(fd, file_bytes)
            end_bytes = min(file_bytes, (used_bytes + self.entry_bytes + _PAGE_BYTES - 1) // _PAGE_BYTES * _PAGE_BYTES)
            os.pwrite(fd, bytes(end_bytes - used_bytes), used_bytes)
            if self._map is None:
                self._map = map_descriptor(self.path, fd, file_bytes)
                MAPPINGS.admit(self)
            self._reserved_entries = end_bytes // self.entry_bytes
        finally:
            os.close(fd)

    def keep(self, count: int) -> None:
        """Forget all but the first `count` entries."""
        if count != self.entries():
            self.count = count
            self._reserved_entries = 0
            self._load_last()

    def reset(self) -> None:
        """Forget all entries, before they are rebuilt."""
        self.count = 0
        self._reserved_entries = 0
        self._load_last()

    def trim(self) -> None:
        """Cut the file to its entries and unmap it: nothing will be appended for now."""
        if self.count < 0:
            return
        self.release()
        fd = open_descriptor(self.path, os.O_CREAT | os.O_RDWR)
        try:
            os.ftruncate(fd, self.count * self.entry_bytes)
        finally:
            os.close(fd)

    def rename(self, path: str) -> None:
        """Rename the file; if it does not exist, only the path changes."""
        if os.path.exists(self.path):
            os.rename(self.path, path)
        self.path = path

    def delete(self) -> bool:
        """Unmap and remove the file; whether it was there."""
        self.release()
        return unlink_if_exists(self.path)

    def check_length(self) -> None:
        """The file must hold whole entries."""
        length = os.stat(self.path).st_size
        if length % self.entry_bytes:
            raise CorruptIndexError(f"index {self.path}: its {length} bytes are not a multiple of {self.entry_bytes}")

    def search(self, key: bytes, start: int) -> int:
        """The number of entries whose bytes at `start` (of the entry) are at most `key`.

        Numbers in an entry are big-endian and not negative, so their bytes are in the same order as they are, and
        comparing slices spares converting them.
        """
        mapped = self.mapped()
        entry_bytes = self.entry_bytes
        width = len(key)
        low, high = 0, self.count
        while low < high:
            middle = (low + high) >> 1
            position = middle * entry_bytes + start
            if mapped[position : position + width] <= key:
                low = middle + 1
            else:
                high = middle
        return low
