"""Opens the sinks of a pipeline: as formats of a stream, or as functions that write one batch."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidelog.spark.pipeline.definition.endpoints import Changes, Delta, EachBatch, Files, Iceberg, SqlTable, Topic
from tidelog.spark.pipeline.definition.steps import ERROR
from tidelog.spark.pipeline.failing.guarded import stopping_at
from tidelog.spark.pipeline.lake.tables import table_writer
from tidelog.spark.sink.each_batch import placing_options, write_each_batch
from tidelog.spark.sink.placement import mark_placed, place_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

AGE: Final = "age"
"""Rows with this column are written oldest first."""

SET_A_POLICY: Final = "; set on_failure to go on without such rows"


def topic_stream(rows: "DataFrame", options: Mapping[str, str], topic: str | None) -> "DataStreamWriter":
    """A writer of records to `topic`, or to the topics in the column `topic`."""
    named = {} if topic is None else {"topic": topic}
    return placed(rows, options, topic).writeStream.format("tidelog").options(**{**options, **named})


def file_stream(rows: "DataFrame", sink: Files) -> "DataStreamWriter":
    """A writer of a format that Spark has."""
    writer = rows.writeStream.format(sink.format).options(**sink.options)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    return writer.option("path", sink.path) if sink.path else writer


def batch_function(
    sink: Delta | Iceberg | SqlTable | Changes | EachBatch, spark: "SparkSession"
) -> "Callable[[DataFrame, int], Any]":
    """What writes one batch; it can be called twice with the same."""
    if isinstance(sink, EachBatch):
        return sink.function
    context = spark.sparkContext
    return table_writer(sink, lambda: str(context.getLocalProperty("sql.streaming.queryId")))


def topic_batches(options: Mapping[str, str], topic: str | None) -> "Callable[[DataFrame, int], None]":
    """A function that writes one batch of records, exactly once."""
    write = write_each_batch(**options, **({} if topic is None else {"topic": topic}))

    def write_records(rows: "DataFrame", batch_id: int) -> None:
        if AGE in rows.columns:
            rows = mark_placed(placed(rows, options, topic).sortWithinPartitions(AGE).drop(AGE))
        write(rows, batch_id)

    return write_records


def placed(rows: "DataFrame", options: Mapping[str, str], topic: str | None) -> "DataFrame":
    """Records in the tasks that own their partitions; see `place_rows`."""
    return place_rows(rows, topic=topic, **placing_options(options))


def topic_of(sinks: Sequence[Topic]) -> str | None:
    """The topic of all rows, if there is one."""
    return sinks[0].names[0] if len(sinks) == 1 and sinks[0].names else None


def stop_at_failed(rows: "DataFrame", step: str | None = None) -> "DataFrame":
    """Without a policy a row that fails stops the query, and says which row it was, and in which step."""
    if ERROR not in rows.columns:
        return rows
    message = F.concat(F.col(f"{ERROR}.type"), F.lit(": "), F.col(f"{ERROR}.message"), F.lit(SET_A_POLICY))
    return stopping_at(rows, F.col(ERROR).isNotNull(), message, step).drop(ERROR)
