"""Whatever the bytes, reading a message gives a message or a WireError, and nothing large is allocated on a promise."""

import tracemalloc

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compat.wire.samples import all_versions, filled
from tests.property.effort import examples
from tidelog.wire.errors import WireError
from tidelog.wire.frames import parse_request_header, response_body_offset
from tidelog.wire.schema import Message

_VERSIONS = list(all_versions())
_ENCODED = [(cls, version, filled(cls, version).encode(version)) for cls, version in _VERSIONS]

# Each example goes through all messages and versions, so a few tens of them are tens of thousands of readings.
_FEW = settings(
    deadline=None, database=None, derandomize=True, max_examples=examples(60), suppress_health_check=list(HealthCheck)
)

_EDITS = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4)
_LENGTHS = st.sampled_from(
    [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff" * 9, b"\x80\x80", b"\xff\xff"]
)


def _read(cls: type[Message], version: int, data: bytes) -> None:
    """Only a WireError may come out; a message that does can be written, and reads as itself."""
    try:
        message = cls.decode(data, version)
    except WireError:
        return
    written = message.encode(version)
    assert cls.decode(memoryview(written), version).encode(version) == written


@_FEW
@given(st.binary(max_size=300))
def test_random_bytes_are_a_message_or_a_wire_error(data: bytes) -> None:
    for cls, version in _VERSIONS:
        _read(cls, version, data)


@_FEW
@given(_EDITS)
def test_changed_bytes_are_a_message_or_a_wire_error(edits: list[tuple[float, int]]) -> None:
    for cls, version, encoded in _ENCODED:
        changed = bytearray(encoded)
        for place, byte in edits:
            if changed:
                changed[int(place * len(changed))] = byte
        _read(cls, version, bytes(changed))


@_FEW
@given(st.floats(0, 1), _LENGTHS)
def test_inserted_lengths_are_a_message_or_a_wire_error(place: float, length: bytes) -> None:
    for cls, version, encoded in _ENCODED:
        position = int(place * len(encoded))
        _read(cls, version, encoded[:position] + length + encoded[position + len(length) :])


def test_every_proper_prefix_of_a_message_is_refused() -> None:
    for cls, version, encoded in _ENCODED:
        for end in range(len(encoded)):
            for prefix in (encoded[:end], memoryview(encoded)[:end]):
                try:
                    cls.decode(prefix, version)
                except WireError:
                    continue
                raise AssertionError(f"{cls.__name__} v{version} was read from {end} of {len(encoded)} bytes")


def test_promised_lengths_are_not_allocated() -> None:
    """Every four bytes of every message become a count of two billion; the reader refuses before it makes room."""
    lie = b"\x7f\xff\xff\xff"
    compact_lie = b"\xff\xff\xff\xff\x07"
    tracemalloc.start()
    try:
        for cls, version, encoded in _ENCODED[::7]:
            for position in range(len(encoded)):
                _read(cls, version, encoded[:position] + lie + encoded[position + 4 :])
                _read(cls, version, encoded[:position] + compact_lie + encoded[position + 1 :])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20


@settings(deadline=None, max_examples=examples(100))
@given(st.binary(max_size=60), st.integers(0, 30))
def test_headers_are_read_or_refused(data: bytes, offset: int) -> None:
    try:
        header = parse_request_header(data, offset)
    except WireError:
        return
    assert offset + 8 <= header.body_offset <= len(data)


@settings(deadline=None, max_examples=examples(100))
@given(st.binary(max_size=60), st.integers(-1, 90), st.integers(0, 20))
def test_response_headers_are_read_or_refused(data: bytes, api_key: int, version: int) -> None:
    try:
        assert 4 <= response_body_offset(api_key, version, data) <= len(data)
    except WireError:
        return
