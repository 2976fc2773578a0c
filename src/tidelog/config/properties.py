"""Java's .properties grammar, in which server.properties is written. The command line reads files through this.

Lines are `key=value`, `key:value` or `key value`; `#` and `!` begin comments; a backslash at the end continues a line,
and elsewhere escapes a character (`\\t`, `\\n`, `\\r`, `\\f`, `\\uXXXX`, or the character itself).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tidelog.config.errors import ConfigError

_BLANKS: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")


def parse_properties(text: str) -> dict[str, str]:
    """The properties of a file; a later line wins over an earlier one. Raises ConfigError with the line's number."""
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        properties[_unescape(key, number)] = _unescape(value, number)
    return properties


def format_properties(properties: Mapping[str, str]) -> str:
    """Text that `parse_properties` reads back as the same properties."""
    lines = [f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}\n" for key, value in properties.items()]
    return "".join(lines)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with continuations joined and comments left out, each with the number of its first natural line."""
    started_at, joined = 0, ""
    is_continued = False
    for number, natural in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        line = natural.lstrip(_BLANKS)
        if not (is_continued and joined):
            # A continuation of nothing, a lone backslash, is still the beginning of a line.
            if line[:1] in ("", "#", "!"):
                is_continued = False
                continue
            started_at, joined = number, ""
        trailing_backslashes = len(line) - len(line.rstrip("\\"))
        is_continued = trailing_backslashes % 2 == 1
        joined += line[:-1] if is_continued else line
        if not is_continued and joined:
            yield started_at, joined
    if is_continued and joined:
        yield started_at, joined


def _split(line: str) -> tuple[str, str]:
    """Key and value, still escaped. The key ends at the first unescaped `=`, `:` or blank."""
    end = 0
    while end < len(line) and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    key, rest = line[:end], line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return key, rest


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            parts.append(character)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) < 4 or not _HEX_DIGITS.issuperset(digits):
                raise ConfigError(f"line {line_number}: \\u{digits} is not \\u and four hexadecimal digits")
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    return _join_surrogates("".join(parts))


def _join_surrogates(text: str) -> str:
    """Java writes characters beyond the basic plane as two escapes; a half without its other half is replaced."""
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _escape(text: str, *, is_key: bool) -> str:
    parts: list[str] = []
    for position, character in enumerate(text):
        if character in "\t\n\r\f":
            parts.append({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[character])
        elif character == "\\" or (is_key and character in "=:#! ") or (character == " " and position == 0):
            parts.append("\\" + character)
        else:
            parts.append(character)
    return "".join(parts)
