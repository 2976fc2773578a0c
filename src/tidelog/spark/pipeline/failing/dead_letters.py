"""Choosing among dead letters: `error.type=ValueError`, `key!=42`, `error.message~time.?out`, `header.tenant=a`. Pure.

`failed>2026-01-31T12:00:00Z` and `failed<…` choose by the time of the failure, or of the letter where it does not say.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.client.durations import parse_moment_ms
from tidelog.client.retry.conventions import decode_other, strip_other
from tidelog.client.retry.headers import Header, HeaderError, Trail, decode, strip


class FilterError(ValueError):
    """A text that is not a filter."""


class DeadLetter(NamedTuple):
    """A record of a dead-letter topic. `trail` is None if it does not say where it came from."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    trail: Trail | None
    written_ms: int = -1
    """When it was written, if that is known."""

    @property
    def failed_ms(self) -> int:
        """When the record failed, as far as that is known; -1 if it is not."""
        return self.trail.failed_ms if self.trail is not None and self.trail.failed_ms >= 0 else self.written_ms


_FIELDS: Final[dict[str, Callable[[DeadLetter], str | None]]] = {
    "key": lambda letter: None if letter.key is None else letter.key.decode("utf-8", "replace"),
    "value": lambda letter: None if letter.value is None else letter.value.decode("utf-8", "replace"),
    "pipeline": lambda letter: letter.trail.pipeline if letter.trail else None,
    "attempts": lambda letter: str(letter.trail.attempts) if letter.trail else None,
    "error.type": lambda letter: letter.trail.error_type if letter.trail else None,
    "error.message": lambda letter: letter.trail.error_message if letter.trail else None,
    "origin.topic": lambda letter: letter.trail.origin.topic if letter.trail else None,
    "origin.partition": lambda letter: str(letter.trail.origin.partition) if letter.trail else None,
    "origin.offset": lambda letter: str(letter.trail.origin.offset) if letter.trail else None,
}
_HEADER: Final = "header."
_FAILED: Final = "failed"
_FORM: Final = re.compile(r"(header\.[^=!~<>]+|[a-z.]+)(!=|=|~|<|>)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition."""

    field: str
    operator: str
    operand: str

    def matches(self, letter: DeadLetter) -> bool:
        """Whether `letter` matches. A missing field never matches `=`."""
        if self.field == _FAILED:
            limit_ms = parse_moment_ms(self.operand)
            return letter.failed_ms >= 0 and (letter.failed_ms < limit_ms) == (self.operator == "<")
        found = self._found(letter)
        if self.operator == "~":
            return found is not None and re.search(self.operand, found) is not None
        return (found == self.operand) == (self.operator == "=")

    def _found(self, letter: DeadLetter) -> str | None:
        if not self.field.startswith(_HEADER):
            return _FIELDS[self.field](letter)
        name = self.field.removeprefix(_HEADER)
        values = [value for header, value in letter.headers if header == name and value is not None]
        return values[-1].decode("utf-8", "replace") if values else None


def parse_filter(text: str) -> Filter:
    """A condition from its text. Raises only FilterError."""
    form = _FORM.fullmatch(text)
    is_time = form is not None and form[1] == _FAILED and form[2] in "<>"
    is_text = form is not None and form[2] not in "<>" and (form[1] in _FIELDS or form[1].startswith(_HEADER))
    if form is None or not (is_time or is_text):
        raise FilterError(
            f"{text!r} is not a filter: write FIELD=TEXT, FIELD!=TEXT or FIELD~REGEX, failed<TIME or failed>TIME; "
            f"fields: {', '.join(_FIELDS)}, header.NAME"
        )
    if is_time:
        try:
            parse_moment_ms(form[3])
        except ValueError as error:
            raise FilterError(f"{text!r}: {error}") from None
    if form[2] == "~":
        try:
            re.compile(form[3])
        except (re.error, RecursionError, OverflowError) as error:
            raise FilterError(f"{text!r}: {form[3]!r} is not a regular expression: {error}") from None
    return Filter(form[1], form[2], form[3])


def read_letter(key: bytes | None, value: bytes | None, headers: Sequence[Header], written_ms: int = -1) -> DeadLetter:
    """A record as a dead letter, ours or of a convention of others; a broken trail counts as none."""
    try:
        trail = decode(headers)
        other = None if trail is not None else decode_other(headers)
    except HeaderError:
        trail = other = None
    if other is not None:
        return DeadLetter(key, value, strip_other(headers, other[0]), other[1], written_ms)
    return DeadLetter(key, value, strip(headers) if trail is not None else tuple(headers), trail, written_ms)


def is_meant(letter: DeadLetter, filters: Sequence[Filter]) -> bool:
    """Whether all conditions hold."""
    return all(each.matches(letter) for each in filters)
