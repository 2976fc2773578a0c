"""Makes the steps of a definition, which can be called: `step(rows)`. No Spark is imported before one is called."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.spark.pipeline.definition import schema_steps, steps

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import Column, DataFrame


class _Callable:
    def __call__(self, rows: "DataFrame") -> "DataFrame":
        """The step, applied to `rows`."""
        from tidelog.spark.pipeline.applying.own_steps import apply_own

        return apply_own(self, rows)


class RowStep(_Callable, steps.RowStep):
    """A Python function of one row."""


class BatchStep(_Callable, steps.BatchStep):
    """A function of Arrow batches."""


class FailWhen(_Callable, steps.FailWhen):
    """Rows for which a condition is true have failed."""


class Expect(_Callable, steps.Expect):
    """Rows are expected to meet a condition."""


class ParseJson(_Callable, steps.ParseJson):
    """A JSON object, as columns."""


class PackJson(_Callable, steps.PackJson):
    """Columns as a JSON object."""


class ParseDebezium(_Callable, steps.ParseDebezium):
    """A change event, as columns."""


class ParseSchema(_Callable, schema_steps.ParseSchema):
    """A column with a schema, as columns."""


class PackSchema(_Callable, schema_steps.PackSchema):
    """Columns as a value with a schema."""


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


def expect(
    condition: str, *, name: str | None = None, on_failure: steps.OnUnmet = "warn", fail_above: float | None = None
) -> Expect:
    """A step: every row is expected to meet `condition` (SQL); rows that do not, or where it is null, are counted.

    `on_failure` says what becomes of them: `warn` (they go on), `drop`, `dead_letter` or `fail`, which stops the
    pipeline. They are counted by `name`, by default the condition. With `fail_above=0.05`, a batch in which more than
    this share of the rows fail is not written, and the pipeline stops.
    """
    return Expect(condition, condition if name is None else name, on_failure, fail_above)


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
