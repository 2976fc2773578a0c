"""Results on stdout: plain columns for people, which pipe and grep well, and JSON for programs."""

import base64
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def print_json(value: Any) -> None:
    """One document, indented."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_json_lines(values: Iterable[Any]) -> None:
    """The documents of a stream, a line each, in one write."""
    sys.stdout.write("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values))


def print_line(text: str = "") -> None:
    """One line of text."""
    sys.stdout.write(text + "\n")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as their widest cell; numbers to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    numeric = [bool(rows) and all(isinstance(cell, int | float) for cell in column) for column in _columns(rows)]
    for line in (list(headings), *cells):
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric or [False] * len(widths), strict=True)
        ]
        print_line("  ".join(padded).rstrip())


def _columns(rows: Sequence[Sequence[object]]) -> list[tuple[object, ...]]:
    return list(zip(*rows, strict=True))


def bytes_for_json(name: str, data: bytes | None) -> dict[str, str | None]:
    """`{name: text}`, or `{name_base64: …}` when the bytes are not UTF-8, so that nothing is lost or guessed."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def uuid_text(topic_id: bytes) -> str:
    """A 16-byte id as Kafka prints it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()
