"""Tables that are read again on a schedule, and batches that join with them.

A streaming plan keeps the tables it started with. So a pipeline with such tables computes each batch by itself, in
`foreachBatch`, with the tables that are current then.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.client.durations import milliseconds
from tidelog.spark.pipeline.definition.chain import run_steps
from tidelog.spark.pipeline.definition.connection import Connection
from tidelog.spark.pipeline.definition.endpoints import Refreshed, Sink, Topic
from tidelog.spark.pipeline.definition.pipeline import Pipeline
from tidelog.spark.pipeline.definition.steps import RECORD
from tidelog.spark.pipeline.running.columns import output_rows
from tidelog.spark.pipeline.running.engine import OpenTables, short_errors
from tidelog.spark.pipeline.running.sinks import batch_function, routed_batches, stop_at_failed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def has_refreshed(pipeline: Pipeline) -> bool:
    """Whether a table of the pipeline is read again on a schedule."""
    return any(isinstance(table, Refreshed) for table in pipeline.tables.values())


class RefreshedTables:
    """The tables of one query that are kept until they are due. Not shared between threads: batches run one by one."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._kept: dict[str, tuple[DataFrame, float]] = {}

    def get(self, name: str, table: Refreshed, open_table: "Callable[[], DataFrame]") -> "DataFrame":
        """The table, read now if it is due."""
        kept = self._kept.get(name)
        now_s = self._now_s()
        if kept is not None and now_s < kept[1]:
            return kept[0]
        if kept is not None:
            # First, because Spark takes a table at the same path for the one it has in memory.
            kept[0].unpersist(blocking=True)
        rows = open_table().persist()
        self._kept[name] = rows, now_s + milliseconds(table.every) / 1000
        return rows


def batch_writer(
    pipeline: Pipeline, rows: "DataFrame", sinks: Sequence[Sink], open_tables: OpenTables, connection: Connection
) -> "DataStreamWriter":
    """A writer of a pipeline without a policy whose batches are computed with the tables of their time."""
    write = _writes(rows, sinks, connection)

    def process(batch: "DataFrame", batch_id: int) -> None:
        with short_errors():
            tables = open_tables(batch.sparkSession)
            write(_computed(pipeline, batch, tables), batch_id)

    return rows.writeStream.outputMode("append").foreachBatch(process)


def _computed(pipeline: Pipeline, batch: "DataFrame", tables: "Mapping[str, DataFrame]") -> "DataFrame":
    result = run_steps(pipeline.steps, batch, tables, lambda computed: computed, on_failed=stop_at_failed).rows
    return stop_at_failed(result)


def _writes(rows: "DataFrame", sinks: Sequence[Sink], connection: Connection) -> "Callable[[DataFrame, int], Any]":
    topics = [sink for sink in sinks if isinstance(sink, Topic)]
    if topics:
        write = routed_batches(topics[0], connection)
        return lambda computed, batch_id: write(output_rows(computed, topics), batch_id)
    (sink,) = sinks
    others: Any = batch_function(sink, rows)  # type: ignore[arg-type] # files are rejected by the checks
    return lambda computed, batch_id: others(computed.drop(RECORD), batch_id)
