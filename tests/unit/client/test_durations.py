"""Lengths of time as people write them."""

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.durations import DurationError, milliseconds, parse_moment_ms, parse_when_ms, spoken


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10s", 10_000), ("1m30s", 90_000), ("500ms", 500), ("2h", 7_200_000), ("1d", 86_400_000), ("1 m 5 s", 65_000)],
)
def test_units_add_up(text: str, expected: int) -> None:
    assert milliseconds(text) == expected


def test_a_timedelta_is_a_duration_too() -> None:
    assert milliseconds(timedelta(seconds=1.5)) == 1500


@pytest.mark.parametrize("text", ["", "10", "s", "10 seconds", "-1s", "1.5s", "١s", "10sm", "s10"])
def test_what_is_no_duration_is_named(text: str) -> None:
    with pytest.raises(DurationError, match="is not a duration"):
        milliseconds(text)


def test_a_bare_number_is_refused_because_its_unit_would_be_a_guess() -> None:
    with pytest.raises(DurationError, match="has no unit"):
        milliseconds(10)  # type: ignore[arg-type]


@given(st.integers(min_value=0, max_value=10**12))
def test_spoken_durations_are_read_back(duration_ms: int) -> None:
    assert milliseconds(spoken(duration_ms)) == duration_ms


@given(st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.binary()))
def test_nothing_but_a_duration_error_is_raised(anything: object) -> None:
    with suppress(DurationError):
        assert milliseconds(anything) >= 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-02", 86_400_000),
        ("19700102", 86_400_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:01.5Z", 1500),
        (" 1970-01-01 00:00:01.500 UTC ", 1500),
        ("1768478400000", 1_768_478_400_000),
    ],
)
def test_times_are_iso_8601_or_milliseconds(text: str, expected: int) -> None:
    assert parse_moment_ms(text) == expected


@pytest.mark.parametrize("text", ["", "noon", "12", "9" * 16, "10s"])
def test_what_is_no_time_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time of ISO 8601"):
        parse_moment_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", 10_000),
        ("3s", 7_000),
        ("36500d", 0),
        ("1970-01-01T00:00:05Z", 5_000),
        (" 1700000000000 ", 1_700_000_000_000),
    ],
)
def test_a_time_is_so_long_ago_or_a_moment(text, expected):
    assert parse_when_ms(text, 10_000) == expected


def test_what_is_no_time_is_refused():
    with pytest.raises(ValueError, match="soon"):
        parse_when_ms("soon", 10_000)
