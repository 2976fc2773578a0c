"""Reads the segments of a job batch by batch, a window of the file at a time; shared by both passes of a cleaning.

The file is read rather than mapped: if it is truncated meanwhile, that is an ordinary error and not a signal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import (
    HEADER_BYTES,
    LEGACY_BYTES_MIN,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    BatchHeader,
    check_crc,
    read_header,
    read_length,
)
from tidelog.storage.cleaner.jobs import CleanJob, SourceSegment
from tidelog.storage.names import LOG_SUFFIX, segment_path

_BATCH_BYTES_MIN: Final = LEGACY_BYTES_MIN[0]

Pace = Callable[[int, int], None]
"""Called with the bytes read and written, to throttle the work. It may raise to end the work."""


class BatchReader(Protocol):
    """Processes the batches of a segment."""

    def run(self, buffer: bytearray, position: int, stop: int) -> int:
        """Process batches from `position` on; returns where the first unprocessed one begins."""

    def one(self, buffer: bytearray, position: int, size: int) -> None:
        """Process the batch at `position`."""

    def is_done(self) -> bool:
        """Whether no more batches are needed."""

    def written_bytes(self) -> int:
        """The number of bytes written so far."""


class Ended(NamedTuple):
    """A segment and the offset at which the next one begins."""

    segment: SourceSegment
    end_offset: int


def with_ends(segments: Iterable[SourceSegment], end_offset: int) -> list[Ended]:
    """Each segment with its end; the last one's is `end_offset`."""
    listed = list(segments)
    ends = [*(segment.base_offset for segment in listed[1:]), end_offset]
    return [Ended(*pair) for pair in zip(listed, ends, strict=True)] if listed else []


def walk(path: str, size_bytes: int, window: BatchWindow, reader: BatchReader, pace: Pace) -> None:
    """Give every batch of a file to the reader's `run`, and those that `run` leaves to its `one`."""
    with window.over(path, size_bytes):
        while not reader.is_done() and window.fill():
            before = reader.written_bytes()
            done = _deal_with(window, reader)
            pace(done, reader.written_bytes() - before)
            window.drop(done)


def _deal_with(window: BatchWindow, reader: BatchReader) -> int:
    """Process all whole batches in the window; returns where they end."""
    position = 0
    while True:
        position = reader.run(window.buffer, position, window.stop)
        size = window.batch_bytes(position)
        if size == 0 or reader.is_done():
            return position
        reader.one(window.buffer, position, size)
        position += size


def log_path(job: CleanJob, segment: SourceSegment, suffix: str = LOG_SUFFIX) -> str:
    return segment_path(job.directory, segment.base_offset, suffix)


def size_of(path: str) -> int:
    """The size of a file; 0 when there is none."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def checked_header(buffer: bytearray, position: int, size: int) -> BatchHeader:
    """The header of a batch, after checking magic and checksum: rewriting would give damaged bytes a valid checksum."""
    header = read_header(buffer, position)
    if header.magic != MAGIC or size < HEADER_BYTES:
        raise CorruptRecordError(f"a batch of {size} bytes at offset {header.base_offset} has magic {header.magic}")
    if not check_crc(buffer, position, header):
        raise CorruptRecordError(f"the batch at offset {header.base_offset} does not match its checksum")
    return header


class BatchWindow:
    """A buffer that moves over one file after the other, and grows to the largest batch in them.

    `buffer[:stop]` has been read and not dropped. Repeat: `fill`, process whole batches, `drop` them.
    """

    __slots__ = ("_descriptor", "_end", "_path", "_position", "buffer", "stop")

    def __init__(self, size_bytes: int) -> None:
        self.buffer = bytearray(size_bytes)
        self.stop = 0
        self._path = ""
        self._descriptor = -1
        self._position = self._end = 0

    @contextmanager
    def over(self, path: str, size_bytes: int) -> Iterator[None]:
        """Read the first `size_bytes` of a file."""
        self._path, self._end = path, size_bytes
        self._position = self.stop = 0
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield
        finally:
            os.close(self._descriptor)

    def fill(self) -> bool:
        """Read on; False at the end of the file. CorruptRecordError when the file ends within a batch."""
        if self._position == self._end:
            if self.stop:
                raise CorruptRecordError(f"{self._path} ends within a batch, after {self.stop} bytes of it")
            return False
        wanted = min(len(self.buffer) - self.stop, self._end - self._position)
        with memoryview(self.buffer) as view:
            count = os.preadv(self._descriptor, [view[self.stop : self.stop + wanted]], self._position)
        if count == 0:
            raise CorruptRecordError(f"{self._path} ends after {self._position} of {self._end} bytes")
        self._position += count
        self.stop += count
        return True

    def batch_bytes(self, position: int) -> int:
        """The size of the batch at `position` of the buffer; 0 when the buffer does not hold all of it."""
        if position + LENGTH_PREFIX_BYTES > self.stop:
            return 0
        size_bytes = self._claimed_bytes(position)
        return size_bytes if position + size_bytes <= self.stop else 0

    def drop(self, count: int) -> None:
        """Drop the first `count` bytes. The buffer grows if it has no room for the next whole batch."""
        if count:
            self.buffer[: self.stop - count] = self.buffer[count : self.stop]
            self.stop -= count
        elif self.stop == len(self.buffer):
            self.buffer.extend(bytes(self._claimed_bytes(0) - len(self.buffer)))

    def _claimed_bytes(self, position: int) -> int:
        length = read_length(self.buffer, position)
        size_bytes = length + LENGTH_PREFIX_BYTES
        start = self._position - self.stop + position
        if not _BATCH_BYTES_MIN <= size_bytes <= self._end - start:
            raise CorruptRecordError(f"the batch at byte {start} of {self._path} claims a length of {length} bytes")
        return size_bytes
