"""Reading a segment's file a window at a time, each beginning with a whole batch.

The file is read rather than mapped: should it be cut off meanwhile, that is an ordinary error and not a signal.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import LEGACY_BYTES_MIN, LENGTH_PREFIX_BYTES, read_length

_BATCH_BYTES_MIN: Final = LEGACY_BYTES_MIN[0]


class BatchWindow:
    """A buffer that moves over one file after the other, and grows to the largest batch it meets.

    `buffer[:stop]` is what has been read and not been dropped: `fill`, deal with whole batches, `drop` them, again.
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
        """Read on; whether there was anything left. CorruptRecordError when the file ends within a batch."""
        if self._position == self._end:
            if self.stop:
                raise CorruptRecordError(f"{self._path} ends within a batch of which there are {self.stop} bytes")
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
        """The first `count` bytes are dealt with. Where there is no whole batch in all of the buffer, it grows."""
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
