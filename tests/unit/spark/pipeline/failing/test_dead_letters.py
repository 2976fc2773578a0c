"""Choosing among dead letters."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.retry.headers import Origin, Trail, encode
from tidelog.spark.pipeline.failing.dead_letters import DeadLetter, FilterError, is_meant, parse_filter, read_letter

TRAIL = Trail("p", 3, "TimeoutError", "no answer after 5 s", 9, Origin("orders", 1, 7, 3))
LETTER = read_letter(b"k", b"v", [("trace", b"1"), *encode(TRAIL)])


def test_a_letter_is_the_record_as_it_was_before_it_failed() -> None:
    assert DeadLetter(b"k", b"v", (("trace", b"1"),), TRAIL) == LETTER


def test_a_record_with_a_broken_trail_is_left_as_it_is() -> None:
    headers = (("tidelog.origin.topic", b"orders"), ("tidelog.attempts", b"x"))
    assert read_letter(None, None, headers) == DeadLetter(None, None, headers, None)


def test_letters_of_others_are_read_as_well_and_left_as_they_are_when_broken() -> None:
    headers = (("trace", b"1"), ("__connect.errors.topic", b"orders"), ("__connect.errors.offset", b"5"))
    letter = read_letter(b"k", b"v", headers)
    assert letter.headers == (("trace", b"1"),)
    assert letter.trail is not None
    assert (letter.trail.origin.topic, letter.trail.origin.offset) == ("orders", 5)
    broken = (*headers, ("__connect.errors.partition", b"x"))
    assert read_letter(None, None, broken) == DeadLetter(None, None, broken, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("error.type=TimeoutError", True),
        ("error.type!=TimeoutError", False),
        ("error.message~answer after \\d", True),
        ("error.message~^answer", False),
        ("key=k", True),
        ("value=", False),
        ("attempts=3", True),
        ("origin.topic=orders", True),
        ("origin.partition=1", True),
        ("origin.offset=8", False),
        ("pipeline=p", True),
        ("header.trace=1", True),
        ("header.trace!=1", False),
        ("header.trace~^[0-9]$", True),
        ("header.missing=1", False),
        ("failed>1970-01-01T00:00:00.009Z", True),
        ("failed<1970-01-01T00:00:00.009Z", False),
        ("failed<2026-01-31T12:00:00Z", True),
    ],
)
def test_conditions(text: str, expected: bool) -> None:
    assert is_meant(LETTER, [parse_filter(text)]) is expected


def test_all_conditions_must_hold() -> None:
    assert not is_meant(LETTER, [parse_filter("key=k"), parse_filter("attempts=1")])
    assert is_meant(LETTER, [])


@pytest.mark.parametrize("text", ["", "key", "colour=red", "key~(", "=x", "failed>soon", "failed=1", "key>1"])
def test_what_is_no_condition_is_named(text: str) -> None:
    with pytest.raises(FilterError, match="is no"):
        parse_filter(text)


def test_a_letter_that_does_not_say_when_it_failed_goes_by_when_it_was_written() -> None:
    connect = [("__connect.errors.topic", b"orders")]
    condition = [parse_filter("failed>2026-01-31T12:00:00Z")]
    assert is_meant(read_letter(None, None, connect, 1_800_000_000_000), condition)
    assert not is_meant(read_letter(None, None, connect), condition)
    assert not is_meant(read_letter(None, None, connect), [parse_filter("failed<2026-01-31T12:00:00Z")])


@given(st.text())
def test_nothing_but_a_filter_error_is_raised(text: str) -> None:
    with suppress(FilterError):
        parse_filter(text)
