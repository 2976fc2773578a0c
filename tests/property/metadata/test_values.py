"""Values as bytes: what goes in comes out, and what never went in raises `ValueError` and nothing else."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.metadata._values import decode_value, encode_value

values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.binary(max_size=20),
        st.text(st.characters(), max_size=10),
    ),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


def depth(value: Any) -> int:
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(value=values.filter(lambda value: depth(value) <= 8))
def test_what_was_encoded_is_decoded(value: Any) -> None:
    decoded = decode_value(encode_value(value))
    assert decoded == value
    assert type(decoded) is type(value)


@given(data=st.binary(max_size=100))
def test_bytes_from_anywhere_are_a_value_or_refused(data: bytes) -> None:
    with suppress(ValueError):
        assert encode_value(decode_value(data)) == data


@given(value=values, at=st.integers(0), flip=st.integers(1, 255), cut=st.integers(0))
def test_a_damaged_value_is_another_value_or_refused(value: Any, at: int, flip: int, cut: int) -> None:
    data = bytearray(encode_value(value))
    data[at % len(data)] ^= flip
    with suppress(ValueError):
        decode_value(bytes(data))
    with pytest.raises(ValueError, match=r"cut off|bytes or items|nested"):
        decode_value(encode_value([value])[: cut % len(encode_value([value]))])


def test_deep_lists_and_lists_that_claim_many_items_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="nested deeper than 8"):
        decode_value(b"\x06\0\0\0\1" * 10_000 + b"\0")
    with pytest.raises(ValueError, match="4294967295"):
        decode_value(b"\x06\xff\xff\xff\xff\0\0")
