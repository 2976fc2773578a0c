"""Numbers have one style on all pages."""

import pytest

from tidelog.console.text import number, rate


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (1234567, "1,234,567"),
        (0.0, "0"),
        (12.25, "12.25"),
        (1048576.0, "1,048,576"),
        (1e-5, "0.00001"),
    ],
)
def test_a_number_is_written_whole(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0"), (0.123, "0.12"), (0.004, "0"), (1.26, "1.3"), (99.94, "99.9"), (1234.5678, "1,235")],
)
def test_what_was_measured_has_no_digits_without_meaning(value, text):
    assert rate(value) == text
