"""The columns of a record in Spark, and which of them a query asks for.

Spark's Python sources know no column pruning, so a user's schema (`.schema("value binary, offset long")`) is taken as
the choice: what it leaves out is neither decoded nor sent to the JVM. `data_source` and the readers are the callers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.records.kernels.arrow_decode import Wanted
from tidelog.spark.options import OptionError, Options

if TYPE_CHECKING:
    import pyarrow as pa

HEADERS: Final = "headers"

_TYPES: Final[Mapping[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}
_MAY_BE_NULL: Final = ("key", "value", HEADERS)


@dataclass(frozen=True, slots=True)
class Projection:
    """The columns to deliver, in the order and with the very Arrow schema that Spark expects."""

    names: tuple[str, ...]
    schema: "pa.Schema"
    wanted: Wanted


def full_schema(options: Mapping[str, str]) -> StructType:
    """What a query gets that has no schema of its own: all columns, `headers` if `includeHeaders` is true."""
    with_headers = Options(options).flag("includeHeaders", False)
    return StructType([StructField(name, kind) for name, kind in _TYPES.items() if with_headers or name != HEADERS])


def make_projection(schema: StructType) -> Projection:
    """The columns of `schema`, in its order. Raises OptionError for names and types that records do not have."""
    from pyspark.sql.pandas.types import to_arrow_schema

    for field in schema.fields:
        _check_column(field)
    names = tuple(schema.fieldNames())
    if not names:
        raise OptionError(f"the schema has no columns: choose some of {_offer()}")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise OptionError(f"the schema has the column {twice[0]!r} twice")
    wanted = Wanted("key" in names, "value" in names, HEADERS in names)
    return Projection(names, to_arrow_schema(schema, timezone="UTC"), wanted)


def _check_column(field: StructField) -> None:
    kind = _TYPES.get(field.name)
    if kind is None:
        close = [name for name in _TYPES if name.lower() == field.name.lower()]
        advice = f"did you mean {close[0]!r}?" if close else f"there are {_offer()}"
        raise OptionError(f"the schema has column {field.name!r}, which records do not have: {advice}")
    # Written out, types are compared without regard to which of them may be null.
    if field.dataType.simpleString() != kind.simpleString():
        raise OptionError(
            f"the schema has column {field.name!r} as {field.dataType.simpleString()}: "
            f"it is {kind.simpleString()}; cast it after reading"
        )
    if field.name in _MAY_BE_NULL and not field.nullable:
        # Spark would believe it, and find no null where there are some.
        raise OptionError(f"the schema has column {field.name!r} as NOT NULL: it may be null; remove NOT NULL")


def _offer() -> str:
    return ", ".join(f"{name} {kind.simpleString()}" for name, kind in _TYPES.items())
