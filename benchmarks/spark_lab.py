"""Where the Spark cases run: one broker of ours, one session with both connectors, topics to read and to write.

Both formats talk to the same broker from the same session, so that the connector is all that differs. Topics to read
are written by Spark's own connector with its defaults, in the batches that its users' topics are made of.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import shutil
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from benchmarks.admin import Admin
from benchmarks.processes import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidelog.client import Consumer
    from tidelog.spark.pipeline import Pipeline

OURS, THEIRS = "tidelog", "kafka"
PARTITIONS = 4
TASKS = 2
KEY_BYTES = 8
STREAM_SECONDS_MAX = 600.0
SESSION_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
}
_JSON = (
    "cast(id % 1000 as string) as key",
    "to_json(named_struct('id', id, 'name', concat('customer ', id), 'amount', id % 977, 'note', 'paid')) as value",
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much the cases move."""

    small_rows: int
    """Rows of 100 bytes in the topic that is read."""
    large_rows: int
    """Rows of 1 KB in the other one."""
    written_rows: int
    """Rows of 100 bytes that a batch write, or a micro-batch, writes."""
    stream_batches: int
    """Micro-batches that a stream is measured over."""
    floor_triggers: int
    """Micro-batches of one row."""
    json_rows: int
    """Rows of JSON, about 70 bytes each, for pipelines, which read them in three micro-batches."""


FULL = Sizes(2_000_000, 250_000, 600_000, 2, 24, 900_000)
QUICK = Sizes(200_000, 25_000, 60_000, 2, 12, 90_000)


