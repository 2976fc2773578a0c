"""The offsets that delimit a log, and the order between them that always holds.

    log start offset ≤ high watermark ≤ log end offset        written end offset ≤ log end offset

They are plain attributes, because every append and every fetch reads some of them. Only the methods change them, with
two exceptions: the append of a batch sets `log_end_offset`, and the write that follows sets `written_end_offset`.
"""

from tidelog.storage.producers.state import ProducerStateManager


class Positions:
    """Where one log begins and ends, and up to which offset followers and consumers may read it."""

    __slots__ = (
        "_producer_state",
        "clean_point",
        "generation",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "written_end_offset",
    )

    def __init__(self, log_start_offset: int, log_end_offset: int, producer_state: ProducerStateManager) -> None:
        self._producer_state = producer_state
        self.log_start_offset = log_start_offset
        self.high_watermark = log_start_offset
        self.log_end_offset = log_end_offset
        """The offset that the next record gets. Batches below it may still be staged."""
        self.written_end_offset = log_end_offset
        """Batches below it are in their files."""
        self.clean_point = -1
        """Below it compaction has left one record of each key; -1 when the log has never been compacted."""
        self.generation = 0
        """The number of truncations: batches read or flushed before one may have been replaced since."""

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or whose end is above the high watermark."""
        state = self._producer_state
        if not state.ongoing and not state.unreplicated:
            return None
        offset = state.first_unstable_offset()
        return None if offset is None else max(offset, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which a read-committed consumer may read."""
        state = self._producer_state
        if not state.ongoing and not state.unreplicated:
            return self.high_watermark
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, kept within the log; returns what it is now."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset < self.log_start_offset:
            offset = self.log_start_offset
        self.high_watermark = offset
        if self._producer_state.unreplicated:
            self._producer_state.on_high_watermark(offset)
        return offset

    def move_start(self, offset: int) -> bool:
        """Move the start to `offset`, which is at most the high watermark; whether it moved."""
        assert offset <= self.high_watermark, f"log start offset {offset} above high watermark {self.high_watermark}"
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        return True

    def mark_clean(self, offset: int) -> None:
        """Compaction has left one record of each key below `offset`."""
        self.clean_point = offset

    def truncate(self, log_end_offset: int, log_start_offset: int) -> None:
        """The log was cut off and spans these offsets now, all of them written."""
        self.generation += 1
        self.log_end_offset = self.written_end_offset = log_end_offset
        self.log_start_offset = log_start_offset
        self.clean_point = min(self.clean_point, log_end_offset)
        self.update_high_watermark(min(self.high_watermark, log_end_offset))
