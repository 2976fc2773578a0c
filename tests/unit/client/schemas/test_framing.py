"""Confluent's wire format, byte by byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.schemas.framing import (
    decode_message_indexes,
    encode_message_indexes,
    frame_header,
    read_schema_id,
)
from tidelog.client.schemas.subjects import record_name, topic_name, topic_record_name


def test_a_header_is_a_zero_and_the_schema_id() -> None:
    assert frame_header(258) == b"\x00\x00\x00\x01\x02"
    assert read_schema_id(b"\x00\x00\x00\x01\x02payload") == 258


@pytest.mark.parametrize(
    ("data", "reason"), [(b"", "0 bytes"), (b"\x00\x01", "2 bytes"), (b"\x01\x00\x00\x00\x01", "byte is 1")]
)
def test_data_without_a_header_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_schema_id(data)


@pytest.mark.parametrize(
    ("indexes", "encoded"), [((0,), b"\x00"), ((1,), b"\x02\x02"), ((1, 0), b"\x04\x02\x00"), ((70,), b"\x02\x8c\x01")]
)
def test_message_indexes_are_zigzag_varints(indexes: tuple[int, ...], encoded: bytes) -> None:
    assert encode_message_indexes(indexes) == encoded
    assert decode_message_indexes(b"head" + encoded + b"tail", 4) == (indexes, 4 + len(encoded))


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=10).map(tuple))
def test_message_indexes_come_back(indexes: tuple[int, ...]) -> None:
    assert decode_message_indexes(encode_message_indexes(indexes), 0)[0] == indexes


@given(st.binary(max_size=40))
def test_any_bytes_are_indexes_or_refused(data: bytes) -> None:
    try:
        indexes, position = decode_message_indexes(data, 0)
    except ValueError:
        return
    assert len(indexes) <= position <= len(data)


def test_subjects_are_named_as_confluent_names_them() -> None:
    assert topic_name("orders", True, "shop.Order") == "orders-key"
    assert topic_name("orders", False, None) == "orders-value"
    assert record_name("orders", False, "shop.Order") == "shop.Order"
    assert topic_record_name("orders", False, "shop.Order") == "orders-shop.Order"
