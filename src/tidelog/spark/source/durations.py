"""Times as Spark's options write them: `15m`, `250ms`, `2h`; a bare number is milliseconds. Pure."""

import re
from typing import Final

from tidelog.spark.options import OptionError

_UNITS_MS: Final = {
    "us": 0.001,
    "ms": 1,
    "": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_DURATION: Final = re.compile(r"([0-9]{1,18})\s*([a-z]*)")


def parse_duration_ms(option: str, text: str) -> int:
    """The milliseconds of `text`. Raises OptionError naming the option and what it may be."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS_MS:
        raise OptionError(f"option {option!r} is {text!r}: it must be a time such as 500ms, 30s, 15m or 2h")
    return int(int(found[1]) * _UNITS_MS[found[2]])
