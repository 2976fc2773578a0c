"""Lengths of time and times as people write them: `10s`, `1m30s`, `500ms`, `2h`, `1d`; ISO 8601. Pure."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MAX_MS: Final = 100 * 365 * 86_400_000
_PART: Final = re.compile(r"(\d{1,12})(ms|s|m|h|d)", re.ASCII)
_WHOLE: Final = re.compile(r"(?:\d{1,12}(?:ms|s|m|h|d))+", re.ASCII)

Duration = str | timedelta


class DurationError(ValueError):
    """A text that is not a duration."""


def milliseconds(duration: Duration) -> int:
    """A duration in milliseconds. Raises only DurationError, for any input."""
    found = _milliseconds(duration)
    if found > _MAX_MS:
        raise DurationError(f"{duration!r} is more than a hundred years")
    return found


def _milliseconds(duration: Duration) -> int:
    if isinstance(duration, timedelta):
        if duration < timedelta(0):
            raise DurationError(f"{duration} is negative")
        return duration // timedelta(milliseconds=1)
    if not isinstance(duration, str):
        raise DurationError(f"{duration!r} has no unit: write '10s', '1m30s', '500ms', '2h' or '1d'")
    text = duration.replace(" ", "")
    if _WHOLE.fullmatch(text) is None:
        raise DurationError(f"{duration!r} is not a duration: write '10s', '1m30s', '500ms', '2h' or '1d'")
    return sum(int(count) * _UNIT_MS[unit] for count, unit in _PART.findall(text))


def spoken(duration_ms: int) -> str:
    """A length of time as `milliseconds` reads it, in as few units as hold it."""
    if duration_ms == 0:
        return "0s"
    parts: list[str] = []
    left = duration_ms
    for unit in ("d", "h", "m", "s", "ms"):
        count, left = divmod(left, _UNIT_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def parse_when_ms(text: str, now_ms: int) -> int:
    """A time in milliseconds since the epoch: so long ago (`2h`), `now`, or as `parse_moment_ms` reads it.

    Raises ValueError for anything else.
    """
    if text.strip() == "now":
        return now_ms
    try:
        return max(0, now_ms - milliseconds(text))
    except DurationError:
        return parse_moment_ms(text)


def parse_moment_ms(text: str) -> int:
    """A time in milliseconds since the epoch: ISO 8601 (UTC without a zone), or those milliseconds themselves.

    Fewer than nine digits are a date, as 20260131. Raises ValueError for anything else.
    """
    written = text.strip()
    if written.isascii() and written.isdigit() and 9 <= len(written) <= 15:
        return int(written)
    try:
        moment = datetime.fromisoformat(written.removesuffix(" UTC"))
    except ValueError:
        raise ValueError(f"{text!r} is not a time of ISO 8601, such as 2026-01-31T12:00:00Z") from None
    return round((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)
