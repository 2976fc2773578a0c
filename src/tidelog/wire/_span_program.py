"""Writes the programs that the C module reads requests with: the same rows as `_span_source` generates functions for.

A program is a series of operations, one for each field in the order of the wire. Each opens with a byte that says what
to read and, where there is a value, the column that it becomes, `NO_COLUMN` for a field that is skipped:

    INTEGER   column, bytes               a signed number
    UUID      column                      sixteen bytes
    STRING    column, may it be null      text
    NAME      column                      ASCII that stays bytes
    RECORDS   column                      a span: this column and the next
    NUMBERS   column, bytes               an array of signed numbers
    ROWS      column, row, shared, size   an array of structs: their operations, of `size` bytes, follow
    CONSTANT  column, index               a value that is not in the request
    ROOM      elements                    how many elements the next array may have with all that is inside it
    TAGS      count                       tagged fields: for each a tag, a size and operations

`row` is the index of a constant, the type of the row and its number of columns, or `INNER` for structs whose rows come
from an array inside them. `shared` is the number of columns that a row takes from the struct around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tidelog.wire._source import FIXED_FORMATS, layout
from tidelog.wire.fields import Declared, DeclaredMessage, Field

if TYPE_CHECKING:
    from tidelog.wire.rows import Row

INTEGER: Final = 1
UUID: Final = 2
STRING: Final = 3
NAME: Final = 4
RECORDS: Final = 5
NUMBERS: Final = 6
ROWS: Final = 7
CONSTANT: Final = 8
ROOM: Final = 9
TAGS: Final = 10
NO_COLUMN: Final = 255
INNER: Final = 255
COLUMNS_MAX: Final = 16
_INTEGERS: Final = ("int8", "int16", "int32", "int64")

Program = tuple[bool, int, bytes, tuple[Any, ...]]
"""Whether the version is flexible, the index of the request's own row, the operations, the constants."""


def span_program(
    cls: type[DeclaredMessage], rows: Mapping[type[Declared], Row], version: int, elements_max: int | None
) -> Program | None:
    """The program for one version; None if it has a field that programs cannot read."""
    writer = _ProgramWriter(cls, rows, version, elements_max)
    try:
        operations = writer.struct(cls, first_column=0)
    except _UnknownKindError:
        return None
    row = writer.row(rows[cls], shared=0)
    return version >= cls.flexible_from, row, operations, tuple(writer.constants)


class _UnknownKindError(Exception):
    """A kind of field without an operation."""


class _ProgramWriter:
    def __init__(
        self, cls: type[DeclaredMessage], rows: Mapping[type[Declared], Row], version: int, elements_max: int | None
    ) -> None:
        self._request = cls
        self._rows = rows
        self._version = version
        self._is_flexible = version >= cls.flexible_from
        self._elements_max = elements_max
        self.constants: list[Any] = []

    def row(self, row: Row, shared: int) -> int:
        """The index of a row's type and number of columns."""
        assert "records" not in row.columns[:-1], "a span takes two columns, which must be the last"
        width = shared + sum(2 if names == "records" else 1 for names in row.columns)
        assert width <= COLUMNS_MAX, f"a row of {width} columns"
        return self._constant((row.make, width))

    def struct(self, cls: type[Declared], first_column: int) -> bytes:
        """Operations that read a struct into the columns of its row, from `first_column` on."""
        row = self._rows[cls]
        columns = {names: place for place, names in enumerate(row.columns, first_column)}
        of_field = {name: place for names, place in columns.items() for name in names.split("|")}
        fields = {name: field for name, field in cls.fields.items() if field.is_in(self._version)}
        out = bytearray()
        for names, place in columns.items():
            if not any(name in fields and fields[name].tag is None for name in names.split("|")):
                out += bytes((CONSTANT, place, self._constant(self._default(cls.fields[names.split("|")[0]]))))
        for name, field in fields.items():
            if field.tag is None:
                out += self._field(cls, name, field, of_field.get(name, NO_COLUMN))
        if self._is_flexible:
            out += self._tags({field: of_field[name] for name, field in fields.items() if name in of_field})
        return bytes(out)

    def _default(self, field: Field) -> Any:
        if field.kind == "struct":
            assert isinstance(field.element, type)
            name = self._rows[field.element].columns[0]
            return field.element.fields[name].default
        return [] if field.kind == "array" else field.default

    def _field(self, cls: type[Declared], name: str, field: Field, column: int) -> bytes:
        row = self._rows[cls]
        if field.kind in _INTEGERS:
            return bytes((INTEGER, column, layout(FIXED_FORMATS[field.kind]).size))
        if field.kind == "uuid":
            return bytes((UUID, column))
        if field.kind == "string" and name in row.as_bytes:
            return bytes((NAME, column))
        if field.kind == "string":
            return bytes((STRING, column, field.null_since <= self._version))
        if field.kind == "record_batches":
            return bytes((RECORDS, column))
        if field.kind == "struct" and isinstance(field.element, type):
            return self.struct(field.element, column)
        if field.kind == "array" and field.null_since > self._version:
            return self._room(cls) + self._array(field, column, shared=len(row.columns) if name == row.inner else 0)
        raise _UnknownKindError(field.kind)

    def _room(self, cls: type[Declared]) -> bytes:
        if cls is not self._request or self._elements_max is None:
            return b""
        return bytes((ROOM, *self._elements_max.to_bytes(4, "big")))

    def _array(self, field: Field, column: int, shared: int) -> bytes:
        if not isinstance(field.element, type):
            if field.element not in _INTEGERS:
                raise _UnknownKindError(field.element)
            return bytes((NUMBERS, column, layout(FIXED_FORMATS[field.element]).size))
        row = self._rows[field.element]
        index = INNER if row.inner is not None else self.row(row, shared)
        operations = self.struct(field.element, shared)
        return bytes((ROWS, column, index, shared, *len(operations).to_bytes(2, "big"))) + operations

    def _tags(self, columns: Mapping[Field, int]) -> bytes:
        tagged = {field: column for field, column in columns.items() if field.tag is not None}
        out = bytearray((TAGS, len(tagged)))
        for field, column in tagged.items():
            assert field.tag is not None
            assert isinstance(field.element, type)
            operations = self.struct(field.element, column)
            out += bytes((field.tag, *len(operations).to_bytes(2, "big"))) + operations
        return bytes(out)

    def _constant(self, value: Any) -> int:
        self.constants.append(value)
        assert len(self.constants) < INNER
        return len(self.constants) - 1
