"""What the tests ask of a connector, under the options that both know: read, stream, write.

Rows come back as `Row`s in the order of their offsets, streams as the rows of each micro-batch beside the offsets that
Spark wrote into the checkpoint.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery

FORMATS: Final = ("kafka", "tidelog")
STREAM_SECONDS_MAX: Final = 60

Offsets = dict[str, dict[str, int]]
Header = tuple[str, bytes | None]
TUNING: Final = {"kafka": {"kafka.fetch.max.wait.ms": "20"}, "tidelog": {}}
"""The JVM's consumer closes only when its last fetch is answered: with the default, half a second a partition."""


class Row(NamedTuple):
    """One row of a source."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_us: int
    timestamp_type: int
    headers: tuple[Header, ...] | None = None


@dataclass(frozen=True, slots=True)
class Streamed:
    """What a stream has done: its micro-batches' rows, and the end offsets of each in the checkpoint."""

    batches: list[list[Row]] = field(default_factory=list)
    checkpoint: list[Offsets] = field(default_factory=list)
    progress: list[tuple[Offsets | None, Offsets | None]] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        return in_order(row for batch in self.batches for row in batch)

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]


class Connector:
    """One of the formats on one broker."""

    def __init__(self, name: str, spark: SparkSession, servers: str) -> None:
        self.name = name
        self.spark = spark
        self.options = {"kafka.bootstrap.servers": servers, **TUNING[name]}

    def frame(self, options: Mapping[str, object]) -> DataFrame:
        return self.spark.read.format(self.name).options(**self.options, **_texts(options)).load()

    def stream_frame(self, options: Mapping[str, object]) -> DataFrame:
        return self.spark.readStream.format(self.name).options(**self.options, **_texts(options)).load()

    def read(self, options: Mapping[str, object]) -> list[Row]:
        """The rows of a batch query."""
        return rows_of(self.frame(options))

    def tasks(self, options: Mapping[str, object]) -> list[int]:
        """How many rows each task of a batch query reads, largest first."""
        counts = self.frame(options).groupBy(functions.spark_partition_id()).count().collect()
        return sorted((count for _, count in counts), reverse=True)

    def stream(self, options: Mapping[str, object], checkpoint: Path) -> Streamed:
        """Run a stream until it has read all there is (AvailableNow)."""
        streamed = Streamed()
        writer = self.stream_frame(options).writeStream.foreachBatch(_collector(streamed.batches))
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        finish(query)
        streamed.checkpoint.extend(offsets_in(checkpoint))
        for progress in query.recentProgress:
            source = progress["sources"][0]
            streamed.progress.append((_offsets(source["startOffset"]), _offsets(source["endOffset"])))
        return streamed

    def write(self, frame: DataFrame, options: Mapping[str, object]) -> None:
        """Write the rows of a batch query."""
        frame.write.format(self.name).options(**self.options, **_texts(options)).mode("append").save()

    def write_stream(
        self, frame: DataFrame, options: Mapping[str, object], checkpoint: Path, mode: str = "append"
    ) -> None:
        """Write a stream until it has come to its end (AvailableNow)."""
        writer = frame.writeStream.format(self.name).options(**self.options, **_texts(options)).outputMode(mode)
        finish(writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start())


def rows_of(frame: DataFrame) -> list[Row]:
    """The rows of a source, whatever columns it has, in the order of topic, partition and offset."""
    columns = [
        "topic",
        "partition",
        "offset",
        "key",
        "value",
        "unix_micros(timestamp)",
        "timestampType",
        "headers" if "headers" in frame.columns else "null",
    ]
    return in_order(_row(values) for values in frame.selectExpr(*columns).collect())


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row[:3])


def _row(values: Sequence[Any]) -> Row:
    topic, partition, offset, key, value, timestamp_us, timestamp_type, headers = values
    if headers is not None:
        headers = tuple((name, None if content is None else bytes(content)) for name, content in headers)
    key = None if key is None else bytes(key)
    value = None if value is None else bytes(value)
    return Row(topic, partition, offset, key, value, timestamp_us, timestamp_type, headers)


def _collector(batches: list[list[Row]]) -> Callable[[DataFrame, int], None]:
    def collect(frame: DataFrame, _batch_id: int) -> None:
        batches.append(rows_of(frame))

    return collect


def finish(query: StreamingQuery) -> None:
    """Wait for the end of a query, and raise what it died of."""
    try:
        assert query.awaitTermination(STREAM_SECONDS_MAX), f"the stream goes on: {query.status}"
    finally:
        query.stop()


def offsets_in(checkpoint: Path) -> list[Offsets]:
    """The end offsets of each micro-batch, as the offset log holds them: after the version and the metadata."""
    logs = [path for path in (checkpoint / "offsets").iterdir() if path.name.isdigit()]
    return [_parsed(path.read_text().splitlines()[2]) for path in sorted(logs, key=lambda path: int(path.name))]


def _parsed(text: str) -> Offsets:
    """The offsets in a text of Spark's.

    Spark's own connector keeps the beginning of a query in a file of its own. A source in Python has no such place, so
    ours says with the end of the first micro-batch where it began.
    """
    return {name: offsets for name, offsets in json.loads(text).items() if not name.startswith("$")}


def _offsets(text: str | None) -> Offsets | None:
    return None if text in (None, "null") else _parsed(text)


def _texts(options: Mapping[str, object]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}
