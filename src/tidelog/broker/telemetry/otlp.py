"""Reads OTLP metrics: the parts of OpenTelemetry's `MetricsData` that Kafka's clients send, and no more of protobuf.

    MetricsData      1 resource metrics   resource 1, scopes 2
    scope metrics    2 metrics            name 1, gauge 5, sum 7
    gauge, sum       1 data points        sum: temporality 2, is monotonic 3
    data point       4 double, 6 fixed integer, 7 attributes
    attribute        1 key, 2 value       string 1, boolean 2, integer 3, double 4

Other fields are skipped. The bytes come from outside: every length is checked, nothing is nested deeper than the list
above, and what is malformed raises `OtlpError`. Points are read one after the other, so that the caller can pause.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

NAME_BYTES_MAX: Final = 255
VALUE_BYTES_MAX: Final = 255
"""Longer texts are cut."""
ATTRIBUTES_MAX: Final = 32
"""Of a point and its resource, each; further ones are left out."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE: Final = struct.Struct("<d")
_SFIXED64: Final = struct.Struct("<q")
_VARINT_BYTES_MAX: Final = 10
_DELTA: Final = 1

Attributes = tuple[tuple[str, str], ...]
_Span = tuple[int, int]


class OtlpError(ValueError):
    """The bytes are not metrics of OTLP."""


class Meaning(Enum):
    """How a value relates to earlier ones of its series."""

    GAUGE = "gauge"
    """It replaces them."""
    TOTAL = "total"
    """It only grows, and replaces them."""
    INCREASE = "increase"
    """What a total has grown by since the last point."""
    CHANGE = "change"
    """What a gauge has changed by since the last point."""


class Point(NamedTuple):
    """One value."""

    name: str
    meaning: Meaning
    value: float
    attributes: Attributes
    """Of the point, and of the resource that it is about."""


def points(data: bytes) -> Iterator[Point]:
    """The points of a `MetricsData` message, as they are read. Raises OtlpError."""
    try:
        for number, span in _messages(data, (0, len(data))):
            if number == 1:
                yield from _of_resource(data, span)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise OtlpError(f"metrics of {len(data)} bytes cannot be read: {error}") from None


def _of_resource(data: bytes, span: _Span) -> Iterator[Point]:
    scopes: list[_Span] = []
    shared: Attributes = ()
    for number, part in _messages(data, span):
        if number == 1:
            shared = _attributes(data, part, 1)
        elif number == 2:
            scopes.append(part)
    for scope in scopes:
        for number, part in _messages(data, scope):
            if number == 2:
                yield from _of_metric(data, part, shared)


def _of_metric(data: bytes, span: _Span, shared: Attributes) -> Iterator[Point]:
    name = ""
    values: list[tuple[int, _Span]] = []
    for number, part in _messages(data, span):
        if number == 1:
            name = _text(data, part, NAME_BYTES_MAX)
        elif number in (5, 7):
            values.append((number, part))
    for number, part in values:
        meaning = Meaning.GAUGE if number == 5 else _meaning_of_sum(data, part)
        for field, point in _messages(data, part):
            if field == 1:
                value = _value(data, point)
                if value is not None:
                    yield Point(name, meaning, value, shared + _attributes(data, point, 7))


def _meaning_of_sum(data: bytes, span: _Span) -> Meaning:
    numbers = {number: value for number, kind, value in _fields(data, span) if kind == _VARINT}
    is_delta, is_monotonic = numbers.get(2) == _DELTA, bool(numbers.get(3))
    if is_delta:
        return Meaning.INCREASE if is_monotonic else Meaning.CHANGE
    return Meaning.TOTAL if is_monotonic else Meaning.GAUGE


def _value(data: bytes, span: _Span) -> float | None:
    """The value of a point; None if it has none."""
    found: float | None = None
    for number, kind, position in _fields(data, span):
        if kind == _FIXED64 and number == 4:
            found = float(_DOUBLE.unpack_from(data, position)[0])
        elif kind == _FIXED64 and number == 6:
            found = float(_SFIXED64.unpack_from(data, position)[0])
    return found


def _attributes(data: bytes, span: _Span, field: int) -> Attributes:
    found: list[tuple[str, str]] = []
    for number, part in _messages(data, span):
        if number == field and len(found) < ATTRIBUTES_MAX:
            key, value = "", None
            for place, inner in _messages(data, part):
                if place == 1:
                    key = _text(data, inner, NAME_BYTES_MAX)
                elif place == 2:
                    value = _any_value(data, inner)
            if key and value is not None:
                found.append((key, value))
    return tuple(found)


def _any_value(data: bytes, span: _Span) -> str | None:
    """A value as text; None for lists and the like."""
    found: str | None = None
    for number, kind, value in _fields(data, span):
        if kind == _BYTES and number == 1:
            found = _text(data, _length_at(data, value, span[1]), VALUE_BYTES_MAX)
        elif kind == _VARINT and number == 2:
            found = "true" if value else "false"
        elif kind == _VARINT and number == 3:
            found = str(value - (1 << 64) if value >> 63 else value)
        elif kind == _FIXED64 and number == 4:
            found = repr(_DOUBLE.unpack_from(data, value)[0])
    return found


def _text(data: bytes, span: _Span, bytes_max: int) -> str:
    start, end = span
    if end - start <= bytes_max:
        return data[start:end].decode()
    return data[start : start + bytes_max].decode("utf-8", "ignore")


def _messages(data: bytes, span: _Span) -> Iterator[tuple[int, _Span]]:
    """The fields that have a length: their numbers, and where they are."""
    for number, kind, position in _fields(data, span):
        if kind == _BYTES:
            yield number, _length_at(data, position, span[1])


def _length_at(data: bytes, position: int, end: int) -> _Span:
    size, start = _varint(data, position, end)
    return start, start + size


def _fields(data: bytes, span: _Span) -> Iterator[tuple[int, int, int]]:
    """Number and kind of each field of a message, and the value of a varint or the position of anything else."""
    position, end = span
    while position < end:
        tag, position = _varint(data, position, end)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, position = _varint(data, position, end)
            yield number, kind, value
            continue
        at = position
        if kind == _FIXED64:
            position += 8
        elif kind == _FIXED32:
            position += 4
        elif kind == _BYTES:
            size, position = _varint(data, position, end)
            position += size
        else:
            raise OtlpError(f"field {number} at {at} is of kind {kind}, which metrics do not have")
        if number == 0 or position > end:
            raise OtlpError(f"field {number} at {at} ends at {position}, outside of its message, which ends at {end}")
        yield number, kind, at


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """An unsigned number of up to 64 bits, and the position after it."""
    value = 0
    for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
        if position >= end:
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
    raise OtlpError(f"a number ends or is too long at {position}")
