"""How the columns of a batch meet those of a table: which columns the table gets, and which batches are refused.

The rules are those of Spark's `mergeSchema`. Rows of a narrower type (int for a bigint column) always fit and are cast.
With `merge_schema=True` a column that only the rows have is added, also inside of structs, and one that only the table
has is written as null. No other type changes, except where the table's format can widen one without rewriting files.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StructField,
    StructType,
)

from tidelog.spark.pipeline.definition.pipeline import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
_FRACTIONS: Final = (FloatType, DoubleType)


@dataclass(frozen=True, slots=True)
class Columns:
    """The rule of one table."""

    table: str
    """Its name, for messages."""
    function: str
    """The function of the definition that describes it: `delta` or `iceberg`."""
    merges: bool
    """`merge_schema`."""
    widens: bool
    """Whether the format can widen a column's type: Iceberg can, Delta would need a table feature."""

    def after(self, there: StructType, given: StructType) -> StructType:
        """The columns of the table that can take the rows. Raises PipelineError with the column and both types."""
        return self._struct("", there, given)

    def _struct(self, path: str, there: StructType, given: StructType) -> StructType:
        rows = {field.name: field for field in given.fields}
        known = {field.name for field in there.fields}
        merged: list[StructField] = []
        for field in there.fields:
            name = f"{path}{field.name}"
            if field.name in rows:
                kind = self._type(name, field.dataType, rows[field.name].dataType)
                merged.append(StructField(field.name, kind, field.nullable, field.metadata))
                continue
            if not self.merges:
                raise PipelineError(
                    f"{self.table} has column {name!r} as {field.dataType.simpleString()}, but the rows do not have "
                    f"it: set merge_schema=True on {self.function}(…) to write null there"
                )
            if not field.nullable:
                raise PipelineError(
                    f"{self.table} has column {name!r} as {field.dataType.simpleString()} NOT NULL, but the rows do "
                    "not have it: add it in a step"
                )
            merged.append(field)
        for field in given.fields:
            if field.name in known:
                continue
            if not self.merges:
                raise PipelineError(
                    f"{self.table} has no column {path + field.name!r}, but the rows have it as "
                    f"{field.dataType.simpleString()}: set merge_schema=True on {self.function}(…) to add it to the "
                    "table, or name the columns to write: columns=[…]"
                )
            merged.append(StructField(field.name, _nullable(field.dataType)))
        return StructType(merged)

    def _type(self, path: str, there: DataType, given: DataType) -> DataType:
        if isinstance(there, StructType) and isinstance(given, StructType):
            return self._struct(f"{path}.", there, given)
        if isinstance(there, ArrayType) and isinstance(given, ArrayType):
            return ArrayType(self._type(f"{path}.element", there.elementType, given.elementType), there.containsNull)
        if isinstance(there, MapType) and isinstance(given, MapType):
            key = self._type(f"{path}.key", there.keyType, given.keyType)
            return MapType(key, self._type(f"{path}.value", there.valueType, given.valueType), there.valueContainsNull)
        if _fits(given, there):
            return there
        is_wider = self.widens and _fits(there, given)
        if is_wider and self.merges:
            return given
        advice = (
            f"set merge_schema=True on {self.function}(…) to widen the column"
            if is_wider
            else "merge_schema adds columns and does not change this type; cast the column in a step, or write to "
            "another table"
        )
        raise PipelineError(
            f"{self.table} has column {path!r} as {there.simpleString()}, but the rows have it as "
            f"{given.simpleString()}: {advice}"
        )


def table_columns(schema: "pa.Schema") -> StructType:
    """The columns of a table as Spark has them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def arrow_columns(columns: StructType) -> "pa.Schema":
    """Columns as Arrow has them in files."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(columns, timezone="UTC")


def created_columns(rows: StructType) -> StructType:
    """The columns of a table that a first batch creates: later batches may have nulls where this one has none."""
    return StructType([StructField(each.name, _nullable(each.dataType), True, each.metadata) for each in rows.fields])


def check_names(table: str, setting: str, wanted: Iterable[str], there: list[str]) -> None:
    """Raises PipelineError if the rows do not have a column that a setting names."""
    for name in wanted:
        if name not in there:
            raise PipelineError(f"{table}: {setting} has {name!r}, but the rows have {', '.join(there)}")


def in_order(rows: "pa.Table", names: tuple[str, ...]) -> "pa.Table":
    """The rows, sorted by columns if there are any."""
    return rows.sort_by([(name, "ascending") for name in names]) if names else rows


def fitted(rows: "pa.Table", columns: "pa.Schema") -> "pa.Table":
    """The rows with these columns, in this order: cast, and null where they have none.

    Raises PipelineError if a column that the table requires has nulls: its log would accept the file, and its readers
    would not.
    """
    import pyarrow as pa

    arrays = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in columns
    ]
    for field, values in zip(columns, arrays, strict=True):
        if not field.nullable and values.null_count:
            raise PipelineError(
                f"the table has column {field.name!r} as NOT NULL, but {values.null_count} of the rows have no value "
                f"there: reject them in the steps, with fail_when('{field.name} is null', …)"
            )
    return pa.table(arrays, schema=columns)


def _fits(given: DataType, there: DataType) -> bool:
    """Whether every value of `given` is one of `there`."""
    if isinstance(given, NullType) or given.simpleString() == there.simpleString():
        return True
    if isinstance(given, DecimalType) and isinstance(there, DecimalType):
        return given.scale == there.scale and given.precision <= there.precision
    for ladder in (_WHOLE, _FRACTIONS):
        if type(given) in ladder and type(there) in ladder:
            return ladder.index(type(given)) <= ladder.index(type(there))
    return False


def _nullable(kind: DataType) -> DataType:
    """The type with nothing in it required: rows that the table has hold no value there."""
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, _nullable(each.dataType)) for each in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return kind
