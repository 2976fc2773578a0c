"""Batches that wait to be written to the active segment: those of one turn of the broker's loop share one write.

Staged bytes always belong to the active segment: operations on the file itself (a roll, a flush, a truncation) write
them first.

When a write fails, the log cannot be used any more: staged batches are dropped, and each later attempt raises the same
`LogDirFailure`.
"""

from tidelog.storage.errors import LogDirFailure
from tidelog.storage.log._flushing import FlushState
from tidelog.storage.log._positions import Positions
from tidelog.storage.log._segments import Segments


class Staging:
    """Staged batches, the written size of the active segment's file, and whether its directory has failed."""

    __slots__ = ("_directory", "_flush_state", "_positions", "_segments", "buffers", "failure", "written_bytes")

    def __init__(self, directory: str, segments: Segments, positions: Positions, flush_state: FlushState) -> None:
        """`directory` is the log directory that a failure is reported for."""
        self._directory = directory
        self._segments = segments
        self._positions = positions
        self._flush_state = flush_state
        self.buffers: list[bytearray | memoryview] = []
        """Batches after `written_bytes`, in order; the code that adds one also sets the log end offset."""
        self.written_bytes = segments.active.size_bytes
        """The bytes of the active segment that are in its file."""
        self.failure: LogDirFailure | None = None

    def write(self) -> None:
        """Write everything staged to the active segment."""
        if self.failure is not None:
            raise self.failure
        buffers = self.buffers
        if not buffers:
            return
        segment = self._segments.active
        try:
            segment.log_file.write(buffers, self.written_bytes)
        except OSError as error:
            raise self.fail(error) from error
        self.buffers = []
        self.written_bytes = segment.size_bytes
        positions = self._positions
        positions.written_end_offset = end_offset = positions.log_end_offset
        flush_state = self._flush_state
        if end_offset < flush_state.due_offset:
            flush_state.durable_end_offset = end_offset
        else:
            flush_state.is_due = True

    def follow_active_segment(self) -> None:
        """Another segment is active, or the active one was cut off. Nothing is staged at that moment."""
        assert not self.buffers, "staged bytes belong to the active segment"
        self.written_bytes = self._segments.active.size_bytes

    def check_usable(self) -> None:
        """Raise LogDirFailure if the directory has failed."""
        if self.failure is not None:
            raise self.failure

    def fail(self, cause: OSError) -> LogDirFailure:
        """Drop staged batches and reject all later calls; returns the exception to raise."""
        self.buffers = []
        self.failure = LogDirFailure(self._directory, cause)
        return self.failure
