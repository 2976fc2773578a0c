"""Snappy as Kafka's clients write it: raw, or cut into blocks by the framing of the Java library (xerial).

The framing is a 16-byte header (magic, version, oldest compatible version) and then blocks, each preceded by its size.
Java's reader treats data without that header as one raw block, and a header between blocks as the start of another
stream, so both are accepted here. Called by `compression` only.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any

from tidelog.records.errors import CorruptRecordError

_MAGIC = b"\x82SNAPPY\x00"
_HEADER = _MAGIC + struct.pack(">ii", 1, 1)
_BLOCK_BYTES = 32 * 1024
_EXPANSION_MAX = 22
"""No snappy element stands for more than 64 bytes in three, so a larger claim than this many to one is false."""


def encode(data: bytes | bytearray | memoryview, compress_raw: Callable[[memoryview], Any]) -> bytes:
    """Cut `data` into blocks, compress each with `compress_raw` and frame them."""
    view = memoryview(data)
    parts: list[Any] = [_HEADER]
    for start in range(0, len(view), _BLOCK_BYTES):
        block = compress_raw(view[start : start + _BLOCK_BYTES])
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(bytes(block))
    return b"".join(parts)


def blocks(data: bytes | bytearray | memoryview) -> Iterator[memoryview]:
    """The raw snappy blocks of `data`, framed or not."""
    view = memoryview(data)
    if view[: len(_MAGIC)] != _MAGIC or len(view) < len(_HEADER):
        yield view
        return
    position = len(_HEADER)
    while position < len(view):
        if view[position : position + len(_MAGIC)] == _MAGIC:
            position += len(_HEADER)
            continue
        size = int.from_bytes(view[position : position + 4], "big")
        position += 4
        if size > len(view) - position:
            raise CorruptRecordError(f"snappy block of {size} bytes at byte {position} of {len(view)} is cut off")
        yield view[position : position + size]
        position += size


def uncompressed_size(block: memoryview) -> int:
    """The uncompressed size that a raw block claims: a little-endian varint at its start."""
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if size > len(block) * _EXPANSION_MAX:
                raise CorruptRecordError(f"snappy block of {len(block)} bytes cannot expand to {size}")
            return size
    raise CorruptRecordError(f"snappy block of {len(block)} bytes does not start with its size")
