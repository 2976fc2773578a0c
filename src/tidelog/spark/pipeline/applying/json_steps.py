"""JSON in a record's value to columns and back. Imports Spark, so it is imported when a pipeline runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidelog.spark.pipeline.definition.steps import ERROR, RECORD
from tidelog.spark.pipeline.failing.guarded import mark_failed, sound_text, struct_of, text_or_null, with_evaluated

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RECORD_COLUMNS: Final = frozenset(
    {"key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers", RECORD, ERROR}
)
ROUTE_COLUMNS: Final = frozenset({"to_topic", "to_partition"})
"""Where a row goes: not part of its value."""
_PARSED: Final = "_tidelog_parsed"
_CORRUPT: Final = "_tidelog_corrupt"
_STRICT: Final = {"columnNameOfCorruptRecord": _CORRUPT, "allowSingleQuotes": "false"}


def parse(rows: "DataFrame", schema: str, column: str) -> "DataFrame":
    """The JSON object in `column` as the columns of `schema`; other values fail."""
    fields = struct_of(schema).fieldNames()
    # JSON is UTF-8: of other bytes the parser would make replacement characters without a word.
    parsed = F.from_json(text_or_null(F.col(column)), f"{schema}, {_CORRUPT} string", _STRICT)
    rows = with_evaluated(rows, _PARSED, parsed)
    is_bad = F.col(_PARSED).isNull() | F.col(f"{_PARSED}.{_CORRUPT}").isNotNull()
    shown = F.coalesce(F.substring(sound_text(F.col(column)), 1, 200), F.lit("null"))
    message = F.concat(F.lit(f"{column} is not a JSON object of ({schema}): "), shown)
    rows = mark_failed(rows, is_bad, message)
    return rows.withColumns({name: F.col(f"{_PARSED}.`{name}`") for name in fields}).drop(_PARSED)


def pack(rows: "DataFrame", columns: Sequence[str] | None, key: str | None) -> "DataFrame":
    """`columns` as a JSON object in `value`, `key` as text in `key`; the headers and where the row goes stay."""
    others = RECORD_COLUMNS | ROUTE_COLUMNS
    chosen = list(columns) if columns is not None else [name for name in rows.columns if name not in others]
    value = F.to_json(F.struct(*[F.col(f"`{name}`") for name in chosen]), {"ignoreNullFields": "false"})
    kept = [F.col(name) for name in ("headers", "to_topic", "to_partition", RECORD, ERROR) if name in rows.columns]
    new_key = F.col(f"`{key}`").cast("string") if key is not None else _old_key(rows)
    return rows.select(new_key.cast("binary").alias("key"), value.cast("binary").alias("value"), *kept)


def _old_key(rows: "DataFrame") -> "Column":
    return F.col("key") if "key" in rows.columns else F.lit(None)
