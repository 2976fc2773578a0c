"""Variable-length integers of the record format: zigzag, seven bits a byte, least significant first.

Called by the record codec of this room for values longer than one byte.
"""

from functools import lru_cache

from tidelog.records.errors import CorruptRecordError

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1

UNZIGZAG = tuple((byte >> 1) ^ -(byte & 1) for byte in range(128))
"""The value of each one-byte varint."""


@lru_cache(maxsize=16384)
def encode_varint(value: int) -> bytes:
    """The shortest encoding of `value`, which must fit 64 bits.

    Most batches need the same few sizes and deltas, and a lookup takes a third of the time of encoding.
    """
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def decode_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Read a 32-bit varint; returns it and the position after it. Raises IndexError at the end of `data`."""
    byte = data[position]
    position += 1
    value = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        if shift > 28:
            raise CorruptRecordError(f"varint before byte {position} is longer than 5 bytes")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    decoded = (value >> 1) ^ -(value & 1)
    if not -_INT32_MAX - 1 <= decoded <= _INT32_MAX:
        raise CorruptRecordError(f"varint before byte {position} does not fit 32 bits")
    return decoded, position


def decode_varlong(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Read a 64-bit varint; returns it and the position after it. Raises IndexError at the end of `data`."""
    byte = data[position]
    position += 1
    value = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        if shift > 63:
            raise CorruptRecordError(f"varlong before byte {position} is longer than 10 bytes")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    decoded = (value >> 1) ^ -(value & 1)
    if not -_INT64_MAX - 1 <= decoded <= _INT64_MAX:
        raise CorruptRecordError(f"varlong before byte {position} does not fit 64 bits")
    return decoded, position
