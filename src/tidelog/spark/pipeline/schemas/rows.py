"""Reads and writes the value of each row by its schema, in executors."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tidelog.spark.pipeline.schemas.arrow_values import Convert, from_arrow, into_arrow
from tidelog.spark.pipeline.schemas.formats import ReadValue, Target, ValueWriter, format_of
from tidelog.spark.pipeline.schemas.origins import Origin, registry_of


@dataclass
class RowReader:
    """Reads the value of a row. Travels to executors as plain data and opens what it needs there."""

    origin: Origin
    column: str
    into: str | None
    allow_null: bool
    fields: pa.Schema
    _convert: Convert | None = field(default=None, repr=False)
    _read: ReadValue | None = field(default=None, repr=False)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.origin, self.column, self.into, self.allow_null, self.fields

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.origin, self.column, self.into, self.allow_null, self.fields = state
        self._convert = self._read = None

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        data = row[self.column]
        if data is None:
            if self.allow_null:
                return dict.fromkeys(self.fields.names)
            raise ValueError(f"{self.column} is null")
        if self._read is None or self._convert is None:
            self._convert = into_arrow(pa.struct(list(self.fields)))
            assert self._convert is not None, "a struct is always picked"
            self._read = _value_reader(self.origin)
        value = self._read(bytes(data))
        made: dict[str, Any] = self._convert(value if self.into is None else {self.into: value})
        return made


@lru_cache(maxsize=64)
def _value_reader(origin: Origin) -> ReadValue:
    """The reader of this process for a schema."""
    return format_of(origin.format).value_reader(registry_of(origin), origin)


@dataclass(frozen=True, slots=True)
class WrittenColumn:
    """Which columns become which column of the record, by which schema."""

    origin: Origin
    target: Target
    column: str
    columns: tuple[str, ...]


@dataclass
class RowWriter:
    """Writes the value of a row. Travels to executors as plain data and opens what it needs there."""

    written: WrittenColumn
    fields: pa.Schema
    topic_column: str | None
    _convert: Convert | None = field(default=None, repr=False)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        if self._convert is None:
            self._convert = from_arrow(pa.struct(list(self.fields)))
        assert self._convert is not None
        topic = self.written.target.topic if self.topic_column is None else row[self.topic_column]
        value = self._convert(row)
        if self.written.column == "key":
            (value,) = value.values()
        made = value_writer(self.written.origin, self.written.target)
        return {self.written.column: made.serialize(topic or "", value)}

    def __getstate__(self) -> tuple[Any, ...]:
        return self.written, self.fields, self.topic_column

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.written, self.fields, self.topic_column = state
        self._convert = None


@lru_cache(maxsize=64)
def value_writer(origin: Origin, target: Target) -> ValueWriter:
    """The writer of this process for a schema."""
    return format_of(origin.format).value_writer(registry_of(origin), origin, target)
