"""Failed rows as Spark expressions: a record restored from its headers, and the next topic of a failed one.

`headers` and `routing` define the meaning; a test compares the two.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.types import BinaryType, NullType, StringType

from tidelog.client.retry import headers as names
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.definition.steps import ERROR, RECORD
from tidelog.spark.pipeline.failing.guarded import moment_of, sound_text
from tidelog.spark.pipeline.failing.late_rows import BATCH_WATERMARK, WATERMARK
from tidelog.spark.pipeline.failing.ordering import SEQUENCE, VERDICT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from tidelog.spark.pipeline.definition.endpoints import Topic
    from tidelog.spark.pipeline.failing.routing import Ladder

HEADERS_TYPE: Final = "array<struct<key: string, value: binary>>"
OUTPUT_COLUMNS: Final = ("key", "value", "headers", "topic", "partition")
_ATTEMPTS: Final = "_attempts"
_RUNG: Final = "_rung"
_ROUTE: Final = "_route"
_ATTEMPTS_MAX: Final = 1_000_000_000


def restore(rows: "DataFrame", ladder: "Ladder", pipeline: str, *, show_headers: bool) -> "DataFrame":
    """Rows of the source and of the ladder's topics alike: as they were first read, with `_record` beside them.

    Pipelines that read the same topic have the same retry topics: each takes what it has put there itself.
    """
    came_back = F.col("topic").isin(*ladder.read_back) if ladder.read_back else F.lit(False)
    if ladder.read_back:
        rows = rows.where(~came_back | F.coalesce(header_text(names.PIPELINE) == pipeline, F.lit(True)))

    def origin(column: str, header: str, kind: str) -> "Column":
        return F.coalesce(F.when(came_back, header_text(header).try_cast(kind)), F.col(column))

    # Anything may be in a topic that others can write to: a number out of range must not fail the batch.
    moment = F.when(came_back, moment_of(header_text(names.ORIGIN_TIMESTAMP_MS).try_cast("long")))
    attempts = header_text(names.ATTEMPTS).try_cast("int")
    attempts = F.when(came_back & attempts.between(0, _ATTEMPTS_MAX), attempts)
    own = F.filter("headers", lambda header: ~header["key"].isin(*sorted(names.OWN)))
    record = F.struct(
        F.col("key").alias("key"),
        F.col("value").alias("value"),
        _or_none(own).alias("headers"),
        origin("topic", names.ORIGIN_TOPIC, "string").alias("topic"),
        origin("partition", names.ORIGIN_PARTITION, "int").alias("partition"),
        origin("offset", names.ORIGIN_OFFSET, "long").alias("offset"),
        F.coalesce(moment, F.col("timestamp")).alias("timestamp"),
        F.coalesce(attempts, F.lit(0)).alias("attempts"),
        F.when(came_back, header_text(names.SEQUENCE).try_cast("long")).alias("sequence"),
        F.col("topic").alias("read_topic"),
        F.col("partition").alias("read_partition"),
        F.col("offset").alias("read_offset"),
        *_watermark(rows, came_back),
    )
    restored = rows.withColumn(RECORD, record).drop(BATCH_WATERMARK)
    for column in ("topic", "partition", "offset", "timestamp"):
        restored = restored.withColumn(column, F.col(f"{RECORD}.{column}"))
    if not show_headers:
        return restored.drop("headers")
    headers = F.col(f"{RECORD}.headers")
    return restored.withColumn("headers", F.when(F.size(headers) > 0, headers))


def as_records(rows: "DataFrame") -> "DataFrame":
    """Rows of a source that is not a topic, with `_record` beside them: the row as JSON, which came from no offset."""
    value = F.to_json(F.struct(*[F.col(f"`{name}`") for name in rows.columns]), {"ignoreNullFields": "false"})
    nowhere = {"topic": "string", "partition": "int", "offset": "long"}
    record = F.struct(
        F.lit(None).cast("binary").alias("key"),
        value.cast("binary").alias("value"),
        no_headers().alias("headers"),
        *[F.lit(None).cast(kind).alias(name) for name, kind in nowhere.items()],
        F.lit(None).cast("timestamp").alias("timestamp"),
        F.lit(0).alias("attempts"),
        F.lit(None).cast("long").alias("sequence"),
        *[F.lit(None).cast(kind).alias(f"read_{name}") for name, kind in nowhere.items()],
    )
    return rows.withColumn(RECORD, record)


def _watermark(rows: "DataFrame", came_back: "Column") -> "list[Column]":
    """The watermark of the batch, for rows that were retried or replayed, where the source knows it."""
    if BATCH_WATERMARK not in rows.columns:
        return []
    is_back = came_back | header_text(names.REPLAYED).isNotNull()
    return [F.when(is_back, F.col(BATCH_WATERMARK)).alias(WATERMARK)]


def header_text(name: str) -> "Column":
    """The text of the last header called `name`."""
    found = F.filter("headers", lambda header: header["key"] == F.lit(name))
    return sound_text(F.try_element_at(found, F.lit(-1))["value"])


def output_rows(rows: "DataFrame", sinks: "Sequence[Topic]") -> "DataFrame":
    """The columns of a topic's records, a row for each topic it goes to.

    They are `value`, or the column that the sink names, and `key`, `headers`, `to_topic`, `to_partition` if there.
    """
    routes = [route_of(rows, sink) for sink in sinks]
    if len(routes) == 1 and sinks[0].where is None:
        (chosen,) = routes
    else:
        rows = rows.withColumn(_ROUTE, F.explode(_matching(rows, sinks, routes)))
        chosen = {name: F.col(f"{_ROUTE}.{name}") for name in ("key", "value", "topic")}
    return rows.select(
        chosen["key"].alias("key"),
        chosen["value"].alias("value"),
        _or_none(_or_null(rows, "headers", HEADERS_TYPE)).alias("headers"),
        chosen["topic"].alias("topic"),
        _or_null(rows, "to_partition", "int").alias("partition"),
        *[F.col(name) for name in (RECORD, ERROR, VERDICT, SEQUENCE) if name in rows.columns],
    )


def route_of(rows: "DataFrame", sink: "Topic") -> "dict[str, Column]":
    """The key, the value and the topic of a row in this sink. Raises PipelineError for columns that do not fit."""
    value = sink.value or "value"
    if value not in rows.columns:
        there = ", ".join(name for name in rows.columns if not name.startswith("_"))
        raise PipelineError(f"the sink needs a column `{value}`, not only {there}: end the steps with pack_json()")
    if sink.key is not None and sink.key not in rows.columns:
        raise PipelineError(f"{sink} needs the column `{sink.key}` as the key, which is not there")
    if not sink.names and "to_topic" not in rows.columns:
        raise PipelineError("topic() without a name needs a column `to_topic` with the topic of each row")
    target = F.lit(sink.names[0]) if sink.names else F.col("to_topic")
    for name in {sink.key or "key", value} & set(rows.columns):
        kind = rows.schema[name].dataType
        if not isinstance(kind, StringType | BinaryType | NullType):
            raise PipelineError(
                f"{sink} takes text or bytes, but the column `{name}` is {kind.simpleString()}: "
                "cast it to string in a step, or end the steps with pack_json()"
            )
    return {"key": _binary(rows, sink.key or "key"), "value": _binary(rows, value), "topic": target}


def _matching(rows: "DataFrame", sinks: "Sequence[Topic]", routes: "list[dict[str, Column]]") -> "Column":
    """The routes of a row. A failed row has one, which is not used: `route` sends it to the ladder's topics."""
    made = [F.struct(*[column.alias(name) for name, column in route.items()]) for route in routes]
    wanted = [
        each if sink.where is None else F.when(F.expr(sink.where), each) for sink, each in zip(sinks, made, strict=True)
    ]
    routes_of_row = F.filter(F.array(*wanted), lambda each: each.isNotNull())
    if ERROR not in rows.columns:
        return routes_of_row
    return F.when(F.col(ERROR).isNotNull(), F.array(made[0])).otherwise(routes_of_row)


