"""Reading a segment batch by batch after a crash: whole batches stay, the rest is cut off.

Each batch must have a plausible header, a correct checksum and offsets after those before it. The first that has not
ends the segment, because all bytes after it were written later. Both indexes are rebuilt at the same time.

The file is read in large windows rather than mapped: a failing disk is then an OSError, not a signal.
"""

import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple
from zlib import crc32

from tidelog.records.checksum import crc32c
from tidelog.records.header import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    LEGACY_BYTES_MIN,
    LENGTH_PREFIX_BYTES,
    MAGIC_POSITION,
    BatchHeader,
    read_header,
    read_header_of_any_magic,
)
from tidelog.storage.segment import Segment

_WINDOW_BYTES: Final = 1 << 20

OnBatch = Callable[[BatchHeader, Callable[[], memoryview]], None]
"""Called with each whole batch, in order, and a function that returns its bytes, which are valid during the call."""


class SegmentScan(NamedTuple):
    """The result for a segment. `reason` says why it was cut, None when it was not."""

    batches: int
    next_offset: int
    bytes_kept: int
    bytes_cut: int
    reason: str | None


def rebuild_segment(segment: Segment, end_offset: int, now_ms: int, on_batch: OnBatch) -> SegmentScan:
    """Check every batch of `segment`, cut it after the last good one, and rebuild its indexes.

    `end_offset` is where the next segment begins: offsets are not covered by the checksum, but must lie in between.
    """
    descriptor = segment.log_file.open().fd
    size_bytes = os.fstat(descriptor).st_size
    reader = _BatchReader(descriptor, size_bytes, segment.base_offset, min(end_offset, segment.max_offset + 1))
    segment.start_rebuild()
    batches = 0
    append, current = segment.append, reader.current
    for header in reader:
        batches += 1
        append(reader.next_offset - 1, header.max_timestamp, reader.size_bytes, now_ms)
        on_batch(header, current)
    if reader.position < size_bytes:
        segment.log_file.truncate(reader.position)
    segment.become_inactive()
    return SegmentScan(batches, reader.next_offset, reader.position, size_bytes - reader.position, reader.reason)


class _BatchReader:
    """The whole, valid batches of a file. `position` is where the next one begins, `reason` says why there is none."""

    __slots__ = (
        "_buffer",
        "_descriptor",
        "_end",
        "_offset_limit",
        "_start",
        "_view",
        "_window_bytes",
        "_window_start",
        "next_offset",
        "position",
        "reason",
        "size_bytes",
    )

    def __init__(self, descriptor: int, end: int, base_offset: int, offset_limit: int) -> None:
        self._descriptor = descriptor
        self._end = end
        self._offset_limit = offset_limit
        # The slack lets a whole header be unpacked wherever a batch may begin.
        self._buffer = bytearray(min(_WINDOW_BYTES, end) + HEADER_BYTES)
        self._view = memoryview(self._buffer)
        self._window_start = 0
        self._window_bytes = 0
        self._start = 0
        self.next_offset = base_offset
        self.position = 0
        self.size_bytes = 0
        self.reason: str | None = None

    def __iter__(self) -> Iterator[BatchHeader]:
        """The headers of the batches. The attributes describe the batch that was yielded last, and what follows it."""
        buffer, view, end, offset_limit = self._buffer, self._view, self._end, self._offset_limit
        while (position := self.position) < end:
            start = position - self._window_start
            if start + HEADER_BYTES > self._window_bytes:
                self._fill(position)
                start = 0
            header = read_header(buffer, start)
            base_offset, length, _, magic, crc, _, last_delta = header[:7]
            size_bytes = length + LENGTH_PREFIX_BYTES
            stop = start + size_bytes
            if not (
                magic == 2
                and size_bytes >= HEADER_BYTES
                and stop <= self._window_bytes
                and last_delta >= 0
                and self.next_offset <= base_offset < offset_limit - last_delta
                and crc32c(view[start + ATTRIBUTES_POSITION : stop]) == crc
            ):
                examined = self._examine()
                if examined is None:
                    return
                header = examined
                start = position - self._window_start
                last_delta = header.last_offset_delta
            self._start = start
            self.size_bytes = size_bytes
            self.position = position + size_bytes
            self.next_offset = base_offset + last_delta + 1
            yield header

    def current(self) -> memoryview:
        """The bytes of the batch yielded last; of one larger than the window, those at its start."""
        return self._view[self._start : min(self._start + self.size_bytes, self._window_bytes)]

    def _examine(self) -> BatchHeader | None:
        """Check the batch at `position` in detail: it is damaged, old, or not entirely in the window."""
        start = self.position - self._window_start
        header = read_header(self._buffer, start)
        if header.magic in (0, 1):
            header = read_header_of_any_magic(self._view[start : start + HEADER_BYTES].tobytes(), 0)
        size_bytes = header.batch_length + LENGTH_PREFIX_BYTES
        self.reason = self._implausible(header, size_bytes) or self._damaged(header, size_bytes)
        return header if self.reason is None else None

    def _implausible(self, header: BatchHeader, size_bytes: int) -> str | None:
        left = self._end - self.position
        if left < HEADER_BYTES and (header.magic == 2 or left <= MAGIC_POSITION):
            return f"the header of a batch is cut off after {left} bytes"
        if not 0 <= header.magic <= 2:
            return f"magic {header.magic} is unknown"
        if size_bytes < (HEADER_BYTES if header.magic == 2 else LEGACY_BYTES_MIN[header.magic]):
            return f"a batch claims {size_bytes} bytes"
        if size_bytes > left:
            return f"a batch of {size_bytes} bytes is cut off after {left}"
        if not self.next_offset <= header.base_offset <= header.last_offset < self._offset_limit:
            offsets = f"{header.base_offset} to {header.last_offset}"
            return f"a batch claims offsets {offsets} between {self.next_offset} and {self._offset_limit}"
        return None

    def _damaged(self, header: BatchHeader, size_bytes: int) -> str | None:
        start = self.position - self._window_start
        if start + size_bytes > self._window_bytes and self._window_start != self.position:
            self._fill(self.position)
            start = 0
        if header.magic == 2:
            found, stored = self._checksum(start, size_bytes), header.crc
        else:
            found, stored = crc32(self._view[start + MAGIC_POSITION : start + size_bytes]), header.crc
        if found == stored:
            return None
        return f"the batch at offset {header.base_offset} has checksum {found}, not {stored} as it claims"

    def _checksum(self, start: int, size_bytes: int) -> int:
        end = start + size_bytes
        if end <= self._window_bytes:
            return crc32c(self._view[start + ATTRIBUTES_POSITION : end])
        # Larger than the window: the rest goes through a second buffer, piece by piece.
        checksum = crc32c(self._view[start + ATTRIBUTES_POSITION : self._window_bytes])
        position = self._window_start + self._window_bytes
        end += self._window_start
        while position < end:
            piece = os.pread(self._descriptor, min(_WINDOW_BYTES, end - position), position)
            if not piece:
                return -1
            checksum = crc32c(piece, checksum)
            position += len(piece)
        return checksum

    def _fill(self, position: int) -> None:
        """Let the window begin at `position`."""
        limit = len(self._buffer) - HEADER_BYTES
        filled = os.preadv(self._descriptor, [self._view[:limit]], position)
        self._window_start = position
        self._window_bytes = min(filled, self._end - position)
        slack = self._window_bytes
        self._buffer[slack : slack + HEADER_BYTES] = bytes(HEADER_BYTES)
