"""How pages write numbers, sizes and times. Pure."""

import re
from datetime import UTC, datetime
from html import escape
from typing import Final

_CODE: Final = re.compile(r"`([^`]*)`")
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def number(value: float | None) -> str:
    """1,234,567, or 0.25 with all its digits; a dash for what is not known."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10f}".rstrip("0").rstrip(".")


def rate(value: float | None) -> str:
    """A measured number, without digits that mean nothing: 12,345, 12.3, 0.12."""
    if value is None:
        return "–"
    return number(round(value, 0 if abs(value) >= 100 else 1 if abs(value) >= 1 else 2))


def size(count: int | None) -> str:
    """Bytes in the unit that fits: 1.4 GiB."""
    if count is None or count < 0:
        return "–"
    amount = float(count)
    for unit in _UNITS:
        if amount < 1024 or unit == _UNITS[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("the last unit takes every size")


def moment(time_ms: int | None) -> str:
    """A time in UTC, as ISO 8601 writes it; a dash for none."""
    if time_ms is None or time_ms < 0:
        return "–"
    try:
        made = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
    return made.strftime("%Y-%m-%d %H:%M:%S") + f".{time_ms % 1000:03d} UTC"


def duration(seconds: float | None) -> str:
    """A span of time in its two largest units: 3 h 20 min."""
    if seconds is None:
        return "–"
    whole = int(seconds)
    for unit_s, unit, smaller_s, smaller in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= unit_s:
            rest = whole % unit_s // smaller_s
            return f"{whole // unit_s} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def count(amount: int, noun: str, plural: str | None = None) -> str:
    """`1 partition`, `12 partitions`."""
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"


def with_code(prose: str) -> str:
    """A text as HTML, what stands between backticks as code."""
    return _CODE.sub(r"<code>\1</code>", escape(prose))
