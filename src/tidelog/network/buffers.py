"""A few large buffers for frames that do not fit one read, reused instead of allocated for each frame.

Fresh memory is expensive: the kernel zeroes it, and every page faults once. A frame of a megabyte in a reused buffer
costs one copy less and no page fault.

A frame that is larger than any that is kept gets memory of its own (`reserve`), which costs as much as has arrived.

A buffer is free again when the turn that handled its frame has ended and no view into it exists; a buffer that is still
in use then is dropped from the pool. Owned by the `SocketServer`; connections take and return buffers.
"""

from __future__ import annotations

import mmap
from typing import Final

LARGE_BYTES: Final = 64 << 10
"""Smaller frames do not use the pool."""

_BYTES_PER_ARRIVED_MAX: Final = 16
KEPT_BYTES_MAX: Final = 4 << 20
_KEPT_MAX: Final = 8


class BufferPool:
    """Free buffers, smallest first."""

    __slots__ = ("_free", "_used")

    def __init__(self) -> None:
        self._free: list[bytearray] = []
        self._used: list[bytearray] = []

    def take(self, size: int, arrived: int) -> bytearray | None:
        """A buffer for a frame of `size` bytes of which `arrived` are here, if a free one is not out of proportion.

        It still has its old content. The proportion denies it to clients that announce much and send little.
        """
        for position, buffer in enumerate(self._free):
            if size <= len(buffer) <= arrived * _BYTES_PER_ARRIVED_MAX:
                return self._free.pop(position)
        return None

    def give_back(self, buffer: bytearray) -> None:
        """The frame in it was handed over; at the end of the turn it may be free."""
        if LARGE_BYTES <= len(buffer) <= KEPT_BYTES_MAX:
            self._used.append(buffer)

    def end_turn(self) -> None:
        """Keep the buffers that have no view left."""
        used = self._used
        if not used:
            return
        for buffer in used:
            if len(self._free) < _KEPT_MAX and _is_unseen(buffer):
                self._free.append(buffer)
        used.clear()
        self._free.sort(key=len)

    @property
    def free_bytes(self) -> int:
        return sum(map(len, self._free))


def reserve(size: int) -> memoryview:
    """Room for a large frame. Each page of it takes time and memory when it is first written to, and none before.

    A bytearray of 60 MB is zeroed at once, which takes 40 ms, and one that grows is copied every time.
    """
    return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def _is_unseen(buffer: bytearray) -> bool:
    """Whether no view into the buffer exists: then, and only then, may it be resized."""
    try:
        buffer.append(0)
    except BufferError:
        return False
    del buffer[-1]
    return True
