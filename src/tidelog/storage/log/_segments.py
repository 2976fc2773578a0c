"""The segments of a log in order: found by offset, added at the end, deleted with their files."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from tidelog.storage.names import DELETED_SUFFIX
from tidelog.storage.producers.state import ProducerStateManager
from tidelog.storage.replacing import unlink_all
from tidelog.storage.segment import Segment

OnFilesDeleted = Callable[[Sequence[str], int], None]
"""Called with the paths of files that were renamed to `.deleted` and the delay in ms before their removal."""


class Segments:
    """Segments by ascending base offset. There is always at least one, except within a full truncation."""

    __slots__ = ("_bases", "_items", "_on_files_deleted", "_producer_state", "active", "file_delete_delay_ms")

    def __init__(
        self,
        segments: list[Segment],
        producer_state: ProducerStateManager,
        file_delete_delay_ms: int,
        on_files_deleted: OnFilesDeleted | None,
    ) -> None:
        """Without `on_files_deleted`, files are deleted at once."""
        assert segments, "a log without a segment"
        self._producer_state = producer_state
        self._on_files_deleted = on_files_deleted
        self.file_delete_delay_ms = file_delete_delay_ms
        self._items = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        """The last segment, which batches are appended to."""

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

    def delete(self, start: int, stop: int) -> list[Segment]:
        """Take segments out of the log, by their place in it, and delete their files; the last one left is active.

        Raises OSError.
        """
        removed = self._items[start:stop]
        del self._items[start:stop]
        del self._bases[start:stop]
        if self._items:
            self.active = self._items[-1]
        paths = self.mark_deleted(removed)
        if paths:
            self.discard_files(paths)
        return removed

    def mark_deleted(self, segments: Sequence[Segment], kept_snapshot: int = -1) -> list[str]:
        """Rename the files of segments that have left the log, and their producer snapshots; the new paths.

        The snapshot at the offset `kept_snapshot` stays: another segment begins there. Raises OSError.
        """
        paths: list[str] = []
        for segment in segments:
            segment.change_suffix(DELETED_SUFFIX)
            segment.release()
            paths += segment.paths()
            if segment.base_offset != kept_snapshot:
                snapshot = self._producer_state.mark_snapshot_deleted(segment.base_offset)
                if snapshot is not None:
                    paths.append(snapshot)
        return paths

    def discard_files(self, paths: Sequence[str]) -> None:
        """Delete files that are named `.deleted` now, at once or after `file.delete.delay.ms`."""
        if self._on_files_deleted is not None:
            self._on_files_deleted(paths, self.file_delete_delay_ms)
        else:
            unlink_all(paths)

    def replace(self, start: int, stop: int, segment: Segment) -> None:
        """Replace segments, none of which is the active one, by another one."""
        assert stop < len(self._items), "the active segment is never replaced"
        self._items[start:stop] = [segment]
        self._bases[start:stop] = [segment.base_offset]

    def size_bytes(self) -> int:
        """The bytes of all segments together, staged ones included."""
        return sum(segment.size_bytes for segment in self._items)
