"""The LZ4 frame format, as far as needed to limit its content and to correct its header.

A frame is a magic number, a descriptor (flags, block size, optional content size and dictionary id, one checksum byte),
blocks each preceded by a size, and an end mark. The first Java clients computed the checksum byte over the magic number
as well; messages of magic 0 have that one (KAFKA-3160). Called by `compression` only.
"""

import struct

from tidelog.records.errors import CorruptRecordError

_MAGIC = b"\x04\x22\x4d\x18"
_BLOCK_BYTES_MAX = {4: 64 * 1024, 5: 256 * 1024, 6: 1024 * 1024, 7: 4 * 1024 * 1024}
_STORED_BIT = 0x8000_0000
_EXPANSION_MAX = 255
"""One byte of an LZ4 length adds at most 255 bytes of output."""

_VERSION_BITS = 0xC0
_VERSION_1 = 0x40
_BLOCK_CHECKSUM = 0x10
_CONTENT_SIZE = 0x08
_CONTENT_CHECKSUM = 0x04
_DICTIONARY_ID = 0x01

_READ_SIZE = struct.Struct("<I").unpack_from


def measure(data: bytes | bytearray | memoryview) -> tuple[int, int]:
    """The length of the frame at the start of `data` and the most bytes its blocks can hold."""
    view = memoryview(data)
    flags = _flags(view)
    block_bytes_max = _BLOCK_BYTES_MAX.get(view[5] >> 4 & 7)
    if block_bytes_max is None:
        raise CorruptRecordError(f"lz4 frame has the unknown block size code {view[5] >> 4 & 7}")
    position = _checksum_position(flags) + 1
    trailer = 4 if flags & _BLOCK_CHECKSUM else 0
    content_bytes = 0
    try:
        while size := _READ_SIZE(view, position)[0]:
            stored = size & _STORED_BIT
            size &= ~_STORED_BIT
            content_bytes += size if stored else min(block_bytes_max, size * _EXPANSION_MAX)
            position += 4 + size + trailer
    except struct.error as error:
        raise CorruptRecordError(f"lz4 frame of {len(view)} bytes has no end mark") from error
    end = position + 4 + (4 if flags & _CONTENT_CHECKSUM else 0)
    if end > len(view):
        raise CorruptRecordError(f"lz4 frame of {len(view)} bytes is cut off in its checksum")
    return end, content_bytes


def mend_header_checksum(data: bytes | bytearray | memoryview) -> bytes:
    """The frame with a correct checksum byte: Kafka does not check the original one for magic 0."""
    frame = bytearray(data)
    position = _checksum_position(_flags(memoryview(frame)))
    if position >= len(frame):
        raise CorruptRecordError(f"lz4 frame of {len(frame)} bytes is cut off in its header")
    frame[position] = _xxh32(frame[4:position]) >> 8 & 0xFF
    return bytes(frame)


def break_header_checksum(frame: bytes) -> bytes:
    """The frame with the checksum byte that consumers of magic 0 expect."""
    position = _checksum_position(frame[4])
    return frame[:position] + bytes([_xxh32(frame[:position]) >> 8 & 0xFF]) + frame[position + 1 :]


def _flags(view: memoryview) -> int:
    if len(view) < 7 or view[:4] != _MAGIC:
        raise CorruptRecordError(f"lz4 data of {len(view)} bytes does not start with a frame header")
    flags = view[4]
    if flags & _VERSION_BITS != _VERSION_1:
        raise CorruptRecordError(f"lz4 frame has the unknown version {flags >> 6}")
    return flags


def _checksum_position(flags: int) -> int:
    return 6 + (8 if flags & _CONTENT_SIZE else 0) + (4 if flags & _DICTIONARY_ID else 0)


_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_MASK = 0xFFFF_FFFF


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def _xxh32(data: bytes | bytearray) -> int:
    """XXH32 with seed 0; frame descriptors are short, so speed does not matter here."""
    whole = len(data) & ~15
    if whole:
        lanes = [(_PRIME_1 + _PRIME_2) & _MASK, _PRIME_2, 0, -_PRIME_1 & _MASK]
        for index, (word,) in enumerate(struct.iter_unpack("<I", data[:whole])):
            lanes[index & 3] = _rotate((lanes[index & 3] + word * _PRIME_2) & _MASK, 13) * _PRIME_1 & _MASK
        digest = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
    else:
        digest = _PRIME_5
    digest = (digest + len(data)) & _MASK
    words_end = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[whole:words_end]):
        digest = _rotate((digest + word * _PRIME_3) & _MASK, 17) * _PRIME_4 & _MASK
    for byte in data[words_end:]:
        digest = _rotate((digest + byte * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
    digest = (digest ^ digest >> 15) * _PRIME_2 & _MASK
    digest = (digest ^ digest >> 13) * _PRIME_3 & _MASK
    return digest ^ digest >> 16