def _binary(rows: "DataFrame", column: str) -> "Column":
    return F.col(column).cast("binary") if column in rows.columns else F.lit(None).cast("binary")


def no_headers() -> "Column":
    """The headers of a record that has none: an empty array.

    Null would be slow. After each row that Spark hands to Python it goes again over all null arrays of the batch so
    far: ten microseconds a row in a batch of 10,000.
    """
    return F.array().cast(HEADERS_TYPE)


def _or_none(headers: "Column") -> "Column":
    return F.coalesce(headers, no_headers())


def _or_null(rows: "DataFrame", column: str, kind: str) -> "Column":
    return (F.col(column) if column in rows.columns else F.lit(None)).cast(kind)


def route(rows: "DataFrame", ladder: "Ladder", pipeline: str) -> "DataFrame":
    """Rows that failed (column `_error`) turned back into their record, on its way to the ladder's next topic.

    Where order is kept, `_verdict` and `_sequence` decide too: a row that succeeded may wait behind another.
    """
    # In stages, so that no expression is written out more than once in the code that Spark makes of them.
    if VERDICT not in rows.columns:
        alone = F.when(F.col(ERROR).isNotNull(), "retry").otherwise("emit")
        rows = rows.withColumns({VERDICT: alone, SEQUENCE: F.lit(None).cast("long")})
    parks = F.col(VERDICT) == "park"
    leaves = F.col(VERDICT) != "emit"
    rows = rows.withColumn(_ATTEMPTS, F.col(f"{RECORD}.attempts") + F.when(parks, 0).otherwise(1))
    parked = F.struct(F.lit(ladder.parked_topic).alias("topic"), F.lit(None).cast("long").alias("delay_ms"))
    rows = rows.withColumn(_RUNG, F.when(parks, parked).otherwise(_rung(ladder, F.col(_ATTEMPTS))))
    record_headers = _or_none(F.col(f"{RECORD}.headers"))
    trail = _trail(pipeline, F.col(_ATTEMPTS), F.col(f"{_RUNG}.delay_ms"), F.col(SEQUENCE))
    routed = {
        "key": F.when(leaves, F.col(f"{RECORD}.key")).otherwise(F.col("key")),
        "value": F.when(leaves, F.col(f"{RECORD}.value")).otherwise(F.col("value")),
        "headers": F.when(leaves, F.concat(record_headers, trail)).otherwise(F.col("headers")),
        "topic": F.when(leaves, F.col(f"{_RUNG}.topic")).otherwise(F.col("topic")),
        "partition": F.when(~leaves, F.col("partition")),
    }
    # One select, so that no expression sees a column another has replaced.
    return rows.select(*[column.alias(name) for name, column in routed.items()], RECORD)


