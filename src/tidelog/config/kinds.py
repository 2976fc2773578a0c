"""The types a setting may have: how each is read from text, printed, and named to clients.

Kafka prints and parses every setting as text (server.properties, DescribeConfigs, AlterConfigs). A `Kind` holds both
directions, so that `kind.format(kind.parse(text))` is the text Kafka itself would print. `declaration` calls both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final


class Kind:
    """One type of setting.

    `name` is as Kafka's documentation spells it, `code` as DescribeConfigs sends it. `parse` takes text and raises
    ValueError with the reason; `format` prints as Kafka does and is never called with None.
    """

    __slots__ = ("code", "format", "name", "parse")

    def __init__(self, name: str, code: int, parse: Callable[[str], Any], format_: Callable[[Any], str]) -> None:
        self.name = name
        self.code = code
        self.parse = parse
        self.format = format_


_DOUBLE_CHARACTERS: Final = frozenset("0123456789+-.eE")
_DOUBLE_WORDS: Final = ("NaN", "Infinity", "+Infinity", "-Infinity")


def _parse_boolean(text: str) -> bool:
    word = text.strip().lower()
    if word == "true":
        return True
    if word == "false":
        return False
    raise ValueError("Expected value to be either true or false")


def _format_boolean(value: bool) -> str:
    return "true" if value else "false"


def _integer_parser(name: str, bits: int) -> Callable[[str], int]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def parse(text: str) -> int:
        digits = text.strip()
        # int() also takes "1_000", which Kafka does not, and refuses very long digit strings with a text of its own.
        if digits[:1] in ("+", "-"):
            digits = digits[1:]
        if digits.isascii() and digits.isdigit() and len(digits) <= 40:
            value = int(text)
            if low <= value <= high:
                return value
        raise ValueError(f"Not a number of type {name}")

    return parse


def _parse_double(text: str) -> float:
    word = text.strip()
    # float() also takes "1_0", "inf" and "nan", which Java does not.
    if word in _DOUBLE_WORDS or _DOUBLE_CHARACTERS.issuperset(word):
        try:
            return float(word)
        except ValueError:
            pass
    raise ValueError("Not a number of type DOUBLE")


def format_double(value: float) -> str:
    """A double as Java prints it: plain between 0.001 and 10,000,000, else with an `E` exponent."""
    if value != value:  # NaN is the one value that differs from itself
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(float(value))
        return text if "e" not in text else f"{value:.17f}".rstrip("0")
    mantissa, _, exponent = repr(float(value)).partition("e")
    if not exponent:
        mantissa, _, exponent = _scientific(value)
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"


def _scientific(value: float) -> tuple[str, str, str]:
    """The shortest scientific form of a double that `repr` writes in plain form."""
    for digits in range(17):
        text = f"{value:.{digits}e}"
        if float(text) == value:
            return text.partition("e")
    return f"{value:.17e}".partition("e")


def parse_list(text: str) -> tuple[str, ...]:
    """A comma-separated list; spaces around items do not count, and an empty text is the empty list."""
    text = text.strip()
    return tuple(item.strip() for item in text.split(",")) if text else ()


def parse_items(text: str) -> tuple[str, ...]:
    """A comma-separated list of which empty items are left out, so that a trailing comma does no harm."""
    return tuple(item for item in parse_list(text) if item)


def _format_list(value: tuple[str, ...]) -> str:
    return ",".join(value)


BOOLEAN: Final = Kind("boolean", 1, _parse_boolean, _format_boolean)
STRING: Final = Kind("string", 2, str.strip, str)
INT: Final = Kind("int", 3, _integer_parser("INT", 32), str)
SHORT: Final = Kind("short", 4, _integer_parser("SHORT", 16), str)
LONG: Final = Kind("long", 5, _integer_parser("LONG", 64), str)
DOUBLE: Final = Kind("double", 6, _parse_double, format_double)
LIST: Final = Kind("list", 7, parse_list, _format_list)
CLASS: Final = Kind("class", 8, str.strip, str)
PASSWORD: Final = Kind("password", 9, str.strip, str)

# Kafka declares these as plain strings and splits them where they are used; ours are split once, here.
PATHS: Final = Kind("string", 2, parse_items, _format_list)

_BY_PYTHON_TYPE: Final = {bool: BOOLEAN, int: INT, float: DOUBLE, str: STRING, tuple: LIST}


def kind_of(default: object) -> Kind:
    """The kind a default value implies; a setting without a default is a string unless it says otherwise."""
    return _BY_PYTHON_TYPE.get(type(default), STRING)
