"""Generates the functions that read requests of the hot path into rows, from the same declarations as messages.

A row is a tuple with some of the fields of a struct (`spans.Row`). The generated code makes no objects for structs: it
keeps each field in a local variable and makes the tuples at the end. There are two functions for each version:

    span_source     reads a request of any shape
    single_source   reads the usual request: one element in each array, and no tagged fields but the request's own

The second does not look at a count before it goes on, so whatever lies around the counts is read by one `struct` call.
It compares the counts at the end, and returns None for a request of another shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tidelog.wire._decoder_source import DecoderWriter, decoder_names
from tidelog.wire._source import Source
from tidelog.wire.errors import WireError
from tidelog.wire.fields import Declared, DeclaredMessage, Field
from tidelog.wire.primitives import Buffer, skip_tagged_fields

if TYPE_CHECKING:
    from tidelog.wire.rows import Row

_RECORDS: Final = "record_batches"


def span_source(
    cls: type[DeclaredMessage], rows: Mapping[type[Declared], Row], version: int, elements_max: int | None
) -> Source:
    """The source of `decode(buf, p, end)`, which raises WireError for more than `elements_max` elements in an array."""
    source = _new_source()
    with source.block("def decode(buf, p, end):"):
        writer = _RowWriter(source, cls, rows, version, elements_max)
        row = writer.struct(cls)
        writer.flush()
        with source.block("if p > end:"):
            text = f"{cls.__name__} v{version}: fields reach {{p - end}} bytes beyond the request"
            source.line(f"raise WireError(f'{text}')")
        source.line(f"return {row}")
    return source


def single_source(cls: type[DeclaredMessage], rows: Mapping[type[Declared], Row], version: int) -> Source:
    """The source of `decode(buf, p, end)`."""
    source = _new_source()
    with source.block("def decode(buf, p, end):"):
        writer = _SingleRowWriter(source, cls, rows, version, None)
        row = writer.struct(cls)
        writer.flush()
        source.line(f"return {row} if {' and '.join([*writer.claims, 'p == end'])} else None")
    return source


def _new_source() -> Source:
    return Source({**decoder_names(), "make": tuple.__new__, "too_many": too_many, "skip_tags": skip_tags})


def skip_tags(buffer: Buffer, position: int, end: int) -> int:
    """The position after tagged fields whose count is the byte before `position`, or begins there."""
    return skip_tagged_fields(buffer, position - 1, end)


def too_many(excess: int) -> WireError:
    return WireError(f"a request has more topics and partitions than allowed, by {excess} at least")


class _RowWriter(DecoderWriter):
    """Generates the code that reads structs into rows.

    `_values` has the expressions of fields that are no variables, by the variable that they would have been in.
    """

    def __init__(
        self,
        source: Source,
        cls: type[DeclaredMessage],
        rows: Mapping[type[Declared], Row],
        version: int,
        elements_max: int | None,
    ) -> None:
        super().__init__(source, version, flexible=version >= cls.flexible_from, from_bytes=False, sliced=False)
        self._request = cls
        self._rows = rows
        self._elements_max = elements_max
        self._values: dict[str, str] = {}
        self._first_columns: list[str] = []
        """What the rows of an `inner` array begin with."""
        self._append = ""
        """What adds a row to the list of the array around; empty where the present array makes a list of its own."""
        self._is_in_tags = False

    def struct(self, cls: type[Declared]) -> str:
        """Read a struct; the expression of its row."""
        row = self._rows[cls]
        values: dict[str, str] = {}
        first_columns, self._first_columns = self._first_columns, []
        for name, field in cls.fields.items():
            if field.tag is not None or not field.is_in(self._version):
                continue
            if name == row.inner:
                self._first_columns = self._columns(cls, row, values)
            if cls is self._request and field.kind == "array" and self._elements_max is not None:
                self._source.line(f"room = {self._elements_max}")
            values[name] = self._value(name, field, as_bytes=name in row.as_bytes)
        if self._flexible:
            self._tags(cls, row, values)
        self._first_columns = []
        if row.inner is not None:
            return values[row.inner]
        columns = [*first_columns, *self._columns(cls, row, values)]
        if row.make is None:
            return columns[0]
        made = f"({', '.join(columns)},)"
        return made if row.make is tuple else f"make({self._source.refer(row.make.__name__, row.make)}, {made})"

    def _columns(self, cls: type[Declared], row: Row, values: Mapping[str, str]) -> list[str]:
        return [self._column(cls, names.split("|"), values) for names in row.columns]

    def _column(self, cls: type[Declared], names: list[str], values: Mapping[str, str]) -> str:
        """The value of the one field of these that the version has, or the default of the first."""
        for name in names:
            if name in values:
                return values[name]
        return self._default_column(cls.fields[names[0]])

    def _default_column(self, field: Field) -> str:
        if field.kind == "struct":
            assert isinstance(field.element, type)
            return self._columns(field.element, self._rows[field.element], {})[0]
        return self._default(field)

    def _value(self, name: str, field: Field, *, as_bytes: bool) -> str:
        """Read a field; its expression."""
        variable = self._source.fresh("f")
        if as_bytes:
            self._bytes(variable, name, "name", nullable=False)
            self._check_name(variable)
        else:
            self._field(variable, name, field)
        return self._values.pop(variable, variable)

    def _check_name(self, variable: str) -> None:
        """A name that stays the bytes it is must be UTF-8 nevertheless."""
        self._source.line(f"if not {variable}.isascii(): {variable}.decode()")

    def _nested_struct(self, target: str, cls: str | type[Declared], nullable: bool) -> None:
        assert isinstance(cls, type)
        assert not nullable, "a struct in place is always there"
        self._values[target] = self.struct(cls)

    def _bytes(self, target: str, name: str, kind: str, nullable: bool) -> None:
        if kind != _RECORDS:
            super()._bytes(target, name, kind, nullable)
            return
        source = self._source
        size = self._length("i")
        start, stop = source.fresh("s"), source.fresh("e")
        with source.block(f"if {size} == 0:" if self._flexible else f"if {size} < 0:"):
            source.line(f"{start} = {stop} = -1")
        with source.block("else:"):
            self._continue_length(size, "continue_uvarint")
            source.line(f"{start} = p")
            source.line(f"p = {stop} = p + {size}" + (" - 1" if self._flexible else ""))
        self._values[target] = f"{start}, {stop}"

    def _structs(self, target: str, element: type[Declared], count: str) -> None:
        around = self._append
        append = around or self._new_list(target)
        is_inner = self._rows[element].inner is not None
        self._append = append if is_inner else ""
        with self._loop(count):
            item = self.struct(element)
            self.flush()
            if not is_inner:
                self._source.line(f"{append}({item})")
        self._append = around

    def _count_elements(self, count: str) -> None:
        if self._elements_max is not None:
            self._source.line(f"room -= {count}")
            self._source.line("if room < 0: raise too_many(-room)")

    def _tags(self, cls: type[Declared], row: Row, values: dict[str, str]) -> None:
        """Read the tagged fields that end a struct: those that are columns, and skip the others."""
        source = self._source
        wanted = {name for names in row.columns for name in names.split("|")}
        tagged = {
            name: field
            for name, field in cls.fields.items()
            if name in wanted and field.tag is not None and field.is_in(self._version)
        }
        count = source.fresh("n")
        self._run.append(("B", count))
        if not tagged:
            self._no_tags(count)
            return
        self.flush()
        for name, field in tagged.items():
            values[name] = source.fresh("f")
            source.line(f"{values[name]} = {self._default_column(field)}")
        with source.block(f"if {count}:"):
            source.line(f"{count}, p = tag_count(buf, p, {count})")
            tag, after = source.fresh("t"), source.fresh("e")
            with source.block(f"for _ in range({count}):"):
                source.line(f"{tag}, p, {after} = tag_and_end(buf, p)")
                for name, field in tagged.items():
                    with source.block(f"if {tag} == {field.tag}:"):
                        self._is_in_tags = True
                        value = self._value(name, field, as_bytes=False)
                        self._is_in_tags = False
                        self.flush()
                        source.line(f"{values[name]} = {value}")
                        source.line(f"if p != {after}: raise WireError(f'tagged field {{{tag}}} ends at {{p}}')")
                source.line(f"p = {after}")

    def _no_tags(self, count: str) -> None:
        """Skip the tagged fields of a struct of which none is a column."""
        self.flush()
        self._source.line(f"if {count}: p = skip_tags(buf, p, end)")


class _SingleRowWriter(_RowWriter):
    """The same for the usual request. `claims` are what must hold of what was read, so that it was one."""

    claims: list[str]

    def __init__(
        self,
        source: Source,
        cls: type[DeclaredMessage],
        rows: Mapping[type[Declared], Row],
        version: int,
        elements_max: int | None,
    ) -> None:
        super().__init__(source, cls, rows, version, elements_max)
        self.claims = []

    def _array(self, target: str, name: str, element: str | type[Declared], nullable: bool) -> None:
        assert not nullable, "the array of a row is always there"
        count = self._source.fresh("n")
        self._run.append(("B" if self._flexible else "i", count))
        is_empty = name in self._rows[self._request].usually_empty
        self.claims.append(f"{count} == {(not is_empty) + self._flexible}")
        if is_empty:
            self._values[target] = "[]"
            return
        assert isinstance(element, type)
        item = self.struct(element)
        self._values[target] = f"[{item}]" if self._rows[element].inner is None else item

    def _check_name(self, variable: str) -> None:
        self.claims.append(f"{variable}.isascii()")

    def _no_tags(self, count: str) -> None:
        if self._is_in_tags:
            super()._no_tags(count)
        else:
            self.claims.append(f"not {count}")
