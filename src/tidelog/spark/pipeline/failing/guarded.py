"""Steps that fail row by row, as transformations of DataFrames. Imports Spark: to be imported when a pipeline runs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.definition.steps import ERROR, RECORD, BatchStep, RowStep
from tidelog.spark.pipeline.failing.row_functions import run_batches, run_rows
from tidelog.spark.pipeline.failing.worker_guard import Guard, Note
from tidelog.spark.worker import settle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

ERROR_TYPE: Final = StructType(
    [
        StructField("type", StringType()),
        StructField("message", StringType()),
        StructField("retry", BooleanType()),
    ]
)

_SHOWN_MAX: Final = 200
_MILLIS_MAX: Final = (2**63 - 1) // 1000


_GUARD: ContextVar[Guard] = ContextVar("guard", default=Guard())  # noqa: B039 - frozen


@contextmanager
def guarded_by(guard: Guard) -> Iterator[None]:
    """Steps that are applied in this block run their functions under `guard`."""
    token = _GUARD.set(guard)
    try:
        yield
    finally:
        _GUARD.reset(token)


def mark_failed(
    rows: "DataFrame",
    condition: "str | Column",
    message: "str | Column",
    *,
    retry: bool = True,
    kind: str = "RowRejected",
) -> "DataFrame":
    """`rows`, those for which `condition` is true having failed with `message`. A row keeps its first failure."""
    condition = F.expr(condition) if isinstance(condition, str) else condition
    text = F.lit(message) if isinstance(message, str) else F.coalesce(sound_text(message), F.lit("no message"))
    failure = F.struct(F.lit(kind).alias("type"), text.alias("message"), F.lit(retry).alias("retry"))
    error = F.when(F.coalesce(condition, F.lit(False)), failure).cast(ERROR_TYPE)
    return rows.withColumn(ERROR, F.coalesce(F.col(ERROR), error) if ERROR in rows.columns else error)


def stopping_at(rows: "DataFrame", condition: "Column", message: "Column", step: str | None = None) -> "DataFrame":
    """`rows`; the first for which `condition` is true stops the query, with its place, its `step` and `message`."""
    where = _place_of(rows)
    text = F.concat(
        F.lit("a row failed ("),
        where,
        F.lit(f"){'' if step is None else f' in step {step}'}: "),
        F.coalesce(message, F.lit("no message")),
    )
    is_well = F.when(condition, F.raise_error(text).cast("boolean")).otherwise(F.lit(True))
    return rows.where(is_well)


def _place_of(rows: "DataFrame") -> "Column":
    """Where a row was read; of one that came from no topic, or whose place the steps have left out, what is in it."""
    is_kept = RECORD in rows.columns and rows.schema[RECORD].dataType.typeName() == "struct"
    names = [name for name in ("topic", "partition", "offset") if is_kept or name in rows.columns]
    columns = [F.col(f"{RECORD}.{name}" if is_kept else name) for name in names]
    place = F.concat_ws(
        " ", *[F.concat(F.lit(f"{name} "), column.cast("string")) for name, column in zip(names, columns, strict=True)]
    )
    if names and not is_kept:
        return place
    known = [name for name in rows.columns if name not in (RECORD, ERROR) and rows.columns.count(name) == 1]
    shown = F.col(f"{RECORD}.value") if is_kept else F.to_json(F.struct(*[F.col(f"`{name}`") for name in known]))
    shown = F.coalesce(F.substring(sound_text(shown), 1, _SHOWN_MAX), F.lit("null"))
    return F.when(place != "", place).otherwise(F.concat(F.lit("row "), shown))


def sound_text(column: "Column") -> "Column":
    """A column as text. Bytes that are not UTF-8, which a cast keeps as they are, are replaced as Java does."""
    return F.make_valid_utf8(column.cast("string"))


def text_or_null(column: "Column") -> "Column":
    """A column as text; null where its bytes are not UTF-8."""
    return F.try_validate_utf8(column.cast("string"))


def moment_of(millis: "Column") -> "Column":
    """A number of milliseconds as a timestamp; null where Spark's timestamps, in microseconds, do not reach it."""
    return F.when(millis.between(-_MILLIS_MAX, _MILLIS_MAX), F.timestamp_millis(millis))


def with_evaluated(rows: "DataFrame", name: str, expression: "Column") -> "DataFrame":
    """`rows` with the column `name`, for which Spark evaluates `expression` once a row.

    The optimizer moves a filter below a projection, which it writes out again in the filter: a row would be parsed once
    to be checked and once more to be used. It does not move filters below a generator.
    """
    return rows.withColumn(name, F.explode_outer(F.array(expression)))


def run_row_step(step: RowStep, rows: "DataFrame") -> "DataFrame":
    """`step` over `rows`."""
    return map_rows(rows, step.function, struct_of(step.schema), step.columns)


def run_batch_step(step: BatchStep, rows: "DataFrame") -> "DataFrame":
    """`step` over `rows`."""
    return _mapped(rows, struct_of(step.schema), step.columns, partial(_over, run_batches, step.function, step.columns))


def map_rows(
    rows: "DataFrame",
    function: Callable[[dict[str, Any]], Any],
    made: StructType,
    columns: Sequence[str] | None,
    *,
    fatal: tuple[type[Exception], ...] = (),
) -> "DataFrame":
    """`function` for each row, which makes the columns `made`; an error of the types `fatal` fails the whole batch."""
    return _mapped(rows, made, columns, partial(_over, partial(run_rows, fatal=fatal), function, columns))


def struct_of(schema: str) -> StructType:
    """The columns that a text like `id long, amount double` names."""
    struct = StructType.fromDDL(schema)
    assert isinstance(struct, StructType)
    return struct


def _mapped(
    rows: "DataFrame",
    new: StructType,
    columns_read: Sequence[str] | None,
    over: "Callable[[pa.Schema, pa.Schema], Callable[..., Any]]",
) -> "DataFrame":
    from pyspark.sql.pandas.types import to_arrow_schema

    for name in columns_read or ():
        if name not in rows.columns:
            columns = ", ".join(each for each in rows.columns if each not in (RECORD, ERROR))
            raise PipelineError(f"column {name!r} does not exist; the columns are {columns}")
    # Spark hands timestamps over in the session's zone, and an Arrow type names its zone.
    zone = rows.sparkSession.conf.get("spark.sql.session.timeZone")
    # A row that fails has none of the new columns.
    new = new.toNullable()
    made = {field.name: field for field in new}
    there = [made.get(field.name, field) for field in rows.schema if field.name != ERROR]
    added = [field for field in new if field.name not in rows.columns]
    out = StructType([*there, *added, StructField(ERROR, ERROR_TYPE)])
    return rows.mapInArrow(over(to_arrow_schema(new, timezone=zone), to_arrow_schema(out, timezone=zone)), out)


def _over(
    run: Callable[..., Any], function: Callable[..., Any], columns: Any, fields: "pa.Schema", out: "pa.Schema"
) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    guard = _GUARD.get()

    def work(batch: "pa.RecordBatch", function: Callable[..., Any], note: Note) -> "pa.RecordBatch":
        result: pa.RecordBatch = run(batch, function, columns, fields, out, note=note)
        return result

    def over(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        yield from guard.run(batches, function, work)
        settle("step")

    return over
