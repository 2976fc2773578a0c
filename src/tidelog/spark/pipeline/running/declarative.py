"""A pipeline inside Spark Declarative Pipelines: its sink as a sink, its source and steps as the flow into it.

    # transformations/orders.py, run by `spark-pipelines run`
    from orders import pipeline
    from tidelog.spark.pipeline import declare

    declare(pipeline)

There, Spark decides when to run (everything that is available, once) and where checkpoints are; the pipeline's trigger
and checkpoint are not used. A pipeline whose batches need a function of their own cannot be declared.
"""

from collections.abc import Mapping

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from tidelog.spark.pipeline.definition.chain import needs_setting_aside, run_steps
from tidelog.spark.pipeline.definition.connection import Connection
from tidelog.spark.pipeline.definition.endpoints import Topic, with_room
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError, topic_sinks
from tidelog.spark.pipeline.definition.steps import RECORD
from tidelog.spark.pipeline.failing.routing import Ladder, ladder_of
from tidelog.spark.pipeline.running.columns import output_rows, restore, route
from tidelog.spark.pipeline.running.engine import evaluate
from tidelog.spark.pipeline.running.opening import open_stream, open_tables
from tidelog.spark.pipeline.running.run import prepare_topics
from tidelog.spark.pipeline.running.sinks import placed_rows, stop_at_failed, topic_of


def declare(pipeline: Pipeline, *, bootstrap_servers: str | None = None) -> None:
    """Add `pipeline` to the declarative pipeline whose files Spark is reading."""
    connection = pipeline.connection(bootstrap_servers)
    ladder = ladder_of(pipeline)
    sink = _the_topic(pipeline, ladder)
    if ladder is not None:
        sink = with_room(sink, prepare_topics(pipeline, ladder, connection))
    name = "".join(letter if letter.isalnum() else "_" for letter in pipeline.name)
    options = {**sink.options, **connection.options()}
    topic = topic_of(topic_sinks(pipeline))
    if topic is not None and ladder is None:
        options["topic"] = topic
    dp.create_sink(f"{name}_sink", "tidelog", options)

    # Made here, because a flow's function may not ask for the columns of a DataFrame.
    rows = _rows(SparkSession.active(), pipeline, ladder, connection)

    @dp.append_flow(target=f"{name}_sink", name=f"{name}_flow")
    def flow() -> DataFrame:
        return rows


def _rows(spark: SparkSession, pipeline: Pipeline, ladder: Ladder | None, connection: Connection) -> DataFrame:
    rows = open_stream(spark, pipeline, connection, ladder)
    tables = open_tables(spark, pipeline, connection)
    if ladder is not None:
        return _with_policy(pipeline, ladder, rows, tables, connection)
    result = run_steps(pipeline.steps, rows, tables, lambda computed: computed, on_failed=stop_at_failed).rows
    sinks = topic_sinks(pipeline)
    rows = output_rows(stop_at_failed(result), sinks)
    return placed_rows(rows, connection, topic_of(sinks))


def _with_policy(
    pipeline: Pipeline, ladder: Ladder, rows: DataFrame, tables: Mapping[str, DataFrame], connection: Connection
) -> DataFrame:
    restored = restore(rows, ladder, pipeline.name, show_headers=False)
    evaluated = evaluate(pipeline, restored, tables, lambda each: each)
    return placed_rows(route(evaluated, ladder, pipeline.name).drop(RECORD), connection)


def _the_topic(pipeline: Pipeline, ladder: Ladder | None) -> Topic:
    sinks = topic_sinks(pipeline)
    if not sinks or len(sinks) != len(pipeline.sinks):
        raise PipelineError(f"pipeline {pipeline.name!r} cannot be declared: its sinks must be topics")
    if ladder is not None and (ladder.keeps_order or needs_setting_aside(pipeline.steps)):
        raise PipelineError(
            f"pipeline {pipeline.name!r} cannot be declared: its batches need a function (order by key, or functions "
            "of DataFrames after steps that can fail); run it with `tidelog pipeline run`"
        )
    return sinks[0]
