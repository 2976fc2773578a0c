"""What a pipeline makes of rows: of a stream, where it becomes part of the plan, of a micro-batch, or of a backfill.

`restored` turns records as they are read into rows for the steps, `results` runs the steps, and `for_topics` returns
what the topics get: with a policy, also the failed rows on their way to its topics.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidelog.client.cluster import Cluster
from tidelog.client.durations import milliseconds
from tidelog.spark.pipeline.applying.chain import Applied, Materialize, run_steps
from tidelog.spark.pipeline.checks.state import stateful_step
from tidelog.spark.pipeline.definition.connection import Connection
from tidelog.spark.pipeline.definition.endpoints import Topic, request_bytes, with_room
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError, topic_sinks
from tidelog.spark.pipeline.definition.steps import ERROR, RECORD
from tidelog.spark.pipeline.failing.guarded import ERROR_TYPE
from tidelog.spark.pipeline.failing.own_topics import make_missing, room_for_failed
from tidelog.spark.pipeline.failing.routing import Ladder, ladder_of
from tidelog.spark.pipeline.failing.worker_guard import Guard
from tidelog.spark.pipeline.running.columns import OUTPUT_COLUMNS, as_records, output_rows, restore, route
from tidelog.spark.pipeline.running.opening import open_tables
from tidelog.spark.pipeline.running.refreshing import RefreshedTables
from tidelog.spark.pipeline.running.refused import RecordLimits, mark_refused, read_limits
from tidelog.spark.pipeline.running.sinks import stop_at_failed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Computation:
    """The steps of a pipeline and its policy. `options` are those of its topics."""

    pipeline: Pipeline
    ladder: Ladder | None
    connection: Connection
    options: Mapping[str, str]
    guard: Guard
    limits: RecordLimits | None = None
    """What topics take, if a record that they would refuse can go elsewhere."""

    def source_option(self, name: str, default: str = "") -> str:
        """An option of the source, in any case."""
        source = self.pipeline.source
        given = {each.lower(): value for each, value in getattr(source, "options", {}).items()}
        return given.get(name.lower()) or default

    def restored(self, rows: "DataFrame") -> "DataFrame":
        """Records of the source, and of the policy's topics, as the steps get them."""
        show_headers = self.source_option("includeHeaders", "false").lower() == "true"
        if self.ladder is not None and not isinstance(self.pipeline.source, Topic):
            return as_records(rows)
        if self.ladder is not None:
            return restore(rows, self.ladder, self.pipeline.name, show_headers=show_headers)
        return rows if show_headers or not isinstance(self.pipeline.source, Topic) else rows.drop("headers")

    def table_opener(self) -> "Callable[[SparkSession], Mapping[str, DataFrame]]":
        """A function that opens the tables of each batch; it keeps those that are refreshed on a schedule."""
        kept = RefreshedTables()
        return lambda spark: open_tables(spark, self.pipeline, self.connection, kept)

    def results(
        self, rows: "DataFrame", tables: Mapping[str, "DataFrame"], materialize: Materialize = lambda made: made
    ) -> "DataFrame":
        """`rows` after all steps. With a policy, also those that failed, with `_record` and `_error`.

        Without one, a failed row stops the query.
        """
        if self.ladder is None:
            return stop_at_failed(self._run(rows, tables, materialize, on_failed=stop_at_failed).rows)
        applied = self._run(rows, tables, materialize)
        _keep_record(self.pipeline, applied)
        made = applied.rows
        if self.limits is not None:
            made = mark_refused(made, topic_sinks(self.pipeline), self.limits)
        if ERROR not in made.columns:
            made = made.withColumn(ERROR, F.lit(None).cast(ERROR_TYPE))
        if RECORD not in made.columns:
            made = made.withColumn(RECORD, F.lit(None).cast(rows.schema[RECORD].dataType))
        if self._has_topics_only:
            # First, because steps may leave several columns of one name, which topics do not get.
            made = output_rows(made, topic_sinks(self.pipeline)).select(*OUTPUT_COLUMNS, RECORD, ERROR)
        for failed in applied.set_aside:
            made = made.unionByName(failed, allowMissingColumns=True)
        return made

    def for_topics(self, results: "DataFrame") -> "DataFrame":
        """The records that topics get of `results`."""
        topics = topic_sinks(self.pipeline)
        if self.ladder is None:
            records = output_rows(results, topics).drop(RECORD)
            return records if "headers" in results.columns else records.drop("headers")
        if not topics:
            failed = results.where(F.col(ERROR).isNotNull()).withColumn("value", F.lit(None))
            named = output_rows(failed, [Topic(("",))])
        else:
            named = results if self._has_topics_only else output_rows(results, topics)
        return route(named, self.ladder, self.pipeline.name).drop(RECORD)

    def for_tables(self, results: "DataFrame") -> "DataFrame":
        """The rows that all other sinks get of `results`."""
        well = results if self.ladder is None else results.where(F.col(ERROR).isNull())
        return well.drop(ERROR, RECORD)

    def _run(
        self,
        rows: "DataFrame",
        tables: Mapping[str, "DataFrame"],
        materialize: Materialize,
        on_failed: Callable[["DataFrame", str], "DataFrame"] | None = None,
    ) -> Applied:
        steps = self.pipeline.steps
        return run_steps(steps, rows, tables, materialize, on_failed=on_failed, guard=self.guard, counts_rules=True)

    @property
    def _has_topics_only(self) -> bool:
        return len(topic_sinks(self.pipeline)) == len(self.pipeline.sinks)


def prepare(pipeline: Pipeline, connection: Connection, *, is_apart: bool = False) -> Computation:
    """The computation of a pipeline. The topics of its policy are created if they are missing.

    With `is_apart`, functions of rows run in processes of their own; see `worker_guard`.
    """
    ladder = ladder_of(pipeline)
    sink = (topic_sinks(pipeline) or [Topic()])[0]
    limits = None
    if ladder is not None:
        sink, limits = _prepare_topics(pipeline, sink, ladder, connection)
    limit_s = None if pipeline.row_timeout is None else milliseconds(pipeline.row_timeout) / 1000
    options = {**sink.options, **connection.options()}
    return Computation(pipeline, ladder, connection, options, Guard(limit_s, is_apart), limits)


def _prepare_topics(
    pipeline: Pipeline, sink: Topic, ladder: Ladder, connection: Connection
) -> tuple[Topic, RecordLimits | None]:
    """Make the ladder's topics if they are not there. Returns `sink` with room for failed records, and its limits."""
    names = pipeline.source.names if isinstance(pipeline.source, Topic) else ()
    with Cluster(connection.client()) as cluster:
        counts = [cluster.partition_count(name) for name in names]
        record_bytes = room_for_failed(cluster, names)
        make_missing(cluster, ladder, max(counts, default=1), record_bytes)
        sinks = topic_sinks(pipeline)
        allowed = request_bytes(sink) or record_bytes
        limits = read_limits(cluster, sinks, sink.options, allowed) if sinks else None
    return with_room(sink, record_bytes), limits


def _keep_record(pipeline: Pipeline, applied: Applied) -> None:
    """The record of each row, if it is needed behind the last step, or can be had for nothing."""
    if getattr(pipeline.on_failure, "keep_order_by_key", False):
        applied.rows = applied.record.in_rows(applied.rows, "it is needed to keep rows in order")
    elif ERROR in applied.rows.columns:
        applied.rows = applied.record.in_rows(applied.rows, "it is needed for rows that fail")
    elif stateful_step(applied.rows) is None:
        # For records that brokers would refuse.
        with suppress(PipelineError):
            applied.rows = applied.record.in_rows(applied.rows, "")
