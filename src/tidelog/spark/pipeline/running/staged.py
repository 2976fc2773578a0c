"""Micro-batches for several sinks, one of them perhaps a topic, when rows may fail: computed once, kept, then written.

A batch that is repeated after a crash must not be computed again once a sink has it, because a row may fare differently
the second time and would be lost or doubled between the sinks. So its rows are put beside the checkpoint first; every
sink takes them from there, and knows by the batch's number what it has. `running` hands `process` to `foreachBatch`.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidelog.spark.internals import file_of, release
from tidelog.spark.pipeline.definition.chain import Materialize, run_steps
from tidelog.spark.pipeline.definition.connection import Connection
from tidelog.spark.pipeline.definition.endpoints import Changes, Delta, EachBatch, Iceberg, Topic
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError, topic_sinks
from tidelog.spark.pipeline.definition.steps import ERROR, RECORD
from tidelog.spark.pipeline.failing.guarded import ERROR_TYPE
from tidelog.spark.pipeline.failing.routing import Ladder
from tidelog.spark.pipeline.running.columns import output_rows, route
from tidelog.spark.pipeline.running.engine import OpenTables, short_errors
from tidelog.spark.pipeline.running.sinks import batch_function, routed_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OTHERS: Final = (Delta, Iceberg, Changes, EachBatch)


class StagedEngine:
    """Processes each micro-batch of a pipeline with several sinks."""

    def __init__(
        self,
        pipeline: Pipeline,
        ladder: Ladder,
        open_tables: OpenTables,
        topic: Topic,
        connection: Connection,
        checkpoint: str,
    ) -> None:
        self._pipeline = pipeline
        self._ladder = ladder
        self._open_tables = open_tables
        self._topic = topic
        self._write_topics = routed_batches(topic, connection)
        self._directory = os.path.join(checkpoint, "staged")
        self._writers: list[Callable[[DataFrame, int], Any]] | None = None

    def process(self, batch: "DataFrame", batch_id: int) -> None:
        """One micro-batch, to the end. Raises BatchFailed with a sentence."""
        with short_errors():
            rows = self._staged(batch, batch_id)
            well = rows.where(F.col(ERROR).isNull()).drop(ERROR, RECORD)
            if self._writers is None:
                others = [sink for sink in self._pipeline.sinks if isinstance(sink, _OTHERS)]
                self._writers = [batch_function(sink, rows) for sink in others]
            for write in self._writers:
                write(well, batch_id)
            self._write_topics(self._for_topics(rows), batch_id)

    def _for_topics(self, rows: "DataFrame") -> "DataFrame":
        if topic_sinks(self._pipeline):
            named = output_rows(rows, topic_sinks(self._pipeline))
        else:
            named = output_rows(rows.where(F.col(ERROR).isNotNull()).withColumn("value", F.lit(None)), [Topic(("",))])
        return route(named, self._ladder, self._pipeline.name).drop(RECORD)

    def _staged(self, batch: "DataFrame", batch_id: int) -> "DataFrame":
        spark = batch.sparkSession
        path = os.path.join(self._directory, str(batch_id))
        if not self._is_complete(batch, path):
            held: list[DataFrame] = []

            def materialize(rows: "DataFrame") -> "DataFrame":
                held.append(rows.localCheckpoint())
                return held[-1]

            try:
                self._evaluated(batch, materialize).write.mode("overwrite").parquet(path)
            finally:
                for rows in held:
                    release(rows)
        self._forget(batch, batch_id - 2)
        return spark.read.parquet(path)

    def _evaluated(self, batch: "DataFrame", materialize: Materialize) -> "DataFrame":
        applied = run_steps(self._pipeline.steps, batch, self._open_tables(batch.sparkSession), materialize)
        result = applied.rows
        if ERROR not in result.columns:
            result = result.withColumn(ERROR, F.lit(None).cast(ERROR_TYPE))
        if RECORD not in result.columns:
            raise PipelineError(
                f"the steps drop the column {RECORD!r}, which is needed with several sinks: select it too"
            )
        for failed in applied.set_aside:
            result = result.unionByName(failed, allowMissingColumns=True)
        return result

    @staticmethod
    def _is_complete(batch: "DataFrame", path: str) -> bool:
        files, place = file_of(batch, os.path.join(path, "_SUCCESS"))
        return bool(files.exists(place))

    def _forget(self, batch: "DataFrame", batch_id: int) -> None:
        """Spark has written down that the batch after it was done: it will not be asked for again."""
        if batch_id >= 0:
            files, place = file_of(batch, os.path.join(self._directory, str(batch_id)))
            files.delete(place, True)
