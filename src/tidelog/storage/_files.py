"""Log files of segments, and slices of them for `sendfile`.

`LogFile` is a segment's file of batches. It opens its descriptor at the first use, and the pool may close it at any
time; `OpenFile` is the descriptor itself, closed with its last reference. A `FileSlice` refers to the `OpenFile`, so
bytes that are being sent stay readable when the segment is evicted, renamed or deleted meanwhile.
"""

import os
from collections.abc import Callable, Sequence
from typing import Final

from tidelog.storage._pools import DESCRIPTORS, open_descriptor
from tidelog.storage.replacing import Buffer, write_all, write_rest

_IOV_MAX: Final = os.sysconf("SC_IOV_MAX") if "SC_IOV_MAX" in os.sysconf_names else 1024


class OpenFile:
    """A descriptor that is closed with its last reference."""

    __slots__ = ("__weakref__", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self, _close: Callable[[int], None] = os.close) -> None:
        # `os.close` is bound early: at interpreter shutdown the module may already be gone.
        _close(self.fd)


class FileSlice:
    """`length` bytes at `position` of an open file. `file` keeps the descriptor alive."""

    __slots__ = ("fd", "file", "length", "position")

    def __init__(self, file: OpenFile, position: int, length: int) -> None:
        self.file = file
        self.fd = file.fd
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"FileSlice(fd={self.fd}, position={self.position}, length={self.length})"

    def read(self) -> bytes:
        """The bytes themselves, for callers that cannot send from the file (conversion, encryption, tests)."""
        return read_exactly(self.fd, self.position, self.length)


class LogFile:
    """The `.log` file of one segment: a path, and a descriptor while it is in use and the pool has room."""

    __slots__ = ("handle", "path", "recently_used")

    def __init__(self, path: str) -> None:
        self.path = path
        self.handle: OpenFile | None = None
        self.recently_used = False

    def open(self) -> OpenFile:
        """The open descriptor. Callers that keep it longer than one call keep the reference."""
        handle = self.handle
        if handle is None:
            handle = self.handle = OpenFile(open_descriptor(self.path, os.O_RDWR))
            DESCRIPTORS.admit(self)
        self.recently_used = True
        return handle

    def release(self) -> None:
        """Release the descriptor; it closes once no slice needs it."""
        if self.handle is not None:
            self.handle = None
            DESCRIPTORS.discard(self)

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all buffers, one after the other, at `position`."""
        handle = self.handle
        if handle is None:
            handle = self.open()
        self.recently_used = True
        fd = handle.fd
        if len(buffers) == 1:
            buffer = buffers[0]
            if (written := os.pwrite(fd, buffer, position)) != len(buffer):
                write_rest(fd, buffer, position, written)
            return
        for start in range(0, len(buffers), _IOV_MAX):
            position = _write_many(fd, buffers[start : start + _IOV_MAX], position)

    def read(self, position: int, length: int) -> bytes:
        """At most `length` bytes at `position`; fewer only at the end of the file."""
        return os.pread(self.open().fd, length, position)

    def truncate(self, size_bytes: int) -> None:
        """Cut the file off (or extend it with zeros)."""
        os.ftruncate(self.open().fd, size_bytes)

    def rename(self, path: str) -> None:
        """Give the file another name. Descriptors stay valid."""
        os.rename(self.path, path)
        self.path = path


def _write_many(fd: int, buffers: Sequence[Buffer], position: int) -> int:
    """One `pwritev`; after a short write the rest is written buffer by buffer. Returns the new end."""
    total = sum(map(len, buffers))
    written = os.pwritev(fd, buffers, position)
    if written < total:
        start = position
        for buffer in buffers:
            end = start + len(buffer)
            if end > position + written:
                done = max(0, position + written - start)
                with memoryview(buffer) as view:
                    write_all(fd, view[done:], start + done)
            start = end
    return position + total


def read_exactly(fd: int, position: int, length: int) -> bytes:
    """`length` bytes at `position`; fewer only when the file ends before."""
    data = os.pread(fd, length, position)
    if len(data) == length or not data:
        return data
    parts = [data]
    position += len(data)
    length -= len(data)
    while length and (data := os.pread(fd, length, position)):
        parts.append(data)
        position += len(data)
        length -= len(data)
    return b"".join(parts)
