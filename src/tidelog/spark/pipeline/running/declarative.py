"""A pipeline inside Spark Declarative Pipelines: its sink as a sink, its source and steps as the flow into it.

    # transformations/orders.py, run by `spark-pipelines run`
    from orders import pipeline
    from tidelog.spark.pipeline import declare

    declare(pipeline)

There, Spark decides when to run (everything that is available, once) and where checkpoints are; the pipeline's trigger
and checkpoint are not used. A pipeline whose batches need a function of their own cannot be declared.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from tidelog.spark.pipeline.applying.chain import needs_setting_aside
from tidelog.spark.pipeline.checks.refusals import Trait, refused, traits_of
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError, topic_sinks
from tidelog.spark.pipeline.definition.steps import has_limits
from tidelog.spark.pipeline.failing.routing import Ladder, ladder_of
from tidelog.spark.pipeline.running.computing import prepare
from tidelog.spark.pipeline.running.opening import open_stream, open_tables
from tidelog.spark.pipeline.running.sinks import placed, topic_of


def declare(pipeline: Pipeline, *, bootstrap_servers: str | None = None) -> None:
    """Add `pipeline` to the declarative pipeline whose files Spark is reading."""
    connection = pipeline.connection(bootstrap_servers)
    _refuse(pipeline, ladder_of(pipeline))
    computation = prepare(pipeline, connection)
    topic = topic_of(topic_sinks(pipeline)) if computation.ladder is None else None
    name = "".join(letter if letter.isalnum() else "_" for letter in pipeline.name)
    named = {} if topic is None else {"topic": topic}
    dp.create_sink(f"{name}_sink", "tidelog", {**computation.options, **named})

    # Made here, because a flow's function may not ask for the columns of a DataFrame.
    spark = SparkSession.active()
    read = computation.restored(open_stream(spark, pipeline, connection, computation.ladder))
    results = computation.results(read, open_tables(spark, pipeline, connection))
    rows = placed(computation.for_topics(results), computation.options, topic)

    @dp.append_flow(target=f"{name}_sink", name=f"{name}_flow")
    def flow() -> DataFrame:
        return rows


def _refuse(pipeline: Pipeline, ladder: Ladder | None) -> None:
    traits = {**traits_of(pipeline), Trait.DECLARED: "Declarative Pipelines"}
    is_aside = ladder is not None and (ladder.keeps_order or needs_setting_aside(pipeline.steps))
    if is_aside or has_limits(pipeline.steps):
        traits[Trait.ENGINE] = "its batches need a function"
    for _, reason in refused(traits, Trait.DECLARED):
        raise PipelineError(f"pipeline {pipeline.name!r} cannot be declared: {reason}")
