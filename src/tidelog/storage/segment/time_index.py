"""The time index of a segment: maps timestamps to offsets.

An entry is twelve bytes: the largest timestamp so far, and the offset (relative to the base offset) of the last record
of the batch that has it. Timestamps strictly ascend, offsets never decrease; records before the offset of an entry are
not later than its timestamp. `Segment` owns it; `tidelog log dump` reads it.
"""

from struct import Struct
from typing import ClassVar, Final

from tidelog.storage.errors import CorruptIndexError
from tidelog.storage.segment._index import MappedIndex

TIME_ENTRY: Final = Struct(">qi")
"""Timestamp, offset relative to the base offset."""
_MAX_RELATIVE_OFFSET: Final = 0x7FFFFFFF
_NO_TIMESTAMP: Final = -1


class TimeIndex(MappedIndex):
    """Timestamps and offsets, both ascending."""

    __slots__ = ("last_offset", "last_timestamp")

    entry_bytes: ClassVar[int] = TIME_ENTRY.size

    def __init__(self, path: str, base_offset: int, max_bytes: int, *, is_new: bool) -> None:
        super().__init__(path, base_offset, max_bytes, is_new=is_new)
        self.last_timestamp = _NO_TIMESTAMP
        self.last_offset = base_offset

    def _load_last(self) -> None:
        if self.count:
            self.last_timestamp, relative = TIME_ENTRY.unpack_from(self.mapped(), (self.count - 1) * 12)
            self.last_offset = self.base_offset + relative
        else:
            self.last_timestamp, self.last_offset = _NO_TIMESTAMP, self.base_offset

    def is_full(self) -> bool:
        """Whether there is room for only one more entry, which the roll needs."""
        return self.entries() >= self.max_entries - 1

    def last_entry(self) -> tuple[int, int]:
        """The largest indexed timestamp and its offset; (-1, base offset) when there is none."""
        if self.count < 0:
            self.load()
        return self.last_timestamp, self.last_offset

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if its timestamp is larger than the last one."""
        count = self.entries()
        if timestamp <= self.last_timestamp or count >= self.max_entries:
            return
        assert not count or offset >= self.last_offset, (
            f"offset {offset} after {self.last_offset} in time index {self.path}"
        )
        TIME_ENTRY.pack_into(self.writable(), count * 12, timestamp, offset - self.base_offset)
        self.count = count + 1
        self.last_timestamp = timestamp
        self.last_offset = offset

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry at or before `timestamp` as (timestamp, offset); (-1, base offset) when there is none."""
        if self.count < 0:
            self.load()
        if timestamp >= self.last_timestamp:
            return self.last_timestamp, self.last_offset
        if timestamp < 0:
            return _NO_TIMESTAMP, self.base_offset
        slot = self.search(timestamp.to_bytes(8, "big"), 0)
        return self.entry(slot - 1) if slot else (_NO_TIMESTAMP, self.base_offset)

    def entry(self, slot: int) -> tuple[int, int]:
        """Entry number `slot` as (timestamp, offset)."""
        if not 0 <= slot < self.entries():
            raise IndexError(f"entry {slot} of {self.count} in {self.path}")
        timestamp, relative = TIME_ENTRY.unpack_from(self.mapped(), slot * 12)
        return timestamp, self.base_offset + relative

    def truncate_to(self, offset: int) -> None:
        """Forget the entries whose offset is at or above `offset`."""
        relative = offset - self.base_offset - 1
        if not self.entries():
            return
        if relative < 0:
            self.keep(0)
        elif relative < _MAX_RELATIVE_OFFSET:
            self.keep(self.search(relative.to_bytes(4, "big"), 8))

    def sanity_check(self) -> None:
        """Raise CorruptIndexError when the file cannot be an index of this segment."""
        self.check_length()
        if not self.entries():
            return
        first_timestamp, _ = self.entry(0)
        if self.last_timestamp < first_timestamp:
            raise CorruptIndexError(
                f"time index {self.path}: last timestamp {self.last_timestamp} is below the first, {first_timestamp}"
            )
        if self.last_offset < self.base_offset:
            raise CorruptIndexError(
                f"time index {self.path}: last offset {self.last_offset} is below the base offset {self.base_offset}"
            )
