"""Reading the segments of a job batch by batch; what both passes of a cleaning share."""

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import HEADER_BYTES, MAGIC, BatchHeader, check_crc, read_header
from tidelog.storage.cleaner._window import BatchWindow
from tidelog.storage.cleaner.jobs import CleanJob, SourceSegment
from tidelog.storage.names import LOG_SUFFIX, segment_path

Pace = Callable[[int, int], None]
"""Told of bytes read and bytes written, so that it can hold the work back. It may raise to end the work."""


class BatchReader(Protocol):
    """What is done with the batches of a segment."""

    def run(self, buffer: bytearray, position: int, stop: int) -> int:
        """Deal with batches from `position` on; where the first one begins that was left."""

    def one(self, buffer: bytearray, position: int, size: int) -> None:
        """Deal with the batch at `position`."""

    def is_done(self) -> bool:
        """Whether nothing more need be read."""

    def written_bytes(self) -> int:
        """What has been written so far."""


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
    """Give every batch of a file to the reader's `run` or, where that leaves it, to its `one`."""
    with window.over(path, size_bytes):
        while not reader.is_done() and window.fill():
            before = reader.written_bytes()
            done = _deal_with(window, reader)
            pace(done, reader.written_bytes() - before)
            window.drop(done)


def _deal_with(window: BatchWindow, reader: BatchReader) -> int:
    """All whole batches in the window; where they end."""
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
    """The header of a batch that is what it claims to be: what is written anew would get a new checksum."""
    header = read_header(buffer, position)
    if header.magic != MAGIC or size < HEADER_BYTES:
        raise CorruptRecordError(f"a batch of {size} bytes at offset {header.base_offset} has magic {header.magic}")
    if not check_crc(buffer, position, header):
        raise CorruptRecordError(f"the batch at offset {header.base_offset} does not match its checksum")
    return header
