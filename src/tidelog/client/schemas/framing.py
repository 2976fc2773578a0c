"""Confluent's wire format: how a key or value names the schema that it was written with.

    magic byte 0 | schema id, 4 bytes, big-endian | [message indexes, Protobuf only] | payload

Message indexes lead from a `.proto` file to the message: a count and that many positions, each a zigzag varint. The
first message of a file, by far the most frequent, is abbreviated to the single byte 0.
"""

from struct import Struct
from typing import Final

HEADER_BYTES: Final = 5

_HEADER: Final = Struct(">Bi")
_MAGIC: Final = 0
_INDEXES_MAX: Final = 64
"""How deep messages may be nested in one another; protoc itself allows fewer."""
_VARINT_BYTES_MAX: Final = 5


def frame_header(schema_id: int) -> bytes:
    """The bytes before a payload that was written with the schema `schema_id`."""
    return _HEADER.pack(_MAGIC, schema_id)


def read_schema_id(data: bytes) -> int:
    """The schema id of framed data. Raises ValueError for data that is not framed."""
    if len(data) < HEADER_BYTES:
        raise ValueError(f"{len(data)} bytes are too short for a schema id: not written by a registry serializer")
    magic, schema_id = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise ValueError(f"the first byte is {magic}, not 0: not written by a registry serializer")
    return int(schema_id)


def encode_message_indexes(indexes: tuple[int, ...]) -> bytes:
    """The path from a file to a message, as it precedes a Protobuf payload."""
    if indexes == (0,):
        return b"\x00"
    return b"".join(_zigzag(number) for number in (len(indexes), *indexes))


def decode_message_indexes(data: bytes, position: int) -> tuple[tuple[int, ...], int]:
    """The path to a message at `position`, and the position after it. Raises ValueError for garbage."""
    count, position = _read_zigzag(data, position)
    if count == 0:
        return (0,), position
    if not 0 < count <= _INDEXES_MAX:
        raise ValueError(f"{count} message indexes: not a Protobuf payload of a registry serializer")
    indexes = []
    for _ in range(count):
        index, position = _read_zigzag(data, position)
        indexes.append(index)
    return tuple(indexes), position


def _zigzag(number: int) -> bytes:
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    made = bytearray()
    while rest > 0x7F:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    made.append(rest)
    return bytes(made)


def _read_zigzag(data: bytes, position: int) -> tuple[int, int]:
    rest = 0
    for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
        if position >= len(data):
            raise ValueError("the data ends within the message indexes")
        byte = data[position]
        position += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (rest >> 1) ^ -(rest & 1), position
    raise ValueError(f"a message index is longer than {_VARINT_BYTES_MAX} bytes")
