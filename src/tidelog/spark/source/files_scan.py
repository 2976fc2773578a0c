"""Walking the batches of a segment's file, of any magic, in windows of whole batches. Called by the other `files_*`.

A file that a broker still writes may end in the middle of a batch, or in zeros that were reserved for later: that is
the end of it, and no error. The same anywhere else is damage, and so is a wrong checksum.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import (
    HEADER_BYTES,
    LEGACY_BYTES_MIN,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    check_crc,
    is_legacy_intact,
    read_header_of_any_magic,
    read_length,
)

WINDOW_BYTES: Final = 4 * 1024 * 1024
HEADERS_WINDOW_BYTES: Final = 64 * 1024


class Located(NamedTuple):
    """A batch and where it is: in the file, and in the window that holds it."""

    position: int
    start: int
    header: BatchHeader

    @property
    def next_offset(self) -> int:
        return self.header.next_offset


class Window(NamedTuple):
    """Whole batches as they lie in the file."""

    data: memoryview
    batches: list[Located]


class FileEnd(NamedTuple):
    """How far a file may be read, and whether it may end untidily there."""

    position: int
    may_be_torn: bool


def corrupt(path: str, position: int, why: str) -> CorruptRecordError:
    """The one form of saying that a file is damaged."""
    return CorruptRecordError(
        f"{path} is damaged at byte {position}: {why}. "
        f"`tidelog log dump {path}` shows the batches; read another replica, or restrict the offsets to skip it"
    )


@contextmanager
def opened(path: str) -> Iterator[int]:
    """A descriptor for reading."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def pread(descriptor: int, size: int, position: int) -> bytes:
    """Bytes of a file; fewer than asked for where it ends."""
    return os.pread(descriptor, size, position)


def windows(path: str, start: int, end: FileEnd, *, check_crcs: bool = True) -> Iterator[Window]:
    """The batches between two positions, some megabytes at a time. Raises CorruptRecordError, naming file and byte."""
    with opened(path) as descriptor:
        position, wanted = start, WINDOW_BYTES
        while position < end.position:
            data = memoryview(os.pread(descriptor, min(wanted, end.position - position), position))
            batches = list(_batches_in(path, data, position, end, len(data)))
            if not batches:
                claimed = _claimed_bytes(path, data, position, end)
                if claimed is None:
                    return
                wanted = claimed
                continue
            if check_crcs:
                _check(path, data, batches)
            used = batches[-1].start + batches[-1].header.size_bytes
            yield Window(data[:used], batches)
            position, wanted = position + used, WINDOW_BYTES


def headers(path: str, start: int, end: FileEnd) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch; what lies between headers is read only where batches are small."""
    with opened(path) as descriptor:
        position = start
        while position < end.position:
            data = memoryview(os.pread(descriptor, min(HEADERS_WINDOW_BYTES, end.position - position), position))
            reached = position
            for each in _batches_in(path, data, position, end, end.position - position):
                yield each.position, each.header
                reached = each.position + each.header.size_bytes
            if reached == position:
                _claimed_bytes(path, data, position, end)
                return
            position = reached


def _batches_in(path: str, data: memoryview, position: int, end: FileEnd, size: int) -> Iterator[Located]:
    """The batches whose headers are in a window and that end within `size` bytes from its start."""
    start = 0
    while (header := _header_at(path, data, start, position, end)) is not None:
        if start + header.size_bytes > size:
            return
        yield Located(position + start, start, header)
        start += header.size_bytes


def _header_at(path: str, data: memoryview, start: int, position: int, end: FileEnd) -> BatchHeader | None:
    """The header at `start` of a window; None where it is not in there, or where only reserved zeros follow."""
    left = len(data) - start
    if left <= MAGIC_POSITION:
        return None
    magic = data[start + MAGIC_POSITION]
    size = read_length(data, start) + LENGTH_PREFIX_BYTES
    if magic <= MAGIC and size >= (HEADER_BYTES if magic == MAGIC else LEGACY_BYTES_MIN[magic]):
        if left < HEADER_BYTES and left < size:
            return None
        return read_header_of_any_magic(bytes(data[start : start + HEADER_BYTES]).ljust(HEADER_BYTES, b"\0"), 0)
    if end.may_be_torn and not any(data[start : start + HEADER_BYTES]):
        return None
    if magic > MAGIC:
        raise corrupt(path, position + start, f"invalid magic {magic}")
    raise corrupt(path, position + start, f"invalid size of {size} bytes for a batch of magic {magic}")


def _claimed_bytes(path: str, data: memoryview, position: int, end: FileEnd) -> int | None:
    """How much must be read for the batch at `position`; None where the file ends. Raises if it may not end so."""
    header = _header_at(path, data, 0, position, end)
    if header is not None and position + header.size_bytes <= end.position:
        return header.size_bytes
    if end.may_be_torn:
        return None
    if header is None:
        raise corrupt(path, position, f"the {end.position - position} remaining bytes are not a whole batch")
    raise corrupt(path, position, f"a batch of {header.size_bytes} bytes is cut off after {end.position - position}")


def _check(path: str, data: memoryview, batches: list[Located]) -> None:
    for each in batches:
        header = each.header
        if header.magic == MAGIC:
            is_sound = check_crc(data, each.start, header)
        else:
            is_sound = is_legacy_intact(data[each.start : each.start + header.size_bytes])
        if not is_sound:
            raise corrupt(path, each.position, f"the checksum of the batch at offset {header.base_offset} is wrong")
