"""Values as bytes: None, bools, 64-bit integers, bytes, text and lists of them.

Decoding takes bytes from anywhere: what is not an encoded value raises `ValueError`, and neither time nor memory exceed
a small multiple of the bytes' length.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, TypeAlias

Value: TypeAlias = "bool | int | bytes | str | Sequence[Value] | None"

_DEPTH_MAX: Final = 8
_NONE, _FALSE, _TRUE, _INTEGER, _BYTES, _TEXT, _LIST = range(7)
_TAGGED_LONG: Final = Struct(">Bq")
_TAGGED_SIZE: Final = Struct(">BI")
_LONG: Final = Struct(">q")
_SIZE: Final = Struct(">I")
_CONSTANTS: Final = {_NONE: None, _FALSE: False, _TRUE: True}


def encode_value(value: Value) -> bytes:
    parts: list[bytes] = []
    _encode(value, parts)
    return b"".join(parts)


def decode_value(data: bytes) -> Value:
    value, end = _decode(data, 0, _DEPTH_MAX)
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes follow the value")
    return value


def _encode(value: Value, parts: list[bytes]) -> None:
    # Text that is not valid Unicode passes unchanged: the tree checks whether it is a path.
    if isinstance(value, str):
        text = value.encode(errors="surrogatepass")
        parts += (_TAGGED_SIZE.pack(_TEXT, len(text)), text)
    elif isinstance(value, bytes):
        parts += (_TAGGED_SIZE.pack(_BYTES, len(value)), value)
    elif value is None:
        parts.append(bytes((_NONE,)))
    elif isinstance(value, bool):
        parts.append(bytes((_TRUE if value else _FALSE,)))
    elif isinstance(value, int):
        parts.append(_TAGGED_LONG.pack(_INTEGER, value))
    else:
        parts.append(_TAGGED_SIZE.pack(_LIST, len(value)))
        for item in value:
            _encode(item, parts)


def _decode(data: bytes, at: int, depth: int) -> tuple[Value, int]:
    if at >= len(data):
        raise ValueError("the value is cut off")
    tag = data[at]
    at += 1
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], at
    if tag == _INTEGER:
        if at + _LONG.size > len(data):
            raise ValueError("the value is cut off")
        return _LONG.unpack_from(data, at)[0], at + _LONG.size
    if tag not in (_BYTES, _TEXT, _LIST):
        raise ValueError(f"there is no kind of value {tag}")
    if at + _SIZE.size > len(data):
        raise ValueError("the value is cut off")
    (size,) = _SIZE.unpack_from(data, at)
    at += _SIZE.size
    # An item of a list has at least a byte: a size beyond this is wrong for all three.
    if size > len(data) - at:
        raise ValueError(f"the value has {len(data) - at} of {size} bytes or items")
    if tag == _LIST:
        return _decode_list(data, at, size, depth)
    content = data[at : at + size]
    # UnicodeDecodeError is a ValueError.
    return (content if tag == _BYTES else content.decode(errors="surrogatepass")), at + size


def _decode_list(data: bytes, at: int, size: int, depth: int) -> tuple[list[Value], int]:
    if depth == 0:
        raise ValueError(f"lists are nested deeper than {_DEPTH_MAX}")
    items = []
    for _ in range(size):
        item, at = _decode(data, at, depth - 1)
        items.append(item)
    return items, at