def _rung(ladder: "Ladder", attempts: "Column") -> "Column":
    """`Ladder.route` as an expression."""
    dead = F.struct(F.lit(ladder.dead_letters).alias("topic"), F.lit(None).cast("long").alias("delay_ms"))
    if not ladder.retry_topics:
        return dead
    steps = [
        F.struct(F.lit(topic).alias("topic"), F.lit(delay_ms).cast("long").alias("delay_ms"))
        for topic, delay_ms in zip(ladder.retry_topics, ladder.delays_ms, strict=True)
    ]
    is_dead = (attempts >= ladder.attempts_max) | ~F.coalesce(F.col(f"{ERROR}.retry"), F.lit(True))
    return F.when(is_dead, dead).otherwise(F.element_at(F.array(*steps), F.least(attempts, F.lit(len(steps)))))


def _trail(pipeline: str, attempts: "Column", delay_ms: "Column", sequence: "Column") -> "Column":
    """`headers.encode` as an expression."""
    now_ms = F.unix_millis(F.current_timestamp())
    waits_behind = F.lit("WaitsBehind"), F.lit("an earlier row of this key waits for a retry")
    values = {
        names.PIPELINE: F.lit(pipeline),
        names.ATTEMPTS: attempts,
        names.ERROR_TYPE: F.coalesce(sound_text(F.col(f"{ERROR}.type")), waits_behind[0]),
        names.ERROR_MESSAGE: F.substring(
            F.coalesce(sound_text(F.col(f"{ERROR}.message")), waits_behind[1]), 1, names.MESSAGE_CHARACTERS_MAX
        ),
        names.FAILED_MS: now_ms,
        names.DUE_MS: now_ms + delay_ms,
        names.ORIGIN_TOPIC: F.col(f"{RECORD}.topic"),
        names.ORIGIN_PARTITION: F.col(f"{RECORD}.partition"),
        names.ORIGIN_OFFSET: F.col(f"{RECORD}.offset"),
        names.ORIGIN_TIMESTAMP_MS: F.unix_millis(F.col(f"{RECORD}.timestamp")),
        names.SEQUENCE: sequence,
    }
    headers = [
        F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
        for name, value in values.items()
    ]
    present = F.filter(F.array(*headers), lambda header: header["value"].isNotNull())
    return present.cast(HEADERS_TYPE)
