"""The batches of a log, as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidelog.records.batch import iterate_batches
from tidelog.storage.log import Log

_READ_AT_ONCE: Final = 1 << 20


def read_batches(log: Log, start: int, end: int) -> Iterator[bytes]:
    """The batches of a log that begin between two offsets."""
    while start < end:
        read = log.read(start, _READ_AT_ONCE, end, True)
        if read.slice is None:
            return
        data = read.slice.read()
        for position, header in iterate_batches(data):
            yield data[position : position + header.size_bytes]
            start = header.last_offset + 1
