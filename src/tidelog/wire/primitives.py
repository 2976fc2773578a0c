"""The primitive types of Kafka's encoding as functions.

Varints, length-prefixed strings and the text form of uuids, as plain functions over a buffer and a position. Codecs of
messages are compiled with these rules inlined (`_decoder_source`, `_encoder_source`) and call only the slow paths.
Readers raise `WireError` for any malformed bytes.
"""

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from typing import Final, TypeAlias

from tidelog.wire.errors import EncodeError, WireError

Buffer: TypeAlias = bytes | bytearray | memoryview

NO_UUID: Final = bytes(16)
"""The uuid that stands for "none": Kafka's zero uuid."""

STRING_BYTES_MAX: Final = 0x7FFF
"""The longest string on the wire, even where its length field allows more."""

TAGGED_FIELDS_MAX: Final = 64
"""The limit for one struct or header. Kafka's messages define a handful; newer clients may send a few unknown ones."""

_VARINT_MAX: Final = 0x7FFFFFFF

UVARINTS: Final = tuple(bytes((n,)) if n < 0x80 else bytes((n & 0x7F | 0x80, n >> 7)) for n in range(512))
"""The encodings of the unsigned varints that make up almost all lengths."""


def encode_uvarint(value: int) -> bytes:
    """An unsigned varint, as used for compact strings, compact arrays and tagged fields."""
    if not 0 <= value <= _VARINT_MAX:
        raise EncodeError(f"{value} is not an unsigned 31-bit number")
    if value < 512:
        return UVARINTS[value]
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def decode_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint and the position after it."""
    try:
        first = buffer[position]
    except IndexError:
        raise WireError(f"buffer ends inside a varint at {position}") from None
    if first < 0x80:
        return first, position + 1
    return continue_uvarint(buffer, position + 1, first)


def continue_uvarint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte has been read and was not the last."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        try:
            byte = buffer[position]
        except IndexError:
            raise WireError(f"buffer ends inside a varint at {position}") from None
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _VARINT_MAX:
                raise WireError(f"varint {value} before {position} does not fit 31 bits")
            return value, position
    raise WireError(f"varint before {position} is longer than 5 bytes")


def checked_string_bytes(size: int) -> int:
    """The size of a string, checked against the longest string."""
    if size > STRING_BYTES_MAX:
        raise WireError(f"a string of {size} bytes is longer than {STRING_BYTES_MAX}")
    return size


def checked_tag_count(count: int, remaining_bytes: int) -> int:
    """The number of tagged fields that follow. Each takes two bytes or more."""
    if count > TAGGED_FIELDS_MAX or count * 2 > remaining_bytes:
        raise WireError(
            f"{count} tagged fields in {remaining_bytes} bytes; at most {TAGGED_FIELDS_MAX}, of two bytes or more each"
        )
    return count


def skip_tagged_fields(buffer: Buffer, position: int, end: int) -> int:
    """The position after unknown tagged fields. It may be beyond `end`: callers check that at the end."""
    if position < end and not buffer[position]:
        return position + 1
    count, position = decode_uvarint(buffer, position)
    for _ in range(checked_tag_count(count, end - position)):
        _, position = decode_uvarint(buffer, position)
        size, position = decode_uvarint(buffer, position)
        position += size
    return position


def encode_varint(value: int) -> bytes:
    """A signed (zigzag) varint or varlong, as used inside records."""
    encoded = bytearray()
    rest = (value << 1) ^ (value >> 63)
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def decode_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """A signed (zigzag) varint or varlong of at most ten bytes, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        try:
            byte = buffer[position]
        except IndexError:
            raise WireError(f"buffer ends inside a varint at {position}") from None
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFFFFFFFFFF
            return (value >> 1) ^ -(value & 1), position
    raise WireError(f"varint before {position} is longer than 10 bytes")


def encode_compact_string(text: str | None) -> bytes:
    """A string of the flexible versions: length + 1 as a varint, 0 for null."""
    if text is None:
        return b"\0"
    encoded = text.encode()
    if len(encoded) > STRING_BYTES_MAX:
        raise EncodeError(f"string of {len(encoded)} bytes is longer than {STRING_BYTES_MAX}")
    return encode_uvarint(len(encoded) + 1) + encoded


def decode_compact_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """A string of the flexible versions and the position after it."""
    length, position = decode_uvarint(buffer, position)
    if length == 0:
        return None, position
    return _text(buffer, position, position + length - 1)


def encode_string(text: str | None) -> bytes:
    """A string of the older versions: length in two bytes, -1 for null."""
    if text is None:
        return b"\xff\xff"
    encoded = text.encode()
    if len(encoded) > STRING_BYTES_MAX:
        raise EncodeError(f"string of {len(encoded)} bytes is longer than {STRING_BYTES_MAX}")
    return len(encoded).to_bytes(2, "big") + encoded


def decode_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """A string of the older versions and the position after it."""
    start = position + 2
    if start > len(buffer):
        raise WireError(f"buffer ends inside the length of a string at {position}")
    length = int.from_bytes(buffer[position:start], "big", signed=True)
    if length < 0:
        return None, start
    return _text(buffer, start, start + length)


def _text(buffer: Buffer, start: int, end: int) -> tuple[str, int]:
    checked_string_bytes(end - start)
    if end > len(buffer):
        raise WireError(f"string at {start} ends at {end}, beyond the buffer's {len(buffer)} bytes")
    try:
        return str(buffer[start:end], "utf-8"), end
    except UnicodeDecodeError as error:
        raise WireError(f"string at {start} is not UTF-8: {error.reason}") from None


def uuid_to_text(uuid: bytes) -> str:
    """The 22 characters that Kafka prints for a uuid in files, tools and logs (URL-safe base64, unpadded)."""
    if len(uuid) != 16:
        raise ValueError(f"a uuid has 16 bytes, not {len(uuid)}")
    return b2a_base64(uuid, newline=False).decode().rstrip("=").replace("+", "-").replace("/", "_")


def uuid_from_text(text: str) -> bytes:
    """The 16 bytes of a uuid in Kafka's text form."""
    try:
        uuid = a2b_base64(text.replace("-", "+").replace("_", "/") + "==", strict_mode=True)
    except (Base64Error, ValueError) as error:
        raise ValueError(f"{text!r} is not the text form of a uuid: {error}") from None
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not the text form of a uuid: {len(uuid)} bytes instead of 16")
    return uuid
