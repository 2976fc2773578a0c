"""Steps that can fail row by row, and steps for JSON. `Pipeline.steps` holds them beside plain functions of DataFrames.

A step here is a callable from DataFrame to DataFrame that also has a name, may set the column `_error`
(`struct<type, message, retry>`) on rows it cannot handle, and passes on rows that failed before it. No Spark is
imported until one is called, so that a pipeline's file loads without it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, final

from tidelog.spark.pipeline.definition.schema_steps import PackSchema, ParseSchema

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import Column, DataFrame

ERROR: Final = "_error"
"""The error of a failed row: `struct<type: string, message: string, retry: boolean>`; null if it succeeded."""

RECORD: Final = "_record"
"""The column that holds the source record a row was made of, in pipelines that have a policy for failing rows."""


@final
class _Drop:
    def __repr__(self) -> str:
        return "DROP"

    def __reduce__(self) -> str:
        # Functions travel to executors with what they refer to, and there it must be the same object.
        return "DROP"


DROP: Final = _Drop()
"""What a row function returns to leave a row out on purpose."""


class RowFailed(Exception):  # noqa: N818 - reads as what it says
    """Raise it in a row function for a failure that needs no stack trace; `retry=False` makes it a dead letter now."""

    def __init__(self, message: str, *, retry: bool = True) -> None:
        super().__init__(message)
        self.retry = retry


@dataclass(frozen=True)
class RowStep:
    """A Python function of one row; its result becomes columns."""

    function: Callable[[dict[str, Any]], Any]
    schema: str
    columns: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The name in messages."""
        return getattr(self.function, "__name__", "row step")

    def __call__(self, rows: "DataFrame") -> "DataFrame":
        from tidelog.spark.pipeline.failing.guarded import run_row_step

        return run_row_step(self, rows)


@dataclass(frozen=True)
class BatchStep:
    """A function of Arrow batches; a batch that fails is divided until the failing rows are found."""

    function: "Callable[[RecordBatch], RecordBatch]"
    schema: str
    columns: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The name in messages."""
        return getattr(self.function, "__name__", "batch step")

    def __call__(self, rows: "DataFrame") -> "DataFrame":
        from tidelog.spark.pipeline.failing.guarded import run_batch_step

        return run_batch_step(self, rows)


@dataclass(frozen=True)
class FailWhen:
    """Rows for which a condition is true have failed."""

    condition: "str | Callable[[DataFrame], Column]"
    message: str
    retry: bool = True

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"fail_when({self.condition if isinstance(self.condition, str) else self.message!r})"

    def __call__(self, rows: "DataFrame") -> "DataFrame":
        from tidelog.spark.pipeline.failing.guarded import mark_failed

        condition = self.condition if isinstance(self.condition, str) else self.condition(rows)
        return mark_failed(rows, condition, self.message, retry=self.retry)


@dataclass(frozen=True)
class ParseJson:
    """The JSON object in a column, as columns; other values fail."""

    schema: str
    column: str = "value"

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"parse_json({self.column})"

    def __call__(self, rows: "DataFrame") -> "DataFrame":
        from tidelog.spark.pipeline.applying.json_steps import parse

        return parse(rows, self.schema, self.column)


@dataclass(frozen=True)
class PackJson:
    """Columns as a JSON object in `value`, one of them as `key`."""

    columns: tuple[str, ...] | None = None
    key: str | None = None

    @property
    def name(self) -> str:
        """The name in messages."""
        return "pack_json"

    def __call__(self, rows: "DataFrame") -> "DataFrame":
        from tidelog.spark.pipeline.applying.json_steps import pack

        return pack(rows, self.columns, self.key)


@dataclass(frozen=True)
class ParseDebezium:
    """A change event in Debezium's envelope, as columns; other values fail."""

    schema: str | None = None
    key: str | None = None
    registry: str | None = None
    topic: str | None = None
    registry_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name in messages."""
        return "parse_debezium"

    def __call__(self, rows: "DataFrame") -> "DataFrame":
        from tidelog.spark.pipeline.applying.debezium_steps import parse

        return parse(rows, self)


FALLIBLE_STEPS: Final = (RowStep, BatchStep, FailWhen, ParseJson, ParseDebezium, ParseSchema, PackSchema)
"""Steps that can set the column `_error`."""

OWN_STEPS: Final = (*FALLIBLE_STEPS, PackJson)
"""Steps of this package: they pass on rows that have failed."""


def row_step(
    schema: str, *, columns: Sequence[str] | None = None
) -> Callable[[Callable[[dict[str, Any]], Any]], RowStep]:
    """A decorator: `function(row)` is given a dict of columns and returns a dict of `schema`'s columns, or DROP.

    Whatever it raises is that row's failure. `columns` limits what is handed over, which is quicker. The new columns
    are added to the row's, or replace them.
    """
    return lambda function: RowStep(function, schema, None if columns is None else tuple(columns))


def batch_step(
    schema: str, *, columns: Sequence[str] | None = None
) -> "Callable[[Callable[[RecordBatch], RecordBatch]], BatchStep]":
    """A decorator: `function(batch)` is given Arrow columns and returns `schema`'s columns for the same rows.

    If it raises, it is called again with parts of the batch until the rows that make it raise stand alone.
    """
    return lambda function: BatchStep(function, schema, None if columns is None else tuple(columns))


def fail_when(condition: "str | Callable[[DataFrame], Column]", message: str, *, retry: bool = True) -> FailWhen:
    """A step: rows for which `condition` (SQL, or a function from DataFrame to Column) is true have failed."""
    return FailWhen(condition, message, retry)


def parse_json(schema: str, *, column: str = "value") -> ParseJson:
    """A step: the JSON object in `column` becomes the columns of `schema`; text that does not fit has failed."""
    return ParseJson(schema, column)


def pack_json(*columns: str, key: str | None = None) -> PackJson:
    """A step: `columns` (default: all that are not the record's own) become a JSON object in `value`.

    `key` names the column that becomes the record's key, as text; without it the key stays as it is.
    """
    return PackJson(columns or None, key)


def parse_debezium(
    schema: str | None = None,
    *,
    key: str | None = None,
    registry: str | None = None,
    topic: str | None = None,
    registry_options: Mapping[str, Any] | None = None,
) -> ParseDebezium:
    """A step: a change event of a table with the columns `schema` becomes columns; other values have failed.

    The columns are `operation` (`create`, `snapshot`, `update`, `delete`, `truncate`, `message` or `tombstone`),
    `before` and `after` (the row), `source` (JSON text: where the event comes from) and `changed_at`. With `key`, the
    columns of the record's key, there is `row_key` too. JSON is read with and without its schema.

    With `registry`, events and keys are Avro, and their newest schemas of the subjects `<topic>-value` and
    `<topic>-key` give the columns.
    """
    return ParseDebezium(schema, key, registry, topic, registry_options or {})


def is_fallible(step: object) -> bool:
    """Whether a step can set the column `_error`. Functions of DataFrames may too, through `mark_failed`."""
    return isinstance(step, FALLIBLE_STEPS)


def name_of(step: object) -> str:
    """The name of a step in messages."""
    if isinstance(step, OWN_STEPS):
        return step.name
    return str(getattr(step, "__name__", step))
