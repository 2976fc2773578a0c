"""Opening what a pipeline reads: its source as a stream, its tables as they are now. `running` is the caller."""

from typing import TYPE_CHECKING

from tidelog.spark.pipeline import ladder_source
from tidelog.spark.pipeline.definition import Pipeline
from tidelog.spark.pipeline.endpoints import Delta, Files, Source, Topic
from tidelog.spark.pipeline.routing import Ladder
from tidelog.spark.pipeline.source_options import ladder_options, source_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def open_stream(spark: "SparkSession", pipeline: Pipeline, servers: str, ladder: Ladder | None) -> "DataFrame":
    """The source, and with it the ladder's own topics."""
    source = pipeline.source
    if isinstance(source, Topic):
        options = source_options(source, servers, ladder)
        if ladder is None or not ladder.read_back:
            return spark.readStream.format("tidelog").options(**options).load()
        spark.dataSource.register(ladder_source.LadderSource)
        options |= ladder_options(ladder, pipeline.checkpoint_path)
        return spark.readStream.format(ladder_source.FORMAT).options(**options).load()
    assert isinstance(source, Files), "checked before"
    reader = spark.readStream.format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    return reader.load(source.path) if source.path else reader.load()


def open_tables(spark: "SparkSession", pipeline: Pipeline, servers: str) -> dict[str, "DataFrame"]:
    """The tables to join with, by name. They are read anew for each batch."""
    return {name: _open_table(spark, source, servers) for name, source in pipeline.tables.items()}


def _open_table(spark: "SparkSession", source: Source, servers: str) -> "DataFrame":
    if isinstance(source, Topic):
        options = source_options(source, servers, None)
        return spark.read.format("tidelog").options(**options).load()
    if isinstance(source, Delta):
        from tidelog.spark.pipeline.delta_tables import read_delta

        return read_delta(spark, source)
    reader = spark.read.format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    return reader.load(source.path) if source.path else reader.load()
