"""The format before record batches: message sets of magic 0 and 1.

    offset (8)  size (4)  crc (4)  magic (1)  attributes (1)  [timestamp (8)]  key size and key  value size and value

with a timestamp in magic 1 only. Every message has a CRC-32 of the bytes after it. Compression wraps messages: a
message without key whose value is the compressed message set. The offset of a wrapper is that of its last message;
messages inside have their own offsets in magic 0, and in magic 1 offsets relative to the first, so that a broker need
not rewrite them. Called by `legacy` and `validation`.
"""

import struct
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple
from zlib import crc32

from tidelog.records.compression import Buffer, Codec, decompress, decompress_lz4_of_magic_0
from tidelog.records.errors import CorruptRecordError, InvalidRecordError
from tidelog.records.header import CODEC_MASK, LOG_APPEND_TIME_BIT, NO_TIMESTAMP
from tidelog.records.record import Record

_OFFSET_AND_SIZE = struct.Struct(">qi")
_CRC_MAGIC_ATTRIBUTES = struct.Struct(">Ibb")
_MAGIC_ATTRIBUTES = struct.Struct(">bb")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_CRC_END = 4
_MESSAGE_BYTES_MIN = (14, 22)
"""A message of magic 0 and one of magic 1, with empty key and value."""


class Message(NamedTuple):
    """One message, a wrapper or not."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def is_log_append_time(self) -> bool:
        return self.magic > 0 and self.attributes & LOG_APPEND_TIME_BIT != 0


class MessageSet(NamedTuple):
    """The message set of a producer of magic 0 or 1: its records, unwrapped, with absolute offsets."""

    magic: int
    codec: Codec
    is_log_append_time: bool
    records: list[Record]


def read_message_set(buffer: Buffer, limit_bytes: int, records_max: int | None = None) -> MessageSet:
    """Read a whole set as one append: of one magic and, if compressed, with one wrapper and no other message.

    A set of more than `records_max` messages is rejected before objects are made of them. Raises CorruptRecordError for
    malformed messages and InvalidRecordError for sets that a producer may not send.
    """
    messages = _bounded_messages(buffer, records_max)
    if not messages:
        raise InvalidRecordError("a message set without a whole message")
    first = messages[0]
    if any(message.magic != first.magic for message in messages):
        raise InvalidRecordError(f"a message set starts with magic {first.magic} and continues with another")
    codec = Codec.NONE
    for message in messages:
        codec = _codec(message) or codec
    is_log_append_time = any(message.is_log_append_time for message in messages)
    if codec is Codec.NONE:
        records = [Record(message.offset, message.timestamp, message.key, message.value) for message in messages]
    elif len(messages) > 1:
        raise InvalidRecordError(f"a compressed message in a set of {len(messages)}; it must be the only one")
    else:
        records = unwrap(first, limit_bytes, records_max)
    return MessageSet(first.magic, codec, is_log_append_time, records)


def iterate_messages(buffer: Buffer) -> Iterator[Message]:
    """Yield the messages of a set, wrappers unopened, checksums checked; an incomplete one at the end is left out."""
    view = memoryview(buffer)
    position = 0
    while position + _OFFSET_AND_SIZE.size <= len(view):
        offset, size = _OFFSET_AND_SIZE.unpack_from(view, position)
        if size < _MESSAGE_BYTES_MIN[0]:
            raise CorruptRecordError(f"message at byte {position} claims a size of {size}, less than any message has")
        position += _OFFSET_AND_SIZE.size
        if position + size > len(view):
            return
        yield _decode_message(offset, view[position : position + size])
        position += size


def unwrap(wrapper: Message, limit_bytes: int, records_max: int | None = None) -> list[Record]:
    """The records of a compressed wrapper message."""
    if wrapper.value is None:
        raise InvalidRecordError("a compressed message without a value")
    codec = _codec(wrapper)
    if codec is Codec.LZ4 and wrapper.magic == 0:
        data = decompress_lz4_of_magic_0(wrapper.value, limit_bytes)
    else:
        data = decompress(codec, wrapper.value, limit_bytes)
    messages = _bounded_messages(data, records_max)
    if not messages:
        raise InvalidRecordError("a compressed message without a message inside")
    for index, message in enumerate(messages):
        if message.attributes & CODEC_MASK:
            raise InvalidRecordError("a compressed message inside a compressed one", ((index, "is itself compressed"),))
        if message.magic != wrapper.magic:
            problem = f"has magic {message.magic} inside a message of magic {wrapper.magic}"
            raise InvalidRecordError(f"a message {problem}", ((index, problem),))
    base_offset = _inner_base_offset(wrapper, messages[-1])
    timestamp = wrapper.timestamp if wrapper.is_log_append_time else None
    return [
        Record(
            base_offset + message.offset,
            message.timestamp if timestamp is None else timestamp,
            message.key,
            message.value,
        )
        for message in messages
    ]


def _bounded_messages(buffer: Buffer, records_max: int | None) -> list[Message]:
    if records_max is None:
        return list(iterate_messages(buffer))
    messages = list(islice(iterate_messages(buffer), records_max + 1))
    if len(messages) > records_max:
        raise InvalidRecordError(f"a message set of more than {records_max} messages")
    return messages


def encode_message(
    offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None
) -> bytes:
    """The bytes of one message of magic 0 (where the timestamp is left out) or 1."""
    body = b"".join(
        (
            _MAGIC_ATTRIBUTES.pack(magic, attributes),
            _INT64.pack(timestamp) if magic else b"",
            _INT32.pack(-1 if key is None else len(key)),
            key or b"",
            _INT32.pack(-1 if value is None else len(value)),
            value or b"",
        )
    )
    return b"".join((_OFFSET_AND_SIZE.pack(offset, len(body) + _CRC_END), crc32(body).to_bytes(4, "big"), body))


def _decode_message(offset: int, view: memoryview) -> Message:
    checksum, magic, attributes = _CRC_MAGIC_ATTRIBUTES.unpack_from(view)
    if magic not in (0, 1):
        raise CorruptRecordError(f"message at offset {offset} has magic {magic}, neither 0 nor 1")
    if len(view) < _MESSAGE_BYTES_MIN[magic]:
        raise CorruptRecordError(f"message of magic {magic} at offset {offset} has only {len(view)} bytes")
    if crc32(view[_CRC_END:]) != checksum:
        raise CorruptRecordError(f"message at offset {offset} does not match its checksum {checksum:#010x}")
    position = _CRC_MAGIC_ATTRIBUTES.size
    timestamp = NO_TIMESTAMP
    if magic:
        (timestamp,) = _INT64.unpack_from(view, position)
        position += _INT64.size
    key, position = _sized_bytes(offset, view, position)
    value, position = _sized_bytes(offset, view, position)
    if position != len(view):
        raise CorruptRecordError(f"message at offset {offset} has {len(view) - position} bytes after its value")
    return Message(offset, magic, attributes, timestamp, key, value)


def _sized_bytes(offset: int, view: memoryview, position: int) -> tuple[bytes | None, int]:
    if position + _INT32.size > len(view):
        raise CorruptRecordError(f"message at offset {offset} is cut off")
    (size,) = _INT32.unpack_from(view, position)
    position += _INT32.size
    if size == -1:
        return None, position
    if size < -1 or position + size > len(view):
        raise CorruptRecordError(f"message at offset {offset} has a key or value of {size} bytes")
    return bytes(view[position : position + size]), position + size


def _codec(message: Message) -> Codec:
    code = message.attributes & CODEC_MASK
    if code > Codec.LZ4:
        raise InvalidRecordError(f"a message of magic {message.magic} cannot have compression codec {code}")
    return Codec(code)


def _inner_base_offset(wrapper: Message, last: Message) -> int:
    """The number to add to the offsets inside a wrapper.

    Some versions of librdkafka always set the wrapper's offset to zero; a producer's offsets are overwritten anyway, so
    that is treated as a set that starts at zero.
    """
    if wrapper.magic == 0 or wrapper.offset == 0:
        return 0
    if wrapper.offset < last.offset:
        raise InvalidRecordError(f"a wrapper message at offset {wrapper.offset} holds relative offset {last.offset}")
    return wrapper.offset - last.offset
