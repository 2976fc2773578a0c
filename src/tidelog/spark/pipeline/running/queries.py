"""A pipeline as queries of Spark. All have one shape: the source, the steps, what writes.

Which queries: one for each sink, where all topics are one, because each sink is done with a batch for itself. With a
policy one for all, because a row that fails now may succeed when the batch is repeated, and must not be in two places.

The steps are part of the streaming plan, which can keep state over batches and is planned by Spark as a whole. They run
in `BatchEngine` instead, batch by batch, in four cases:

    a table is refreshed         a plan keeps the tables that it started with
    order is kept by key         which rows wait depends on those of the batch before
    failed rows are set aside    a function of DataFrames comes after a step that can fail: its rows are read twice, and
                                 must be computed once. With state, the plan computes them twice (see `checks.state`)
    a policy, and other sinks    results are kept beside the checkpoint until every sink has them. With state, which
                                 only a plan can have, the plan computes them, and they are kept all the same

An expectation with a limit (`fail_above`) leaves the steps in the plan, and has the batch written by `BatchEngine`,
once it knows how many rows fail.

What writes is a format, if Spark can write it in this mode without a function of ours: `tidelog`, as the steps are in
the plan, and files. Declarative Pipelines and Spark Connect allow nothing else. `BatchEngine` writes all the rest:
tables, functions of users, topics in update mode (which Spark refuses to Python sinks), and what it has computed.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.spark.internals import context_of
from tidelog.spark.pipeline.checks.refusals import Trait, refused, why_engine
from tidelog.spark.pipeline.checks.state import check_state
from tidelog.spark.pipeline.definition.connection import Connection
from tidelog.spark.pipeline.definition.endpoints import Files, Sink, Topic
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError, topic_sinks
from tidelog.spark.pipeline.definition.steps import has_limits
from tidelog.spark.pipeline.running.batch_counts import BatchCounts
from tidelog.spark.pipeline.running.batch_order import open_order
from tidelog.spark.pipeline.running.computing import Computation, prepare
from tidelog.spark.pipeline.running.engine import BatchEngine
from tidelog.spark.pipeline.running.opening import open_stream, open_streams, open_tables
from tidelog.spark.pipeline.running.refreshing import has_refreshed
from tidelog.spark.pipeline.running.sinks import file_stream, topic_of, topic_stream
from tidelog.spark.pipeline.running.staged import StagedRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def open_queries(
    pipeline: Pipeline,
    spark: "SparkSession",
    connection: Connection,
    *,
    is_apart: bool = False,
    counts: BatchCounts | None = None,
) -> "list[DataStreamWriter]":
    """The queries of a pipeline, named, with their checkpoints. Mistakes that only Spark can find are raised here.

    The first query notes in `counts` what expectations find in batches that Spark does not report them for.
    """
    computation = prepare(pipeline, connection, is_apart=is_apart)
    planned = plan_rows(computation, spark)
    rows = planned.results if planned.is_computed else planned.rows
    return [
        _writer(
            computation,
            rows,
            sinks,
            checkpoint,
            is_computed=planned.is_computed,
            counts=counts if number == 0 else None,
        )
        .queryName(name)
        .option("checkpointLocation", checkpoint)
        for number, (name, checkpoint, sinks) in enumerate(_sinks_of_queries(pipeline))
    ]


@dataclass(frozen=True, slots=True)
class PlannedRows:
    """The rows that a pipeline reads, what its steps make of them, and whether the streaming plan has the steps."""

    rows: "DataFrame"
    results: "DataFrame"
    is_computed: bool


def plan_rows(computation: Computation, spark: "SparkSession") -> PlannedRows:
    """The plan of a pipeline, which neither reads rows nor asks brokers. Raises what Spark or a step refuses."""
    pipeline, connection = computation.pipeline, computation.connection
    rows = computation.restored(open_stream(spark, pipeline, connection, computation.ladder))
    tables = open_tables(spark, pipeline, connection)
    if pipeline.streams:
        tables = {**tables, **open_streams(spark, pipeline, connection)}
    set_aside: list[DataFrame] = []

    def note(computed: "DataFrame") -> "DataFrame":
        set_aside.append(computed)
        return computed

    results = computation.results(rows, tables, note)
    has_state = check_state(pipeline, results)
    is_batchwise = has_refreshed(pipeline) or _is_ordered(computation)
    is_computed = has_state or not (is_batchwise or _is_staged(computation) or set_aside)
    assert not (has_state and is_batchwise), "refused by check_state"
    if topic_sinks(pipeline) and not is_computed:
        computation.for_topics(results)  # raises for columns that are missing, before the first batch does
    return PlannedRows(rows, results, is_computed)


def _sinks_of_queries(pipeline: Pipeline) -> list[tuple[str, str, tuple[Sink, ...]]]:
    """The name of each query, its checkpoint, and the sinks it writes."""
    places = pipeline.checkpoint_paths
    written = pipeline.written_sinks if pipeline.on_failure is None else [pipeline.sinks]
    names = [pipeline.name if len(places) == 1 else f"{pipeline.name}-{number + 1}" for number in range(len(places))]
    return list(zip(names, places, written, strict=True))


def _writer(
    computation: Computation,
    rows: "DataFrame",
    sinks: tuple[Sink, ...],
    checkpoint: str,
    *,
    is_computed: bool,
    counts: BatchCounts | None,
) -> "DataStreamWriter":
    pipeline = computation.pipeline
    topics = [sink for sink in sinks if isinstance(sink, Topic)]
    mode = pipeline.output_mode
    if isinstance(sinks[0], Files):
        return file_stream(computation.for_tables(rows), sinks[0]).outputMode(mode)
    if is_computed and len(topics) == len(sinks) and mode != "update" and not has_limits(pipeline.steps):
        topic = topic_of(topics) if computation.ladder is None else None
        return topic_stream(computation.for_topics(rows), computation.options, topic).outputMode(mode)
    if context_of(rows.sparkSession) is None:
        traits = {Trait.ENGINE: why_engine(pipeline, sinks, is_computed=is_computed), Trait.CONNECT: "Spark Connect"}
        ((_, reason),) = refused(traits)
        raise PipelineError(f"pipeline {pipeline.name!r} cannot run in Spark Connect: {reason}")
    engine = BatchEngine(
        computation,
        sinks,
        rows.sparkSession,
        is_computed=is_computed,
        staged=StagedRows(checkpoint) if _is_staged(computation) else None,
        order=open_order(computation, checkpoint),
        counts=counts,
    )
    return rows.writeStream.outputMode(mode).foreachBatch(engine.process)


def _is_ordered(computation: Computation) -> bool:
    return computation.ladder is not None and computation.ladder.keeps_order


def _is_staged(computation: Computation) -> bool:
    pipeline = computation.pipeline
    return computation.ladder is not None and len(topic_sinks(pipeline)) < len(pipeline.sinks)
