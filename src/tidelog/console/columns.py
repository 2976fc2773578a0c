"""Columns of a list of records: parts of JSON values, named by paths like `customer.name` or `items[0].sku`. Pure."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

COLUMNS_MAX: Final = 12
_CHARACTERS_MAX: Final = 200
_STEP: Final = re.compile(r"""\.?([^\s.\[\]"',]+)|\[(-?\d{1,9})\]|\["((?:[^"\\]|\\.)*)"\]""")
_COLUMN: Final = re.compile(r"""((?:\["(?:[^"\\]|\\.)*"\]|[^,"])+)(?:,|$)""")

Step = str | int


class ColumnError(ValueError):
    """A text that is not a list of paths."""


class Column(NamedTuple):
    """A path, and how it was written."""

    name: str
    steps: tuple[Step, ...]


class Cell(NamedTuple):
    """What a path names in one value."""

    name: str
    text: str
    is_there: bool = True


_MISSING: Final = "–"


def parse_columns(text: str) -> tuple[Column, ...]:
    """Paths, separated by commas: `$.a.b`, `a[0]`, `a["odd key"]`. Raises ColumnError."""
    columns = []
    place = 0
    while text[place:].strip():
        match = _COLUMN.match(text, place)
        if match is None:
            raise ColumnError(f"{text[place:].strip()!r} is not a path such as customer.name or items[0].sku")
        if match[1].strip():
            columns.append(_parse(match[1].strip()))
        place = match.end()
    if len(columns) > COLUMNS_MAX:
        raise ColumnError(f"{len(columns)} columns were named; at most {COLUMNS_MAX} are shown")
    return tuple(columns)


def _parse(path: str) -> Column:
    rest = path[1:] if path == "$" or path.startswith(("$.", "$[")) else path
    steps: list[Step] = []
    place = 0
    while place < len(rest) and len(path) <= _CHARACTERS_MAX:
        match = _STEP.match(rest, place)
        if match is None:
            break
        name, index, quoted = match.groups()
        steps.append(int(index) if index is not None else name if name is not None else json.loads(f'"{quoted}"'))
        place = match.end()
    if place < len(rest) or (not steps and path != "$"):
        raise ColumnError(f"{path!r} is not a path such as customer.name or items[0].sku")
    return Column(path, tuple(steps))


def cells_of(value: str, columns: Sequence[Column]) -> list[Cell]:
    """What the columns hold of a value; nothing of one that is not JSON."""
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return [Cell(column.name, _MISSING, is_there=False) for column in columns]
    return [_cell(document, column) for column in columns]


def _cell(found: Any, column: Column) -> Cell:
    for step in column.steps:
        try:
            found = _member(found, step)
        except LookupError:
            return Cell(column.name, _MISSING, is_there=False)
    return Cell(column.name, found if isinstance(found, str) else json.dumps(found, ensure_ascii=False))


def _member(found: Any, step: Step) -> Any:
    """Raises LookupError."""
    if isinstance(found, dict if isinstance(step, str) else list):
        members: Any = found
        return members[step]
    raise LookupError(step)
