"""Requests of every API and version that a broker serves, and what can be done to their bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any

from tests.integration.raw_client import batch_of, frame_of
from tidelog.broker.handlers import handlers
from tidelog.broker.requests.routes import request_name
from tidelog.records.compression import Codec
from tidelog.wire import messages
from tidelog.wire.fields import Declared
from tidelog.wire.schema import Field, Message

VICTIM_TOPIC = "victim"
_EXTREMES = (0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x00FFFFFF, 0xFF000000)


def served_requests() -> Iterator[tuple[type[Message], int]]:
    """Every request and version that a broker serves."""
    for route in handlers().values():
        for version in range(route.min_version, route.max_version + 1):
            yield getattr(messages, request_name(route.api_key)), version


def plausible(request: type[Message], version: int, source: random.Random) -> Message:
    """A request whose fields have values that mean something here, or just miss it."""
    return _struct(request, version, source)  # type: ignore[return-value]


def _struct(cls: type[Declared], version: int, source: random.Random) -> Declared:
    values = {name: _value(field, name, version, source) for name, field in cls.fields.items() if field.is_in(version)}
    return cls(**values)


def _value(field: Field, name: str, version: int, source: random.Random) -> Any:
    if field.null_since <= version and source.random() < 0.1:
        return None
    if field.kind == "array":
        return [_element(field.element, name, version, source) for _ in range(source.choice((0, 1, 1, 2, 3)))]
    if isinstance(field.element, type):
        return _struct(field.element, version, source)
    if name in _TAMED:
        return source.choice(_TAMED[name])
    return source.choice(_VALUES[field.kind])


def _element(element: str | type[Declared], name: str, version: int, source: random.Random) -> Any:
    if isinstance(element, type):
        return _struct(element, version, source)
    return source.choice(_TAMED.get(name) or _VALUES[element])


_TAMED: dict[str, tuple[Any, ...]] = {
    # A request that is understood must be over soon, and must not make thousands of things.
    "max_wait_ms": (-1, 0, 1, 5),
    "timeout_ms": (-1, 0, 1, 5),
    "num_partitions": (-1, 0, 1, 2),
    "count": (-1, 0, 1, 3),
    "validate_only": (True,),
}
_VALUES: dict[str, tuple[Any, ...]] = {
    "boolean": (False, True),
    "int8": (-128, -1, 0, 1, 2, 4, 127),
    "int16": (-(2**15), -1, 0, 1, 3, 2**15 - 1),
    "uint16": (0, 1, 2**16 - 1),
    "int32": (-(2**31), -3, -1, 0, 0, 1, 2, 1001, 2**31 - 1),
    "int64": (-(2**63), -2, -1, 0, 0, 1, 5, 1_700_000_000_000, 2**63 - 1),
    "float64": (0.0, -1.5, 1e300),
    "uuid": (bytes(16), bytes(range(16))),
    "string": (VICTIM_TOPIC, VICTIM_TOPIC, "", "not-there", "é" * 60, "a" * 260, "../up", "1001", "retention.ms", "1"),
    "blob": (b"", b"blob", bytes(300)),
    "record_batches": (b"", batch_of([b"value"] * 3), batch_of([b"v" * 500], codec=Codec.GZIP), bytes(61)),
}


def mutants(request: Any, version: int, source: random.Random, count: int) -> Iterator[bytes]:
    """`count` damaged frames; most still have a true length, so that the damage reaches the parsers."""
    whole = frame_of(request, version, source.randrange(2**31))
    for _ in range(count):
        body = bytearray(whole[4:])
        for _ in range(source.choice((1, 1, 1, 2, 5))):
            source.choice(_DAMAGES)(body, source)
        if source.random() < 0.9:
            yield struct.pack(">i", len(body)) + bytes(body)
        else:
            yield struct.pack(">i", source.choice((0, 1, 7, len(body) // 2, len(body) + 3, 10_000_000))) + bytes(body)


def extremes(request: Any, version: int) -> Iterator[bytes]:
    """At each place of the body in turn, a number where a count or a length may stand."""
    whole = frame_of(request, version)
    for position in range(12, len(whole) - 3):
        for number in _EXTREMES[:3]:
            mutant = bytearray(whole)
            struct.pack_into(">I", mutant, position, number)
            yield bytes(mutant)


def _flip_a_bit(body: bytearray, source: random.Random) -> None:
    if body:
        body[source.randrange(len(body))] ^= 1 << source.randrange(8)


def _cut(body: bytearray, source: random.Random) -> None:
    del body[source.randrange(len(body) + 1) :]


def _insert(body: bytearray, source: random.Random) -> None:
    position = source.randrange(len(body) + 1)
    body[position:position] = source.randbytes(source.choice((1, 2, 4, 50)))


def _remove(body: bytearray, source: random.Random) -> None:
    position = source.randrange(len(body) + 1)
    del body[position : position + source.choice((1, 2, 4, 8))]


def _overwrite_with_an_extreme(body: bytearray, source: random.Random) -> None:
    if len(body) >= 4:
        struct.pack_into(">I", body, source.randrange(len(body) - 3), source.choice(_EXTREMES))


def _overwrite_with_a_long_varint(body: bytearray, source: random.Random) -> None:
    position = source.randrange(len(body) + 1)
    body[position : position + 5] = source.choice((b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\xff", b"\x80" * 9))


def _repeat(body: bytearray, source: random.Random) -> None:
    position = source.randrange(len(body) + 1)
    piece = body[position : position + source.randrange(1, 30)]
    body[position:position] = piece * source.choice((1, 3, 100))


_DAMAGES = (
    _flip_a_bit,
    _cut,
    _insert,
    _remove,
    _overwrite_with_an_extreme,
    _overwrite_with_a_long_varint,
    _repeat,
)