class SparkLab:
    """The broker, the session and the topics of one run."""

    def __init__(self, spark: SparkSession, broker: BrokerProcess, scratch: Path, sizes: Sizes) -> None:
        self.spark = spark
        self.broker = broker
        self.sizes = sizes
        self._scratch = scratch
        self._files = scratch / "rows.parquet"
        self._numbers = itertools.count()
        self.rows_of: dict[str, int] = {}

    def fill(self, *, is_theirs_here: bool) -> None:
        """Write the topics that are read, and count what is in them."""
        for topic, rows, value_bytes in (
            ("small", self.sizes.small_rows, 100),
            ("large", self.sizes.large_rows, 1000),
            ("single", self.sizes.floor_triggers, 100),
        ):
            self._fill(topic, self.made_rows(rows, value_bytes), rows, is_theirs_here=is_theirs_here)
        rows = self.sizes.json_rows
        self._fill("json", self.spark.range(0, rows, 1, TASKS).selectExpr(*_JSON), rows, is_theirs_here=is_theirs_here)
        self._make_files()

    def _fill(self, topic: str, frame: DataFrame, rows: int, *, is_theirs_here: bool) -> None:
        partitions = 1 if topic == "single" else PARTITIONS
        with Admin.connect(self.broker.address) as admin:
            admin.create(topic, partitions)
        self.write(THEIRS if is_theirs_here else OURS, frame, {"topic": topic})
        self.rows_of[topic] = rows
        self.require_rows(topic, partitions, rows)

    def require_rows(self, topic: str, partitions: int, expected: int) -> None:
        """Fail unless the log holds what was written."""
        with Admin.connect(self.broker.address) as admin:
            found = sum(admin.offsets(topic, range(partitions)).values())
        if found != expected:
            raise RuntimeError(f"{topic} holds {found} records, but {expected} were written")

    def made_rows(self, rows: int, value_bytes: int, *, has_key: bool = True) -> DataFrame:
        """Rows made by Spark itself, in as many tasks as there are cores."""
        return self.spark.range(0, rows, 1, TASKS).selectExpr(*_columns("id", value_bytes, has_key=has_key))

    def new_topic(self, partitions: int = PARTITIONS) -> str:
        name = f"written-{next(self._numbers)}"
        with Admin.connect(self.broker.address) as admin:
            admin.create(name, partitions)
        return name

    def drop_topic(self, name: str) -> None:
        with Admin.connect(self.broker.address) as admin:
            admin.delete(name)

    def frame(self, kind: str, topic: str, columns: str | None = None) -> DataFrame:
        """A batch query; `columns`, as DDL, are all that is wanted of it."""
        reader = self.spark.read.format(kind).options(**self._options()).option("subscribe", topic)
        if columns is None:
            return reader.load()
        if kind == OURS:
            return reader.schema(columns).load()
        return reader.load().select(*(column.split()[0] for column in columns.split(",")))

    def write(self, kind: str, frame: DataFrame, options: Mapping[str, str]) -> None:
        frame.write.format(kind).options(**self._options(), **options).mode("append").save()

    def topic_stream(self, kind: str, topic: str, per_trigger: int) -> DataFrame:
        """A stream that reads a topic from its beginning, so many offsets at a time."""
        options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(per_trigger)}
        return self.spark.readStream.format(kind).options(**self._options(), **options).load()

    def file_stream(self, *, has_key: bool) -> DataFrame:
        """A stream of rows out of Parquet files, two tasks in each micro-batch, that comes to an end.

        A stream that is stopped in the middle of a batch leaves rows in a producer that later queries share.
        """
        stream = self.spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", TASKS)
        return stream.parquet(str(self._files)).select(*(["key"] if has_key else []), "value")

    @property
    def stream_rows(self) -> int:
        """How many rows that stream has in all; its first micro-batch is not measured."""
        return self.sizes.written_rows * (1 + self.sizes.stream_batches)

    def _make_files(self) -> None:
        files = TASKS * (1 + self.sizes.stream_batches)
        rows = self.spark.range(0, self.stream_rows, 1, files).selectExpr(*_columns("id", 100, has_key=True))
        rows.write.option("compression", "none").parquet(str(self._files))

    def run_to_end(self, frame: DataFrame, kind: str, options: Mapping[str, str]) -> list[Trigger]:
        """Run a stream until it has read all there was when it began."""
        with _Checkpoint(self._scratch) as checkpoint:
            chosen = {**({} if kind == "noop" else self._options()), **options, "checkpointLocation": str(checkpoint)}
            query = frame.writeStream.format(kind).options(**chosen).trigger(availableNow=True).start()
            return _ended(query)

    def run_live(self, kind: str, source_options: Mapping[str, str], sink_options: Mapping[str, str]) -> list[float]:
        """Copy a topic while rows come, one after the other: milliseconds from its send until each can be read.

        Each row is sent when the one before it has arrived, so that no fetch finds more than one.
        """
        from tidelog.client import Consumer, Producer, TopicPartition

        source, sink = self.new_topic(1), self.new_topic(1)
        reading = {**self._options(), "subscribe": source, "startingOffsets": "earliest", **source_options}
        frame = self.spark.readStream.format(kind).options(**reading).load().select("key", "value")
        client = {"bootstrap.servers": self.broker.bootstrap_servers}
        took_ms: list[float] = []
        with _Checkpoint(self._scratch) as checkpoint:
            writing = {**self._options(), "topic": sink, **sink_options, "checkpointLocation": str(checkpoint)}
            query = frame.writeStream.format(kind).options(**writing).trigger(processingTime="0 seconds").start()
            watching = {**client, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
            try:
                with Producer(client) as producer, Consumer(watching) as consumer:
                    consumer.assign([TopicPartition(sink, 0)])
                    for number in range(self.sizes.floor_triggers):
                        began = time.perf_counter()
                        producer.send(source, b"%d" % number, b"key")
                        producer.flush()
                        _await_row(consumer, query)
                        took_ms.append((time.perf_counter() - began) * 1000)
            finally:
                query.stop()
        self.drop_topic(source)
        self.drop_topic(sink)
        return took_ms

    def run_pipeline(self, pipeline: Pipeline) -> list[Trigger]:
        """Run a pipeline, whose checkpoint is replaced, until it has read all there was when it began."""
        from tidelog.spark.pipeline.running.run import start

        with _Checkpoint(self._scratch) as checkpoint:
            pipeline = dataclasses.replace(pipeline, checkpoint=checkpoint)
            running = start(pipeline, self.spark, servers=self.broker.bootstrap_servers, once=True)
            (query,) = running.queries
            return _ended(query)

    def cpu_seconds(self) -> float:
        """Processor time of everything so far: this process, the JVM, its Python workers, the broker."""
        mine = psutil.Process()
        total = 0.0
        for process in (mine, *mine.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += sum(process.cpu_times()[:4])
        return total

    def _options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.broker.bootstrap_servers}


@dataclass(frozen=True, slots=True)
class Trigger:
    """One micro-batch: how many rows it had, how long it took from the trigger to the commit."""

    rows: int
    milliseconds: int


def rows_per_second(triggers: list[Trigger]) -> float:
    """The median over the micro-batches but the first, which starts workers and compiles code."""
    rates = [trigger.rows / trigger.milliseconds * 1000 for trigger in triggers[1:] if trigger.rows]
    if not rates:
        raise RuntimeError(f"nothing to measure in {triggers}")
    return statistics.median(rates)


def median_ms(triggers: list[Trigger]) -> float:
    """The median duration of the second half of the micro-batches."""
    return statistics.median(trigger.milliseconds for trigger in triggers[len(triggers) // 2 :])


def _columns(number: str, value_bytes: int, *, has_key: bool) -> list[str]:
    key = f"lpad(cast({number} as string), {KEY_BYTES}, '0') as key"
    value = f"lpad(cast({number} as string), {value_bytes}, 'abcdefghijklmnopqrstuvwxyz') as value"
    return [key, value] if has_key else [value]


def _ended(query: StreamingQuery) -> list[Trigger]:
    """Wait for the end of a query that ends by itself."""
    try:
        if not query.awaitTermination(int(STREAM_SECONDS_MAX)):
            raise RuntimeError(f"a stream took more than {STREAM_SECONDS_MAX:.0f} s")
    finally:
        query.stop()
    return _triggers(query)


def _await_row(consumer: Consumer, query: StreamingQuery) -> None:
    deadline = time.monotonic() + STREAM_SECONDS_MAX
    while not list(consumer.poll(1.0)):
        failure = query.exception()
        if failure is not None:
            raise failure
        if time.monotonic() > deadline:
            raise RuntimeError(f"a row did not arrive within {STREAM_SECONDS_MAX:.0f} s")


def _triggers(query: StreamingQuery) -> list[Trigger]:
    return [
        Trigger(progress["numInputRows"], progress["durationMs"]["triggerExecution"])
        for progress in query.recentProgress
        if progress["numInputRows"]
    ]


class _Checkpoint:
    """A directory for the checkpoint of one query."""

    _numbers = itertools.count()

    def __init__(self, scratch: Path) -> None:
        self._path = scratch / f"checkpoint-{next(self._numbers)}"

    def __enter__(self) -> Path:
        return self._path

    def __exit__(self, *_error: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)
