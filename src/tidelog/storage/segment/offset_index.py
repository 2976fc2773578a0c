"""The offset index of a segment: maps offsets to positions in the log file, every few kilobytes.

An entry is eight bytes: the offset relative to the segment's base offset, and the position of the batch that ends with
that offset. `Segment` owns it; `tidelog log dump` reads it.
"""

from struct import Struct
from typing import ClassVar, Final

from tidelog.storage.errors import CorruptIndexError
from tidelog.storage.segment._index import MappedIndex

OFFSET_ENTRY: Final = Struct(">ii")
"""Offset relative to the base offset, position."""
_TWO_ENTRIES: Final = Struct(">iiii")
MAX_RELATIVE_OFFSET: Final = 0x7FFFFFFF


class OffsetIndex(MappedIndex):
    """Offsets and positions, both ascending."""

    __slots__ = ("last_offset", "last_position")

    entry_bytes: ClassVar[int] = OFFSET_ENTRY.size

    def __init__(self, path: str, base_offset: int, max_bytes: int, *, is_new: bool) -> None:
        super().__init__(path, base_offset, max_bytes, is_new=is_new)
        self.last_offset = base_offset
        self.last_position = 0

    def _load_last(self) -> None:
        if self.count:
            relative, self.last_position = OFFSET_ENTRY.unpack_from(self.mapped(), (self.count - 1) * 8)
            self.last_offset = self.base_offset + relative
        else:
            self.last_offset, self.last_position = self.base_offset, 0

    def is_full(self) -> bool:
        """Whether there is no room for another entry, so that the segment must be rolled."""
        return self.entries() >= self.max_entries

    def append(self, offset: int, position: int) -> None:
        """Add an entry; offsets must ascend."""
        count = self.entries()
        assert count == 0 or offset > self.last_offset, (
            f"offset {offset} after {self.last_offset} in offset index {self.path}"
        )
        assert count < self.max_entries, f"offset index {self.path} is full with {count} entries"
        OFFSET_ENTRY.pack_into(self.writable(), count * 8, offset - self.base_offset, position)
        self.count = count + 1
        self.last_offset = offset
        self.last_position = position

    def lookup(self, offset: int) -> tuple[int, int]:
        """The last entry at or before `offset` as (offset, position); the start of the segment when there is none."""
        return self.bracket(offset)[:2]

    def bracket(self, offset: int) -> tuple[int, int, int]:
        """What `lookup` finds and the position of the entry after it, -1 when there is none."""
        if self.count < 0:
            self.load()
        if offset >= self.last_offset:
            return self.last_offset, self.last_position, -1
        relative = offset - self.base_offset
        if not self.count or relative < 0:
            return self.base_offset, 0, -1
        # Batches of equal size have entries at equal distances: then no search is needed.
        slot = relative * self.count // (self.last_offset - self.base_offset)
        if slot:
            found, position, next_found, following = _TWO_ENTRIES.unpack_from(self.mapped(), (slot - 1) * 8)
            if found <= relative < next_found:
                return self.base_offset + found, position, following
        slot = self.search(relative.to_bytes(4, "big"), 0)
        if not slot:
            return self.base_offset, 0, OFFSET_ENTRY.unpack_from(self.mapped())[1]
        found, position, _, following = _TWO_ENTRIES.unpack_from(self.mapped(), (slot - 1) * 8)
        return self.base_offset + found, position, following

    def first_at_position(self, position: int) -> int | None:
        """The offset of the first entry at or after `position`; None when there is none."""
        if not self.entries() or position > self.last_position:
            return None
        slot = self.search((position - 1).to_bytes(4, "big"), 4) if position > 0 else 0
        return self.entry(slot)[0]

    def entry(self, slot: int) -> tuple[int, int]:
        """Entry number `slot` as (offset, position)."""
        if not 0 <= slot < self.entries():
            raise IndexError(f"entry {slot} of {self.count} in {self.path}")
        relative, position = OFFSET_ENTRY.unpack_from(self.mapped(), slot * 8)
        return self.base_offset + relative, position

    def truncate_to(self, offset: int) -> None:
        """Forget the entries at or above `offset`."""
        relative = offset - self.base_offset - 1
        if not self.entries():
            return
        if relative < 0:
            self.keep(0)
        elif relative < MAX_RELATIVE_OFFSET:
            self.keep(self.search(relative.to_bytes(4, "big"), 0))

    def sanity_check(self) -> None:
        """Raise CorruptIndexError when the file cannot be an index of this segment."""
        self.check_length()
        if self.entries() and self.last_offset < self.base_offset:
            raise CorruptIndexError(
                f"offset index {self.path}: last offset {self.last_offset} is below the base offset {self.base_offset}"
            )
