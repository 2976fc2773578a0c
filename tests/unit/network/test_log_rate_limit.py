"""A kind of line is logged a few times, then counted."""

from __future__ import annotations

import logging

from tidelog.network.log_rate_limit import LogRateLimit


def record(message: str, created_s: float, error: Exception | None = None) -> logging.LogRecord:
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("test", logging.ERROR, __file__, 1, message, ("value",), exc_info)
    made.created = created_s
    return made


def raised(number: int) -> Exception:
    """Errors of the same type from one of two places."""
    try:
        if number % 2:
            raise ValueError(number)
        raise ValueError(number)
    except ValueError as error:
        return error


def test_lines_of_one_kind_are_limited_whatever_their_values() -> None:
    limit = LogRateLimit(lines_max=3, interval_s=10)
    assert sum(limit.filter(record("closing %s", 0)) for _ in range(1000)) == 3
    assert limit.filter(record("another %s", 0))


def test_the_next_line_after_the_interval_counts_those_left_out() -> None:
    limit = LogRateLimit(lines_max=1, interval_s=10)
    for _ in range(5):
        limit.filter(record("closing %s", 0))
    later = record("closing %s", 10)
    assert limit.filter(later)
    assert later.getMessage() == "closing value (4 more lines of this kind were left out)"


def test_errors_of_different_places_are_different_kinds() -> None:
    """One traceback that comes again and again must not hide another."""
    limit = LogRateLimit(lines_max=1, interval_s=10)
    passed = [limit.filter(record("failed %s", 0, raised(number))) for number in range(6)]
    assert passed == [True, True, False, False, False, False]


def test_the_number_of_kinds_is_bounded() -> None:
    limit = LogRateLimit()
    for number in range(10_000):
        limit.filter(record(f"{number} %s", 0))
    assert len(limit._windows) <= 256
