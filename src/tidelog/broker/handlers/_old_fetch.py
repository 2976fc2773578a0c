"""Records for clients from before batches of magic 2: converted down, whole batches only. Called by `fetch`."""

from __future__ import annotations

import os
from struct import Struct
from typing import TYPE_CHECKING, Final

from tidelog.records.batch import iterate_batches
from tidelog.records.compression import Codec
from tidelog.records.legacy import convert_down

if TYPE_CHECKING:
    from tidelog.storage._files import FileSlice

_MAGIC_1_FROM: Final = 2
_OFFSET_AND_LENGTH: Final = Struct(">qi")
_BATCH_BYTES_MIN: Final = 61


def readable_by(records: FileSlice, version: int, fetch_offset: int) -> bytes:
    """The same records as messages of magic 0 (versions 0 and 1) or 1 (versions 2 and 3), from `fetch_offset` on.

    These versions have hard limits. A client whose limit is smaller than one batch must see that there is more than it
    asked for, or it would ask again for ever: it gets the beginning of a message that is longer than the response.
    """
    data = os.pread(records.fd, records.length, records.position)
    if not _has_whole_batch(data):
        return _OFFSET_AND_LENGTH.pack(-1, max(len(data) + 1, _BATCH_BYTES_MIN))
    magic = 1 if version >= _MAGIC_1_FROM else 0
    return convert_down(_before_zstd(data), magic, first_offset=fetch_offset)


def _has_whole_batch(data: bytes) -> bool:
    head = _OFFSET_AND_LENGTH.size
    return len(data) >= head and _OFFSET_AND_LENGTH.unpack_from(data)[1] <= len(data) - head


def _before_zstd(data: bytes) -> bytes:
    """What can be converted: a batch of Zstandard is an error only for the fetch that begins with it."""
    for position, header in iterate_batches(data):
        if position and header.codec is Codec.ZSTD:
            return data[:position]
    return data
