"""Opens the sinks of a pipeline: one streaming query for each, or a function for each batch."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidelog.spark.pipeline.definition.connection import SERVERS, Connection
from tidelog.spark.pipeline.definition.endpoints import Changes, Delta, EachBatch, Files, Iceberg, Sink, Topic
from tidelog.spark.pipeline.definition.steps import ERROR, RECORD
from tidelog.spark.pipeline.lake.tables import table_writer
from tidelog.spark.pipeline.running.columns import output_rows
from tidelog.spark.sink.each_batch import write_each_batch
from tidelog.spark.sink.placement import mark_placed, place_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

AGE = "age"


def stream_writer(
    rows: "DataFrame", sinks: Sequence[Sink], connection: Connection, checkpoint: str, output_mode: str
) -> "DataStreamWriter":
    """A writer for `rows`, which stop the query where they have failed; it is started by the caller.

    `sinks` are topics, or one other sink.
    """
    rows = stop_at_failed(rows)
    topics = [sink for sink in sinks if isinstance(sink, Topic)]
    if topics:
        return _topic_stream(output_rows(rows, topics), topics, connection, checkpoint, output_mode)
    (sink,) = sinks
    assert not isinstance(sink, Topic)
    rows = rows.drop(RECORD)
    if isinstance(sink, Files):
        writer = rows.writeStream.format(sink.format).options(**sink.options).outputMode(output_mode)
        if sink.partition_by:
            writer = writer.partitionBy(*sink.partition_by)
        return writer.option("path", sink.path) if sink.path else writer
    return rows.writeStream.outputMode(output_mode).foreachBatch(batch_function(sink, rows))


def batch_function(sink: Delta | Iceberg | Changes | EachBatch, rows: "DataFrame") -> "Callable[[DataFrame, int], Any]":
    """What writes one batch; it can be called twice with the same."""
    if isinstance(sink, EachBatch):
        return sink.function
    context = rows.sparkSession.sparkContext
    return table_writer(sink, lambda: str(context.getLocalProperty("sql.streaming.queryId")))


def routed_stream(rows: "DataFrame", sink: Topic, connection: Connection, checkpoint: str) -> "DataStreamWriter":
    """A writer for rows that name their topic in the column `topic`."""
    placed = placed_rows(rows, connection)
    return _native(placed, {**sink.options, **connection.options()}, checkpoint).outputMode("append")


def routed_batches(sink: Topic, connection: Connection) -> "Callable[[DataFrame, int], None]":
    """A function that writes one batch of rows with a column `topic`, oldest first if a column has their age."""
    write = write_each_batch(**{**sink.options, **connection.options()})

    def write_routed(rows: "DataFrame", batch_id: int) -> None:
        placed = placed_rows(rows, connection)
        if AGE in placed.columns:
            placed = mark_placed(placed.sortWithinPartitions(AGE).drop(AGE))
        write(placed, batch_id)

    return write_routed


def placed_rows(rows: "DataFrame", connection: Connection, topic: str | None = None) -> "DataFrame":
    """Rows in the tasks that own their partitions; see `place_rows`."""
    options: dict[str, Any] = {**connection.options()}
    servers = options.pop(f"kafka.{SERVERS}")
    return place_rows(rows, topic=topic, bootstrap_servers=servers, **options)


def topic_of(sinks: Sequence[Topic]) -> str | None:
    """The topic of all rows, if there is one."""
    return sinks[0].names[0] if len(sinks) == 1 and sinks[0].names else None


def stop_at_failed(rows: "DataFrame") -> "DataFrame":
    """Without a policy a row that fails stops the query, and says which row it was."""
    if ERROR not in rows.columns:
        return rows
    place = [name for name in ("topic", "partition", "offset") if name in rows.columns]
    where = F.concat_ws(" ", *[F.concat(F.lit(f"{name} "), F.col(name).cast("string")) for name in place])
    message = F.concat(F.lit("a row failed ("), where, F.lit("): "), F.col(f"{ERROR}.type"), F.lit(": "))
    message = F.concat(message, F.col(f"{ERROR}.message"), F.lit("; set on_failure to go on without such rows"))
    is_well = F.when(F.col(ERROR).isNotNull(), F.raise_error(message).cast("boolean")).otherwise(F.lit(True))
    return rows.where(is_well).drop(ERROR)


def _topic_stream(
    rows: "DataFrame", sinks: Sequence[Topic], connection: Connection, checkpoint: str, output_mode: str
) -> "DataStreamWriter":
    options = {**sinks[0].options, **connection.options()}
    topic = topic_of(sinks)
    if topic is not None:
        options["topic"] = topic
    if output_mode == "update":
        return rows.writeStream.outputMode("update").foreachBatch(write_each_batch(**options))
    placed = placed_rows(rows, connection, topic)
    return _native(placed, options, checkpoint).outputMode(output_mode)


def _native(rows: "DataFrame", options: dict[str, str], checkpoint: str) -> "DataStreamWriter":
    return rows.writeStream.format("tidelog").options(**options).option("checkpointLocation", checkpoint)
