"""Keys, values and headers of records as texts for a page. Pure.

A format that does not fit is not an error: `show` then says so and shows the bytes in hexadecimal.
"""

import json
from enum import StrEnum
from typing import Final, NamedTuple

from tidelog.client.schemas.decoding import plain_json

TEXT_CHARACTERS_MAX: Final = 64 * 1024
"""What a page shows of one value at most."""
_HEX_BYTES_PER_LINE: Final = 16
_WHITE_SPACE: Final = frozenset("\n\r\t")


class Format(StrEnum):
    """How a key or value is read."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"
    HEX = "hex"
    REGISTRY = "registry"
    """Avro, Protobuf or JSON with a schema of the registry."""


class Shown(NamedTuple):
    """A key or value as text. `kind` says how it was read, `note` what did not fit."""

    text: str
    kind: str
    bytes_count: int
    note: str = ""

    @property
    def is_null(self) -> bool:
        """Whether there is no value: a tombstone."""
        return self.kind == "null"

    @property
    def is_binary(self) -> bool:
        """Whether it is shown in hexadecimal."""
        return self.kind == "hex"


NULL: Final = Shown("null", "null", 0)


def show(data: bytes | None, wanted: Format) -> Shown:
    """A key or value in a format that needs no registry; AUTO picks JSON, text or hexadecimal."""
    if data is None:
        return NULL
    data = bytes(data)
    if wanted is Format.HEX:
        return _hex(data)
    text = printable(data)
    if wanted is not Format.TEXT:
        as_json = None if text is None else _json(text, is_guess=wanted is Format.AUTO)
        if as_json is not None:
            return Shown(cut(as_json), "json", len(data))
        if wanted is Format.JSON:
            return (_hex(data) if text is None else Shown(cut(text), "text", len(data)))._replace(note="not JSON")
    if text is not None:
        return Shown(cut(text), "text", len(data))
    return _hex(data)._replace(note="not text" if wanted is Format.TEXT else "")


def pretty(value: object) -> str:
    """A decoded value as indented JSON; what JSON lacks, such as dates and decimals, is written as text."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=plain_json)


def cut(text: str) -> str:
    """The text, or its beginning with a note."""
    if len(text) <= TEXT_CHARACTERS_MAX:
        return text
    return text[:TEXT_CHARACTERS_MAX] + f"\n… {len(text) - TEXT_CHARACTERS_MAX:,} more characters"


def printable(data: bytes) -> str | None:
    """The text of UTF-8 bytes without control characters; None for anything else."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if text.isprintable() or all(each.isprintable() or each in _WHITE_SPACE for each in text):
        return text
    return None


def _json(text: str, *, is_guess: bool) -> str | None:
    """The text as indented JSON; None if it is not JSON. Bare words and numbers are JSON only if asked for."""
    if is_guess and not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return pretty(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _hex(data: bytes) -> Shown:
    limit = TEXT_CHARACTERS_MAX // 5
    lines = []
    for start in range(0, min(len(data), limit), _HEX_BYTES_PER_LINE):
        row = data[start : start + _HEX_BYTES_PER_LINE]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)
        lines.append(f"{start:06x}  {row.hex(' '):<47}  {letters}")
    if len(data) > limit:
        lines.append(f"… {len(data) - limit:,} more bytes")
    return Shown("\n".join(lines), "hex", len(data))
