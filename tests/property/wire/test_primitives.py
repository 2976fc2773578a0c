"""The primitives against kio's, and against themselves."""

import io

from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import writers

from tests.property.effort import examples
from tidelog.wire.errors import WireError
from tidelog.wire.primitives import (
    decode_compact_string,
    decode_string,
    decode_uvarint,
    decode_varint,
    encode_compact_string,
    encode_string,
    encode_uvarint,
    encode_varint,
    uuid_from_text,
    uuid_to_text,
)

_SETTINGS = settings(deadline=None, database=None, max_examples=examples(100))
_TEXTS = st.none() | st.text(st.characters(codec="utf-8"), max_size=40)


def _by_kio(write, value) -> bytes:  # type: ignore[no-untyped-def]
    with io.BytesIO() as buffer:
        write(buffer, value)
        return buffer.getvalue()


@_SETTINGS
@given(st.integers(0, 0x7FFFFFFF))
def test_unsigned_varints_are_as_kio_writes_them(value: int) -> None:
    encoded = encode_uvarint(value)
    assert encoded == _by_kio(writers.write_unsigned_varint, value)
    assert decode_uvarint(b"?" + encoded + b"?", 1) == (value, 1 + len(encoded))


@_SETTINGS
@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_signed_varints_are_as_kio_writes_them(value: int) -> None:
    encoded = encode_varint(value)
    assert encoded == _by_kio(writers.write_signed_varlong, value)
    assert decode_varint(b"?" + encoded + b"?", 1) == (value, 1 + len(encoded))


@_SETTINGS
@given(_TEXTS)
def test_strings_are_as_kio_writes_them(text: str | None) -> None:
    compact, legacy = encode_compact_string(text), encode_string(text)
    assert compact == _by_kio(writers.write_nullable_compact_string, text)
    assert legacy == _by_kio(writers.write_nullable_legacy_string, text)
    assert decode_compact_string(memoryview(b"?" + compact + b"?"), 1) == (text, 1 + len(compact))
    assert decode_string(memoryview(b"?" + legacy + b"?"), 1) == (text, 1 + len(legacy))


@_SETTINGS
@given(st.binary(max_size=20), st.integers(0, 22))
def test_readers_raise_nothing_but_wire_errors(data: bytes, position: int) -> None:
    for read in (decode_uvarint, decode_varint, decode_string, decode_compact_string):
        try:
            _, end = read(data, position)
        except WireError:
            continue
        assert position < end <= len(data)


@_SETTINGS
@given(st.binary(min_size=16, max_size=16))
def test_uuids_come_back_from_their_text(uuid: bytes) -> None:
    text = uuid_to_text(uuid)
    assert len(text) == 22
    assert uuid_from_text(text) == uuid


@_SETTINGS
@given(st.text(max_size=30))
def test_any_text_is_a_uuid_or_a_value_error(text: str) -> None:
    try:
        assert len(uuid_from_text(text)) == 16
    except ValueError:
        return
