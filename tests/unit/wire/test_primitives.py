"""Varints, strings and uuids, by example."""

import pytest

from tidelog.wire.errors import EncodeError, WireError
from tidelog.wire.primitives import (
    NO_UUID,
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


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (511, "ff03"),
        (512, "8004"),
        (2**31 - 1, "ffffffff07"),
    ],
)
def test_unsigned_varints(value: int, encoded: str) -> None:
    assert encode_uvarint(value).hex() == encoded
    assert decode_uvarint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@pytest.mark.parametrize("value", [-1, 2**31])
def test_unsigned_varints_have_31_bits(value: int) -> None:
    with pytest.raises(EncodeError, match=str(value)):
        encode_uvarint(value)


@pytest.mark.parametrize(
    ("encoded", "complaint"),
    [("", "ends inside"), ("80", "ends inside"), ("ffffffff08", "31 bits"), ("808080808001", "longer than 5 bytes")],
)
def test_malformed_unsigned_varints_are_refused(encoded: str, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode_uvarint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-(2**63), "ffffffffffffffffff01")],
)
def test_signed_varints(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert decode_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@pytest.mark.parametrize(("encoded", "complaint"), [("ff", "ends inside"), ("ff" * 11, "longer than 10 bytes")])
def test_malformed_signed_varints_are_refused(encoded: str, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode_varint(bytes.fromhex(encoded), 0)


def test_a_null_string_is_not_an_empty_one() -> None:
    assert encode_string(None) == b"\xff\xff"
    assert encode_string("") == b"\0\0"
    assert encode_compact_string(None) == b"\0"
    assert encode_compact_string("") == b"\1"


@pytest.mark.parametrize("encode", [encode_string, encode_compact_string])
def test_strings_have_at_most_32767_bytes(encode) -> None:  # type: ignore[no-untyped-def]
    assert len(encode("x" * 32767)) > 32767
    with pytest.raises(EncodeError, match="32768 bytes"):
        encode("x" * 32768)


@pytest.mark.parametrize(
    ("encoded", "complaint"),
    [(b"\0", "ends inside the length"), (b"\0\5abc", "beyond the buffer"), (b"\0\1\xff", "not UTF-8")],
)
def test_malformed_strings_are_refused(encoded: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode_string(encoded, 0)


@pytest.mark.parametrize(
    ("encoded", "complaint"),
    [(b"\6abc", "beyond the buffer"), (b"\2\xff", "not UTF-8"), (b"\x81\x80\x02" + bytes(40000), "longer than 32767")],
)
def test_malformed_compact_strings_are_refused(encoded: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode_compact_string(encoded, 0)


def test_uuids_have_kafkas_text_form() -> None:
    assert uuid_to_text(NO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_to_text(b"\xff" * 16) == "_____________________w"
    assert uuid_from_text("-_-_-_-_-_-_-_-_-_-_-w") == b"\xfb\xff\xbf" * 5 + b"\xfb"


@pytest.mark.parametrize("text", ["", "short", "A" * 23, "A" * 21 + "!", "AAAA AAAA AAAA AAAA AA", "é" * 22])
def test_what_is_no_uuid_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="not the text form of a uuid"):
        uuid_from_text(text)


def test_a_uuid_of_another_length_has_no_text() -> None:
    with pytest.raises(ValueError, match="16 bytes, not 15"):
        uuid_to_text(bytes(15))
