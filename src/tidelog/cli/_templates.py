"""Output templates in kcat's notation: `%t [%p] at %o: %k = %s\\n`. Pure.

A template is taken apart once; each record is then put together from its pieces. Null keys and values are empty, as
kcat prints them, and their lengths are -1.
"""

import re
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final

from tidelog.cli.errors import CommandError
from tidelog.client.aio.consumer.types import ConsumerRecord

Piece = Callable[[ConsumerRecord], bytes]

_INT32: Final = Struct(">i")
_TOKEN: Final = re.compile(r"%(.?)|\\x([0-9a-fA-F]{1,2})|\\(.?)", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0"}


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers(record: ConsumerRecord) -> bytes:
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in record.headers)


_PIECES: Final[Mapping[str, Piece]] = {
    "s": lambda record: record.value or b"",
    "S": lambda record: b"%d" % _length(record.value),
    "R": lambda record: _INT32.pack(_length(record.value)),
    "k": lambda record: record.key or b"",
    "K": lambda record: b"%d" % _length(record.key),
    "T": lambda record: b"%d" % record.timestamp,
    "h": _headers,
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
}


def parse_template(text: str) -> Piece:
    """What writes a record by a template. Raises CommandError for a token that there is not."""
    pieces: list[bytes | Piece] = []
    position = 0
    for match in _TOKEN.finditer(text):
        pieces.append(text[position : match.start()].encode())
        pieces.append(_piece(text, match))
        position = match.end()
    pieces.append(text[position:].encode())

    def write(record: ConsumerRecord) -> bytes:
        return b"".join([each if isinstance(each, bytes) else each(record) for each in pieces])

    return write


def _piece(text: str, match: re.Match[str]) -> bytes | Piece:
    token, code, escaped = match.groups()
    if token == "%":  # noqa: S105 - a percent sign
        return b"%"
    if code is not None:
        return bytes([int(code, 16)])
    found = _PIECES.get(token) if token is not None else _ESCAPES.get(escaped)
    if found is None:
        known = " ".join([*(f"%{each}" for each in _PIECES), "%%", r"\n", r"\r", r"\t", r"\\", r"\0", r"\xNN"])
        raise CommandError(f"--template {text!r}: {match[0]!r} is none of {known}")
    return found
