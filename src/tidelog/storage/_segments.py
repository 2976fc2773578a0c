"""The segments of a log in order, with the lookups by offset that the log needs."""

from bisect import bisect_right
from collections.abc import Iterator

from tidelog.storage.segment import Segment


class SegmentList:
    """Segments by ascending base offset. There is always at least one, except within a full truncation."""

    __slots__ = ("_bases", "_items", "active")

    def __init__(self, segments: list[Segment]) -> None:
        assert segments, "a log without a segment"
        self._items = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._items)

    def __getitem__(self, slot: int) -> Segment:
        return self._items[slot]

    def slot_of(self, offset: int) -> int:
        """The place of the segment that `offset` lies in; -1 when it is before all of them."""
        return bisect_right(self._bases, offset) - 1

    def since(self, offset: int) -> list[Segment]:
        """The segment that `offset` lies in and those after it; all when it is before all of them."""
        return self._items[max(self.slot_of(offset), 0) :]

    def next_base_offset(self, slot: int) -> int | None:
        """Where the segment after the one at `slot` begins."""
        return self._bases[slot + 1] if slot + 1 < len(self._bases) else None

    def add(self, segment: Segment) -> None:
        """Add a segment at the end; it is the active one from now on."""
        self._items.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def remove(self, start: int, stop: int) -> list[Segment]:
        """Take segments out; the last one left is active."""
        removed = self._items[start:stop]
        del self._items[start:stop]
        del self._bases[start:stop]
        if self._items:
            self.active = self._items[-1]
        return removed

    def replace(self, start: int, stop: int, segment: Segment) -> None:
        """Put a segment in the place of others, none of which is the active one."""
        assert stop < len(self._items), "the active segment is never replaced"
        self._items[start:stop] = [segment]
        self._bases[start:stop] = [segment.base_offset]

    def size_bytes(self) -> int:
        """The bytes of all segments together."""
        return sum(segment.size_bytes for segment in self._items)
