"""What a failed row carries in its headers."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.retry.headers import OWN, HeaderError, Origin, Trail, decode, encode, strip

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
NUMBER = st.integers(min_value=0, max_value=2**63 - 1)
TRAILS = st.builds(
    Trail,
    pipeline=TEXT,
    attempts=NUMBER,
    error_type=TEXT,
    error_message=TEXT,
    failed_ms=NUMBER,
    origin=st.builds(Origin, topic=TEXT, partition=NUMBER, offset=NUMBER, timestamp_ms=st.integers(-1, 2**63 - 1)),
    due_ms=st.none() | NUMBER,
    sequence=st.none() | NUMBER,
)
OWN_HEADERS = st.lists(st.tuples(st.text(max_size=8).filter(lambda name: name not in OWN), st.none() | st.binary()))


@given(TRAILS, OWN_HEADERS)
def test_a_trail_is_read_back_and_the_records_own_headers_are_untouched(trail: Trail, own: list) -> None:
    headers = (*own, *encode(trail))
    assert decode(headers) == trail
    assert strip(headers) == tuple(own)


def test_a_record_that_never_failed_has_no_trail() -> None:
    assert decode([("trace", b"1")]) is None


def test_a_long_message_is_cut() -> None:
    trail = Trail("p", 1, "ValueError", "x" * 10_000, 0, Origin("t", 0, 0, 0))
    decoded = decode(encode(trail))
    assert decoded is not None
    assert len(decoded.error_message) == 2_000


def test_a_broken_number_is_named() -> None:
    headers = [(name, b"many" if name == "tidelog.attempts" else value) for name, value in encode(_trail())]
    with pytest.raises(HeaderError, match=r"'tidelog.attempts' is 'many'"):
        decode(headers)


def test_a_missing_header_is_named() -> None:
    headers = [header for header in encode(_trail()) if header[0] != "tidelog.origin.offset"]
    with pytest.raises(HeaderError, match=r"'tidelog.origin.offset' is missing"):
        decode(headers)


@given(st.lists(st.tuples(st.sampled_from(sorted(OWN)), st.none() | st.binary(max_size=30))))
def test_foreign_bytes_raise_nothing_else(headers: list) -> None:
    with suppress(HeaderError):
        decode(headers)


def _trail() -> Trail:
    return Trail("p", 1, "ValueError", "bad", 5, Origin("orders", 0, 7, 3))
