"""For values that may be None in general, and may not be in a test."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")


def present(value: Value | None) -> Value:
    """The value; a test whose subject is missing fails here."""
    assert value is not None
    return value
