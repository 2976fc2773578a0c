"""Change events in Debezium's envelope, as columns. Imports Spark, so it is imported when a pipeline runs.

An event is a JSON object with `before`, `after`, `op`, `source` and `ts_ms`, alone or as the `payload` beside its
`schema` (Kafka Connect's `schemas.enable`), or an Avro record with the same fields. A null value is a tombstone, which
Debezium writes after a delete so that compaction removes the key.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.definition.schema_steps import AVRO, ParseSchema
from tidelog.spark.pipeline.failing.guarded import (
    mark_failed,
    moment_of,
    sound_text,
    struct_of,
    text_or_null,
    with_evaluated,
)
from tidelog.spark.pipeline.schemas import columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidelog.spark.pipeline.definition.steps import ParseDebezium

OPERATIONS: Final = {
    "c": "create",
    "r": "snapshot",
    "u": "update",
    "d": "delete",
    "t": "truncate",
    "m": "message",
}
TOMBSTONE: Final = "tombstone"
_NEEDS_AFTER: Final = ("create", "snapshot", "update")
_OF_NO_ROW: Final = ("t", "m")
"""The events that are about no single row, and have no key: truncations and messages."""

_EVENT: Final = "_tidelog_event"
_PARSED: Final = "_tidelog_parsed"
_CORRUPT: Final = "_tidelog_corrupt"
_STRICT: Final = {"columnNameOfCorruptRecord": _CORRUPT, "allowSingleQuotes": "false"}


def parse(rows: "DataFrame", step: "ParseDebezium") -> "DataFrame":
    """The event in `value` as `operation`, `before`, `after`, `source`, `changed_at`; the key as `row_key`."""
    for name in ("key", "value"):
        if name not in rows.columns:
            raise PipelineError(f"{step.name} needs the column {name!r} of the record: make it the first step")
    is_tombstone = F.col("value").isNull()
    if step.registry is not None:
        rows = _read_avro(rows, step)
    else:
        assert step.schema is not None, "checked before"
        rows = _read_events(rows, step.schema, is_tombstone)
        if step.key is not None:
            rows = _read_keys(rows, step.key)
    return _checked(_as_columns(rows, is_tombstone))


def _read_avro(rows: "DataFrame", step: "ParseDebezium") -> "DataFrame":
    def read(rows: "DataFrame", column: str, into: str, *, allow_null: bool) -> "DataFrame":
        step_of_column = ParseSchema(
            AVRO,
            registry=step.registry,
            subject=f"{step.topic}-{column}",
            column=column,
            into=into,
            registry_options=step.registry_options,
            allow_null=allow_null,
        )
        return columns.parse(rows, step_of_column)

    rows = read(rows, "value", _EVENT, allow_null=True)
    fields = {each.name for each in rows.schema[_EVENT].dataType}  # type: ignore[attr-defined]
    if not {"before", "after", "op", "source"} <= fields:
        raise PipelineError(f"the schema of {step.topic}-value is not a change event: it has {', '.join(fields)}")
    source = F.to_json(F.col(f"{_EVENT}.source"))
    rows = rows.withColumn(_EVENT, F.col(_EVENT).withField("source", source))
    rows = read(rows, "key", "row_key", allow_null=True)
    return mark_failed(rows, F.col("key").isNull() & ~_is_of_no_row(), F.lit("the change of a row has no key"))


def _read_events(rows: "DataFrame", schema: str, is_tombstone: "Column") -> "DataFrame":
    fields = f"before struct<{schema}>, after struct<{schema}>, op string, ts_ms long, source string"
    rows = _read_json(rows, "value", fields, is_tombstone, f"not a change event of ({schema})")
    return rows.withColumn(_EVENT, _payload(_names(fields), F.col(f"{_PARSED}.op").isNull())).drop(_PARSED)


def _read_keys(rows: "DataFrame", schema: str) -> "DataFrame":
    is_left_out = F.col("key").isNull() & _is_of_no_row()
    rows = _read_json(rows, "key", schema, is_left_out, f"not a JSON object of ({schema})")
    return rows.withColumn("row_key", _payload(_names(schema), F.lit(True))).drop(_PARSED)


def _is_of_no_row() -> "Column":
    return F.coalesce(F.col(f"{_EVENT}.op").isin(*_OF_NO_ROW), F.lit(False))


def _read_json(rows: "DataFrame", column: str, fields: str, allowed: "Column", what: str) -> "DataFrame":
    """The JSON in `column` in `_PARSED`: `fields`, and the same inside `payload`."""
    text = F.col(column)
    parsed = F.from_json(text_or_null(text), f"payload struct<{fields}>, {fields}, {_CORRUPT} string", _STRICT)
    rows = with_evaluated(rows, _PARSED, parsed)
    is_bad = ~allowed & (F.col(_PARSED).isNull() | F.col(f"{_PARSED}.{_CORRUPT}").isNotNull())
    shown = F.coalesce(F.substring(sound_text(text), 1, 200), F.lit("null"))
    return mark_failed(rows, is_bad, F.concat(F.lit(f"{column} is {what}: "), shown))


def _payload(names: list[str], may_be_inside: "Column") -> "Column":
    """The fields of an object that stands alone, or of the payload beside its schema."""
    inner = F.col(f"{_PARSED}.payload")
    alone = F.struct(*[F.col(f"{_PARSED}.`{name}`").alias(name) for name in names])
    return F.when(may_be_inside & inner.isNotNull(), inner).otherwise(alone)


def _as_columns(rows: "DataFrame", is_tombstone: "Column") -> "DataFrame":
    event = F.col(_EVENT)
    codes = F.create_map(*[F.lit(text) for pair in OPERATIONS.items() for text in pair])
    named = F.coalesce(codes[event["op"]], F.coalesce(event["op"], F.lit("null")))
    moment = F.coalesce(F.get_json_object(event["source"], "$.ts_ms").try_cast("long"), event["ts_ms"])
    return rows.withColumns(
        {
            "operation": F.when(is_tombstone, F.lit(TOMBSTONE)).otherwise(named),
            "before": event["before"],
            "after": event["after"],
            "source": event["source"],
            "changed_at": moment_of(moment),
        }
    ).drop(_EVENT)


def _checked(rows: "DataFrame") -> "DataFrame":
    unknown = ~F.col("operation").isin(*OPERATIONS.values(), TOMBSTONE)
    rows = mark_failed(rows, unknown, F.concat(F.lit("the change event has an unknown op: "), F.col("operation")))
    needs_row = F.col("operation").isin(*_NEEDS_AFTER) & F.col("after").isNull()
    return mark_failed(rows, needs_row, F.concat(F.lit("the change event has no `after`: "), F.col("operation")))


def _names(schema: str) -> list[str]:
    return list(struct_of(schema).fieldNames())
