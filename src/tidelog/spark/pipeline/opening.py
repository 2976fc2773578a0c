"""Opening what a pipeline reads: its source as a stream, its tables as they are now. `running` is the caller."""

import json
import re
from typing import TYPE_CHECKING

from tidelog.spark.pipeline import ladder_source
from tidelog.spark.pipeline.definition import Pipeline
from tidelog.spark.pipeline.endpoints import Delta, Files, Source, Topic
from tidelog.spark.pipeline.routing import Ladder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READ_DEFAULTS = {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}


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


def source_options(source: Topic, servers: str, ladder: Ladder | None) -> dict[str, str]:
    """The connector's options for a source, the ladder's topics included."""
    given = {name.lower() for name in source.options}
    starts = any(name.startswith("starting") and name != "startingoffsetsbytimestampstrategy" for name in given)
    options = {
        name: value
        for name, value in READ_DEFAULTS.items()
        if name.lower() not in given and not (starts and name == "startingOffsets")
    }
    options |= source.options
    options["kafka.bootstrap.servers"] = servers
    read_back = () if ladder is None else ladder.read_back
    if source.pattern is not None:
        exactly = [f"^{re.escape(name)}$" for name in read_back]
        options["subscribePattern"] = "|".join([f"(?:{source.pattern})", *exactly]) if exactly else source.pattern
    else:
        options["subscribe"] = ",".join([*source.names, *read_back])
    if ladder is not None:
        options["includeHeaders"] = "true"
    return options


def ladder_options(ladder: Ladder, checkpoint: str) -> dict[str, str]:
    """What the ladder's source needs to know besides."""
    options = {ladder_source.DELAYS: json.dumps(dict(zip(ladder.retry_topics, ladder.delays_ms, strict=True)))}
    if ladder.parked_topic is not None:
        options[ladder_source.PARKED] = ladder.parked_topic
        options[ladder_source.GATE] = str(ladder_source.gate_for(checkpoint).path)
    return options


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
