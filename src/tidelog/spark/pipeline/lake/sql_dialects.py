"""PostgreSQL and SQLite: how each is reached, what its types are, and the few statements in which they differ.

A column of Spark has one type in each database, and values go there and back without loss. What a database has no type
for is text or JSON: arrays, structs and maps in both, and in SQLite numbers of fixed precision, dates and times.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidelog.spark.pipeline.definition.endpoints import DATABASES
from tidelog.spark.pipeline.definition.pipeline import PipelineError

Convert = Callable[[Any], Any]
_SQLITE_PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of database."""

    name: str
    placeholder: str
    types: Mapping[type[DataType], str]
    begin: str | None
    """What begins a transaction that no other writer overtakes; None where the driver does it."""
    lock_row: str
    """Ends a SELECT whose row no other transaction may take before this one ends."""
    lock_table: str | None
    """Lets no other transaction change a table; readers go on."""
    exists: str
    """A row if there is a table of this name."""
    lock_creation: str | None
    """Lets one transaction at a time create tables."""
    to_database: Mapping[type[DataType], Convert]
    from_database: Mapping[type[DataType], Convert]
    connect: Callable[[str], Any]

    def type_of(self, kind: DataType) -> str:
        """The type of a column. Raises PipelineError if there is none."""
        if isinstance(kind, DecimalType) and self.name == "postgresql":
            return f"NUMERIC({kind.precision}, {kind.scale})"
        found = self.types.get(type(kind))
        if found is None:
            raise PipelineError(f"{self.name} has no type for {kind.simpleString()}: cast the column in a step")
        return found

    def encoded(self, kind: DataType) -> Convert | None:
        """How a value is handed to the driver; None where it stays as it is."""
        if isinstance(kind, ArrayType | StructType | MapType):
            return lambda value: json.dumps(_plain(value, kind), default=str)
        return self.to_database.get(type(kind))

    def decoded(self, kind: DataType) -> Convert | None:
        """How a value that the driver returns becomes one of Arrow's; None where it is one."""
        if isinstance(kind, ArrayType | StructType | MapType):
            return lambda value: _nested(json.loads(value) if isinstance(value, str) else value, kind)
        return self.from_database.get(type(kind))

    def quoted(self, table: str) -> str:
        """The name of a table, with its schema if it has one."""
        return ".".join(quoted(part) for part in table.split("."))


def quoted(name: str) -> str:
    """A name, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def dialect_of(url: str) -> Dialect:
    """The kind of database that a URL names; `checks.lake` has seen that it is one of ours."""
    return _DIALECTS[DATABASES[url.partition(":")[0]]]


def columns_of(values: Sequence[Any], convert: Convert | None) -> Sequence[Any]:
    """The values of a column, converted; null stays null."""
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def _plain(value: Any, kind: DataType) -> Any:
    """A nested value as JSON has it."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {field.name: _plain(value.get(field.name), field.dataType) for field in kind.fields}
    if isinstance(kind, ArrayType):
        return [_plain(each, kind.elementType) for each in value]
    if isinstance(kind, MapType):
        return [[_plain(key, kind.keyType), _plain(each, kind.valueType)] for key, each in value]
    if isinstance(kind, BinaryType):
        return value.hex()
    return value.isoformat() if isinstance(value, date) else value


def _nested(value: Any, kind: DataType) -> Any:
    """A nested value as Arrow has it."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {field.name: _nested(value.get(field.name), field.dataType) for field in kind.fields}
    if isinstance(kind, ArrayType):
        return [_nested(each, kind.elementType) for each in value]
    if isinstance(kind, MapType):
        return [(_nested(key, kind.keyType), _nested(each, kind.valueType)) for key, each in value]
    convert = _FROM_TEXT.get(type(kind))
    return value if convert is None else convert(value)


def _connect_sqlite(url: str) -> Any:
    import sqlite3

    path = url.removeprefix("sqlite:///")
    # Without its own idea of when a transaction begins.
    return sqlite3.connect(path, timeout=_SQLITE_PATIENCE_S, isolation_level=None, check_same_thread=False)


def _connect_postgresql(url: str) -> Any:
    import psycopg

    return psycopg.connect(url)


_WHOLE: Final[Mapping[type[DataType], str]] = {
    ByteType: "SMALLINT",
    ShortType: "SMALLINT",
    IntegerType: "INTEGER",
    LongType: "BIGINT",
}
_FROM_TEXT: Final[Mapping[type[DataType], Convert]] = {
    DecimalType: Decimal,
    DateType: date.fromisoformat,
    TimestampType: datetime.fromisoformat,
    TimestampNTZType: datetime.fromisoformat,
    BinaryType: bytes.fromhex,
}
POSTGRESQL: Final = Dialect(
    name="postgresql",
    placeholder="%s",
    types={
        **_WHOLE,
        FloatType: "REAL",
        DoubleType: "DOUBLE PRECISION",
        StringType: "TEXT",
        BinaryType: "BYTEA",
        BooleanType: "BOOLEAN",
        DateType: "DATE",
        TimestampType: "TIMESTAMPTZ",
        TimestampNTZType: "TIMESTAMP",
        ArrayType: "JSONB",
        StructType: "JSONB",
        MapType: "JSONB",
    },
    begin=None,
    lock_row=" FOR UPDATE",
    lock_table="LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE",
    exists="SELECT 1 WHERE to_regclass(?) IS NOT NULL",
    lock_creation="SELECT pg_advisory_xact_lock(8316291)",
    to_database={},
    from_database={BinaryType: bytes},
    connect=_connect_postgresql,
)
SQLITE: Final = Dialect(
    name="sqlite",
    placeholder="?",
    types={
        **dict.fromkeys(_WHOLE, "INTEGER"),
        FloatType: "REAL",
        DoubleType: "REAL",
        DecimalType: "TEXT",
        StringType: "TEXT",
        BinaryType: "BLOB",
        BooleanType: "INTEGER",
        DateType: "TEXT",
        TimestampType: "TEXT",
        TimestampNTZType: "TEXT",
        ArrayType: "TEXT",
        StructType: "TEXT",
        MapType: "TEXT",
    },
    begin="BEGIN IMMEDIATE",
    lock_row="",
    lock_table=None,
    exists="SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') "
    "AND '\"' || replace(name, '\"', '\"\"') || '\"' = ?",
    lock_creation=None,
    to_database={
        DecimalType: str,
        DateType: date.isoformat,
        TimestampType: datetime.isoformat,
        TimestampNTZType: datetime.isoformat,
        BooleanType: int,
    },
    from_database={**{kind: each for kind, each in _FROM_TEXT.items() if kind is not BinaryType}, BooleanType: bool},
    connect=_connect_sqlite,
)
_DIALECTS: Final = {each.name: each for each in (POSTGRESQL, SQLITE)}
