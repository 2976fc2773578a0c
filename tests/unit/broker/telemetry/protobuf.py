"""Writes protobuf, as far as metrics need it: the other side of `tidelog.broker.telemetry.otlp`."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def fixed(field: int, value: int) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<q", value)


def part(field: int, *content: bytes | str) -> bytes:
    data = b"".join(each.encode() if isinstance(each, str) else each for each in content)
    return varint(field << 3 | 2) + varint(len(data)) + data


def attributes(field: int, values: Mapping[str, bytes]) -> bytes:
    return b"".join(part(field, part(1, key), part(2, value)) for key, value in values.items())


def gauge(name: str, *points: bytes) -> bytes:
    return part(2, part(1, name), part(5, *(part(1, point) for point in points)))


def total(name: str, *points: bytes, is_delta: bool = False, is_monotonic: bool = True) -> bytes:
    tail = (number(2, 1 if is_delta else 2), number(3, int(is_monotonic)))
    return part(2, part(1, name), part(7, *(part(1, point) for point in points), *tail))


def metrics(found: Iterable[bytes], resource: Mapping[str, bytes] | None = None) -> bytes:
    """A whole message, of one resource and one scope."""
    return part(1, part(1, attributes(1, resource or {})), part(2, *found))
