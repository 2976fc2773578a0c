"""Opens the source of a pipeline as a stream, and its tables."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tidelog.spark.internals import context_of
from tidelog.spark.pipeline.definition.connection import Connection
from tidelog.spark.pipeline.definition.endpoints import Delta, Iceberg, Refreshed, Source, Topic, table_source
from tidelog.spark.pipeline.definition.pipeline import Pipeline
from tidelog.spark.pipeline.failing.routing import Ladder
from tidelog.spark.pipeline.failing.source_options import source_options
from tidelog.spark.pipeline.running import ladder_source
from tidelog.spark.pipeline.running.checkpoints import is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidelog.spark.pipeline.running.refreshing import RefreshedTables


def open_stream(
    spark: "SparkSession", pipeline: Pipeline, connection: Connection, ladder: Ladder | None
) -> "DataFrame":
    """The source, and with it the ladder's own topics."""
    source = pipeline.source
    if isinstance(source, Topic):
        options = source_options(source, connection, ladder)
        # With its checkpoint here, the ladder's source says how far the watermark is; see `late_rows`.
        knows_watermark = is_local(pipeline.checkpoint_path) and context_of(spark) is not None
        if ladder is None or not (ladder.retry_topics or knows_watermark):
            return spark.readStream.format("tidelog").options(**options).load()
        spark.dataSource.register(ladder_source.LadderSource)
        options |= ladder_source.ladder_options(ladder, pipeline.checkpoint_path)
        return spark.readStream.format(ladder_source.FORMAT).options(**options).load()
    return _read_stream(spark, source, connection)


def open_streams(spark: "SparkSession", pipeline: Pipeline, connection: Connection) -> dict[str, "DataFrame"]:
    """The further streams to join with, by name."""
    return {name: _read_stream(spark, source, connection) for name, source in pipeline.streams.items()}


def _read_stream(spark: "SparkSession", source: Source, connection: Connection) -> "DataFrame":
    if isinstance(source, Topic):
        return spark.readStream.format("tidelog").options(**source_options(source, connection, None)).load()
    if isinstance(source, Delta | Iceberg):
        from tidelog.spark.pipeline.lake.table_source import FORMAT, TableSource, table_options

        spark.dataSource.register(TableSource)
        return spark.readStream.format(FORMAT).options(**table_options(source)).load()
    reader = spark.readStream.format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    return reader.load(source.path) if source.path else reader.load()


def open_tables(
    spark: "SparkSession", pipeline: Pipeline, connection: Connection, kept: "RefreshedTables | None" = None
) -> Mapping[str, "DataFrame"]:
    """The tables to join with, by name; those that are refreshed on a schedule are in `kept`."""
    return _Tables(spark, pipeline.tables, connection, kept)


class _Tables(Mapping[str, "DataFrame"]):
    """Tables that are opened at each access, and so again for each batch.

    A DataFrame over a Python source is planned once and stays with the offsets it found then, however often it is used.
    """

    def __init__(
        self,
        spark: "SparkSession",
        sources: Mapping[str, Source | Refreshed],
        connection: Connection,
        kept: "RefreshedTables | None",
    ) -> None:
        self._spark = spark
        self._sources = sources
        self._connection = connection
        self._kept = kept

    def __getitem__(self, name: str) -> "DataFrame":
        table = self._sources[name]

        def open_now() -> "DataFrame":
            return _open_table(self._spark, table_source(table), self._connection)

        if isinstance(table, Refreshed) and self._kept is not None:
            return self._kept.get(name, table, open_now)
        return open_now()

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)


def _open_table(spark: "SparkSession", source: Source, connection: Connection) -> "DataFrame":
    if isinstance(source, Topic):
        options = source_options(source, connection, None)
        return spark.read.format("tidelog").options(**options).load()
    if isinstance(source, Delta | Iceberg):
        from tidelog.spark.pipeline.lake.tables import read_table

        return read_table(spark, source)
    reader = spark.read.format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    return reader.load(source.path) if source.path else reader.load()
