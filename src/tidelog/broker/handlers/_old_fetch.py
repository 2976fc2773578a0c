"""Records for clients from before batches of magic 2: converted down, whole batches only."""

from __future__ import annotations

import os
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.records.batch import iterate_batches
from tidelog.records.errors import CorruptRecordError, UnsupportedCompressionError
from tidelog.records.header import HEADER_BYTES, LENGTH_PREFIX_BYTES, pack_offset_and_length, read_length
from tidelog.records.legacy import convert_down

if TYPE_CHECKING:
    from tidelog.storage.types import FileSlice

_MAGIC_1_FROM: Final = 2
_CONVERTED_BYTES_MIN: Final = 1 << 20
_BATCH_EXPANDED_BYTES_MAX: Final = 32 << 20
_RECORDS_MAX: Final = 250_000
"""More records than any client from before magic 2 ever put into a batch; a decompression bomb has more."""


class Converted(NamedTuple):
    """Messages, and how many records were converted to them in which time."""

    messages: bytes
    record_count: int = 0
    took_ns: int = 0


def readable_by(records: FileSlice, version: int, fetch_offset: int) -> Converted:
    """The same records as messages of magic 0 (versions 0 and 1) or 1 (versions 2 and 3), from `fetch_offset` on.

    These versions have hard limits. A client whose limit is smaller than one batch must see that there is more than it
    asked for, or it would ask again for ever: it gets the beginning of a message that is longer than the response.
    """
    data = os.pread(records.fd, records.length, records.position)
    if not _has_whole_batch(data):
        return Converted(pack_offset_and_length(-1, max(len(data) + 1, HEADER_BYTES)))
    began_ns = perf_counter_ns()
    converted = _converted(memoryview(data), 1 if version >= _MAGIC_1_FROM else 0, fetch_offset)
    return converted._replace(took_ns=perf_counter_ns() - began_ns)


def _has_whole_batch(data: bytes) -> bool:
    return len(data) >= LENGTH_PREFIX_BYTES and read_length(data) <= len(data) - LENGTH_PREFIX_BYTES


def _converted(data: memoryview, magic: int, fetch_offset: int) -> Converted:
    """Converts batches in order; one that cannot be converted fails only a fetch that begins with it.

    It ends early where batches expand so far that the answer would be out of proportion; the client asks again.
    """
    parts: list[bytes] = []
    record_count = 0
    bytes_left = max(len(data), _CONVERTED_BYTES_MIN)
    for position, header in iterate_batches(data):
        try:
            if header.record_count > _RECORDS_MAX:
                raise CorruptRecordError(f"a batch of {header.record_count} records at offset {header.base_offset}")
            batch = data[position : position + header.size_bytes]
            part = convert_down(batch, magic, first_offset=fetch_offset, limit_bytes=_BATCH_EXPANDED_BYTES_MAX)
        except (CorruptRecordError, UnsupportedCompressionError):
            if not position:
                raise
            break
        parts.append(part)
        record_count += header.record_count
        bytes_left -= len(part)
        if bytes_left <= 0:
            break
    return Converted(b"".join(parts), record_count)
