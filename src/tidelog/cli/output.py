"""Results on stdout: plain columns for people, which pipe and grep well, and JSON for programs."""

import base64
import json
import sys
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.cli._options import Format

if TYPE_CHECKING:
    from rich.text import Text


def print_json(value: Any) -> None:
    """One document, indented."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_json_lines(values: Iterable[Any]) -> None:
    """The documents of a stream, a line each, in one write."""
    sys.stdout.write("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values))


def print_line(text: str = "") -> None:
    """One line of text."""
    sys.stdout.write(text + "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under headings, with lines before and after them."""

    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    before: str = ""
    after: str = ""
    nothing: str = ""
    """Printed in place of a table without rows."""

    def show(self) -> None:
        if not self.rows and self.nothing:
            print_line(self.nothing)
            return
        if self.before:
            print_line(self.before)
        print_table(self.headings, self.rows)
        if self.after:
            print_line(self.after)


@dataclass(frozen=True, slots=True)
class Result:
    """What a command found or did: a document for programs; a table or lines for people."""

    document: Any
    text: Table | Sequence[Table] | str = ""
    exit_code: int = 0
    error: Exception | None = None
    """What failed after that much was done: raised once it was shown."""

    def show(self, output: Format) -> None:
        """Print it in one of the two forms."""
        if output is Format.JSON:
            print_json(self.document)
        elif isinstance(self.text, str):
            if self.text:
                print_line(self.text)
        else:
            for number, table in enumerate([self.text] if isinstance(self.text, Table) else self.text):
                if number:
                    print_line()
                table.show()


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """The table of every command."""
    for line in table_lines(headings, rows):
        print_line(line)


def live_table(
    headings: Sequence[str], rows: Sequence[Sequence[object]], *, caption: str = "", marked: Container[int] = ()
) -> "Text":
    """The same table for a terminal that shows it in place; `marked` rows stand out."""
    from rich.text import Text

    heading, *lines = table_lines(headings, rows)
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{heading}\n", "bold")
    for number, line in enumerate(lines):
        text.append(f"{line}\n", "yellow" if number in marked else None)
    text.append(caption, "dim")
    return text


def table_lines(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Headings in capitals, as Kafka's tools have them; columns as wide as their widest cell, numbers to the right.

    A cell without a value is `-`.
    """
    headings = [heading.upper() for heading in headings]
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    numeric = list(map(_is_numeric, zip(*rows, strict=True))) if rows else [False] * len(widths)
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in (list(headings), *cells)
    ]


def _is_numeric(column: Iterable[object]) -> bool:
    kinds = {type(cell) for cell in column if cell != "-"}
    return bool(kinds) and kinds <= {int, float}


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
