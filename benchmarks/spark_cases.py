"""What is measured of the Spark connectors: cases of measures that run in turn, and which are held against which.

A measure takes the `SparkLab` and returns one number. A `Comparison` is a line of the page: two measures of the same
case and round, and what we aim at.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import spark_floor, spark_layers
from benchmarks.cases import Aim, AimKind, Better
from benchmarks.spark_lab import OURS, PARTITIONS, THEIRS, SparkLab, median_ms, rows_per_second

Measure = Callable[[SparkLab], float]

VALUE_ONLY = "value binary"
EXACTLY_ONCE = {"delivery": "exactly-once"}
AT_LEAST_ONCE = {"delivery": "at-least-once"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line: `left` is ours, `right` what it is held against, both names of measures."""

    title: str
    left: str
    right: str | None
    beside: str
    unit: str = "rows/s"
    better: Better = Better.HIGHER
    aim: Aim | None = None


def times(value: float) -> Aim:
    return Aim(AimKind.RATIO, value)


def to_noop(kind: str, topic: str, columns: str | None = None) -> Measure:
    """Read a topic, all of it, and throw the rows away."""

    def run(lab: SparkLab) -> float:
        frame = lab.frame(kind, topic, columns)
        began = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        return lab.rows_of[topic] / (time.perf_counter() - began)

    return run


def to_count(kind: str, topic: str) -> Measure:
    """Read a topic and count its rows, which must be all there are."""

    def run(lab: SparkLab) -> float:
        frame = lab.frame(kind, topic)
        began = time.perf_counter()
        found = frame.count()
        seconds = time.perf_counter() - began
        if found != lab.rows_of[topic]:
            raise RuntimeError(f"{kind} read {found} rows of {topic}, which has {lab.rows_of[topic]}")
        return found / seconds

    return run


def floor_to_noop(columns: str | None = None) -> Measure:
    """Read as many rows from a source that has them ready."""

    def run(lab: SparkLab) -> float:
        spark_floor.register(lab.spark)
        rows = lab.rows_of["small"]
        reader = lab.spark.read.format(spark_floor.FLOOR).option("rows", rows)
        frame = (reader if columns is None else reader.schema(columns)).load()
        began = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        return rows / (time.perf_counter() - began)

    return run


def floor_written(lab: SparkLab) -> float:
    """Write as many rows into a sink that drops them."""
    spark_floor.register(lab.spark)
    rows = lab.sizes.written_rows
    frame = lab.made_rows(rows, 100)
    began = time.perf_counter()
    frame.write.format(spark_floor.FLOOR).mode("append").save()
    return rows / (time.perf_counter() - began)


def files_to_noop(lab: SparkLab) -> float:
    """Read the broker's segment files, without the broker."""
    reader = lab.spark.read.format(OURS).option("path", str(lab.broker.log_dir)).option("subscribe", "small")
    frame = reader.load()
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return lab.rows_of["small"] / (time.perf_counter() - began)


def stream_to_noop(kind: str) -> Measure:
    """Read a topic as a stream, a quarter in each micro-batch."""

    def run(lab: SparkLab) -> float:
        frame = lab.topic_stream(kind, "small", lab.rows_of["small"] // 4)
        return rows_per_second(lab.run_to_end(frame, "noop", {}))

    return run


def written(kind: str, value_bytes: int) -> Measure:
    """Write rows that Spark makes as a batch; rows of 1 KB are a quarter as many."""

    def run(lab: SparkLab) -> float:
        rows = lab.sizes.written_rows // (1 if value_bytes == 100 else 4)
        topic = lab.new_topic()
        frame = lab.made_rows(rows, value_bytes)
        began = time.perf_counter()
        lab.write(kind, frame, {"topic": topic})
        seconds = time.perf_counter() - began
        lab.require_rows(topic, PARTITIONS, rows)
        lab.drop_topic(topic)
        return rows / seconds

    return run


def stream_written(kind: str, options: dict[str, str], *, has_key: bool, tasks: int | None = None) -> Measure:
    """Write a stream of files, the same for all; with `tasks`, its rows are placed into so many of them."""

    def run(lab: SparkLab) -> float:
        topic = lab.new_topic()
        frame = lab.file_stream(has_key=has_key)
        if tasks is not None:
            from tidelog.spark import place_rows

            frame = place_rows(frame, topic=topic, bootstrap_servers=lab.broker.bootstrap_servers, tasks=tasks)
        triggers = lab.run_to_end(frame, kind, {"topic": topic, **options})
        if options is EXACTLY_ONCE:
            _require_committed(lab, topic, lab.stream_rows)
        else:
            lab.require_rows(topic, PARTITIONS, lab.stream_rows)
        lab.drop_topic(topic)
        return rows_per_second(triggers)

    return run


def _require_committed(lab: SparkLab, topic: str, expected: int) -> None:
    """Readers of committed records must see every row once; end offsets count the transactions' markers as well."""
    reader = lab.spark.read.format(OURS).option("kafka.bootstrap.servers", lab.broker.bootstrap_servers)
    committed = reader.option("kafka.isolation.level", "read_committed").option("subscribe", topic)
    found = committed.schema("offset long").load().count()
    if found != expected:
        raise RuntimeError(f"{topic} shows {found} rows, but {expected} were written")


def copied(kind: str, options: dict[str, str]) -> Measure:
    """Copy a topic into another one as a stream: keys keep their partitions, so that nothing is shuffled."""

    def run(lab: SparkLab) -> float:
        topic, rows = lab.new_topic(), lab.rows_of["small"]
        frame = lab.topic_stream(kind, "small", lab.sizes.written_rows).select("key", "value")
        triggers = lab.run_to_end(frame, kind, {"topic": topic, **options})
        if options is EXACTLY_ONCE:
            _require_committed(lab, topic, rows)
        else:
            lab.require_rows(topic, PARTITIONS, rows)
        lab.drop_topic(topic)
        return rows_per_second(triggers)

    return run


def floor(kind: str, sink: str, options: dict[str, str] | None = None) -> Measure:
    """One row in each micro-batch, from a topic; the sink is a topic with one partition, or none."""

    def run(lab: SparkLab) -> float:
        frame = lab.topic_stream(kind, "single", 1).select("key", "value")
        if sink == "noop":
            return median_ms(lab.run_to_end(frame, "noop", {}))
        topic = lab.new_topic(1)
        triggers = lab.run_to_end(frame, sink, {"topic": topic, **(options or {})})
        lab.drop_topic(topic)
        return median_ms(triggers)

    return run


def live(kind: str, sink_options: dict[str, str] | None = None, **source_options: str) -> Measure:
    """Rows that come one by one, from the send to the moment that a consumer of the output has them; the median."""

    def run(lab: SparkLab) -> float:
        settings = {f"kafka.{name.replace('_', '.')}": value for name, value in source_options.items()}
        # The first rows start workers and compile code.
        return statistics.median(lab.run_live(kind, settings, sink_options or {})[3:])

    return run


def floor_ready(lab: SparkLab) -> float:
    """One row in each micro-batch, between a source and a sink that do nothing."""
    spark_floor.register(lab.spark)
    stream = lab.spark.readStream.format(spark_floor.FLOOR).option("rows", lab.sizes.floor_triggers)
    return median_ms(lab.run_to_end(stream.load().select("key", "value"), spark_floor.FLOOR, {}))


CASES: dict[str, dict[str, Measure]] = {
    "read": {
        "read-100": to_noop(OURS, "small"),
        "read-100-jvm": to_noop(THEIRS, "small"),
        "read-files": files_to_noop,
        "read-floor": floor_to_noop(),
    },
    "read-count": {"read-100-count": to_count(OURS, "small"), "read-100-count-jvm": to_count(THEIRS, "small")},
    "read-value": {
        "read-100-value": to_noop(OURS, "small", VALUE_ONLY),
        "read-100-value-jvm": to_noop(THEIRS, "small", VALUE_ONLY),
        "read-floor-value": floor_to_noop(VALUE_ONLY),
    },
    "read-1k": {"read-1k": to_noop(OURS, "large"), "read-1k-jvm": to_noop(THEIRS, "large")},
    "read-1k-value": {
        "read-1k-value": to_noop(OURS, "large", VALUE_ONLY),
        "read-1k-value-jvm": to_noop(THEIRS, "large", VALUE_ONLY),
    },
    "read-stream": {"read-stream": stream_to_noop(OURS), "read-stream-jvm": stream_to_noop(THEIRS)},
    "write": {"write-100": written(OURS, 100), "write-100-jvm": written(THEIRS, 100), "write-floor": floor_written},
    "write-1k": {"write-1k": written(OURS, 1000), "write-1k-jvm": written(THEIRS, 1000)},
    "stream-keys": {
        "stream-keys": stream_written(OURS, AT_LEAST_ONCE, has_key=True),
        "stream-keys-once": stream_written(OURS, EXACTLY_ONCE, has_key=True, tasks=1),
        "stream-keys-once-shuffled": stream_written(OURS, EXACTLY_ONCE, has_key=True, tasks=2),
        "stream-keys-jvm": stream_written(THEIRS, {}, has_key=True),
    },
    "stream-values": {
        "stream-values": stream_written(OURS, AT_LEAST_ONCE, has_key=False),
        "stream-values-once": stream_written(OURS, EXACTLY_ONCE, has_key=False),
    },
    "copy": {
        "copy": copied(OURS, AT_LEAST_ONCE),
        "copy-once": copied(OURS, EXACTLY_ONCE),
        "copy-jvm": copied(THEIRS, {}),
    },
    "layers": spark_layers.MEASURES,
    "floor-source": {"floor-source": floor(OURS, "noop"), "floor-source-jvm": floor(THEIRS, "noop")},
    "floor": {
        "floor": floor(OURS, OURS, AT_LEAST_ONCE),
        "floor-once": floor(OURS, OURS, EXACTLY_ONCE),
        "floor-jvm": floor(THEIRS, THEIRS),
        "floor-ready": floor_ready,
    },
    "live": {
        "live": live(OURS, AT_LEAST_ONCE),
        "live-once": live(OURS, EXACTLY_ONCE),
        "live-jvm": live(THEIRS),
        "live-jvm-10ms": live(THEIRS, fetch_max_wait_ms="10"),
    },
}
"""The measures by case: those of one case run back to back."""

JVM = "Spark's own"
JVM_10MS = "Spark's own, kafka.fetch.max.wait.ms=10"
SELF = "ours, at least once"
READY = "a source of ready batches"
DROPPED = "a sink that drops rows"


def _floor_line(title: str, left: str, right: str, beside: str = JVM) -> Comparison:
    return Comparison(title, left, right, beside, "ms", Better.LOWER, times(1))


def _layer_line(title: str, left: str, right: str | None) -> Comparison:
    return Comparison(f"a pipeline of JSON records: {title}", left, right, "without that" if right else "–")


COMPARISONS: tuple[Comparison, ...] = (
    Comparison("read 100 B values, all columns", "read-100", "read-100-jvm", JVM, aim=times(5)),
    Comparison("read 100 B values, count", "read-100-count", "read-100-count-jvm", JVM, aim=times(5)),
    Comparison("read 100 B values, values alone", "read-100-value", "read-100-value-jvm", JVM, aim=times(5)),
    Comparison("read 1 KB values, all columns", "read-1k", "read-1k-jvm", JVM, aim=times(5)),
    Comparison("read 1 KB values, values alone", "read-1k-value", "read-1k-value-jvm", JVM, aim=times(5)),
    Comparison("read 100 B values as a stream", "read-stream", "read-stream-jvm", JVM, aim=times(5)),
    Comparison("read segment files, 100 B values", "read-files", "read-100", "ours, from the broker"),
    Comparison("read 100 B values, all columns", "read-100", "read-floor", READY),
    Comparison("read 100 B values, values alone", "read-100-value", "read-floor-value", READY),
    Comparison("write 100 B values", "write-100", "write-100-jvm", JVM, aim=times(3)),
    Comparison("write 100 B values", "write-100", "write-floor", DROPPED),
    Comparison("write 1 KB values", "write-1k", "write-1k-jvm", JVM, aim=times(3)),
    Comparison("write a stream with keys, at least once", "stream-keys", "stream-keys-jvm", JVM, aim=times(3)),
    Comparison("write a stream with keys, exactly once", "stream-keys-once", "stream-keys-jvm", JVM),
    Comparison("write a stream with keys, exactly once", "stream-keys-once", "stream-keys", SELF, aim=times(0.7)),
    Comparison("the same, shuffled into two tasks", "stream-keys-once-shuffled", "stream-keys", SELF, aim=times(0.7)),
    Comparison(
        "write a stream without keys, exactly once", "stream-values-once", "stream-values", SELF, aim=times(0.7)
    ),
    Comparison("copy a topic as a stream, at least once", "copy", "copy-jvm", JVM),
    Comparison("copy a topic as a stream, exactly once", "copy-once", "copy-jvm", JVM),
    Comparison("copy a topic as a stream, exactly once", "copy-once", "copy", SELF, aim=times(0.75)),
    _layer_line("the source, into nothing", "layer-source", None),
    _layer_line("and its steps, parse_json and pack_json", "layer-steps", "layer-source"),
    _layer_line("and a topic, at least once", "layer-sink", "layer-steps"),
    _layer_line("and exactly once", "layer-once", "layer-sink"),
    _layer_line("and a policy for rows that fail", "layer-policy", "layer-once"),
    _floor_line("a row that comes alone, p50: sent until read, at least once", "live", "live-jvm"),
    _floor_line("a row that comes alone, p50: sent until read, at least once", "live", "live-jvm-10ms", JVM_10MS),
    _floor_line("a row that comes alone, p50: sent until read, exactly once", "live-once", "live-jvm"),
    _floor_line("a row that comes alone, p50: sent until read, exactly once", "live-once", "live-jvm-10ms", JVM_10MS),
    _floor_line("a micro-batch of one of the rows that are there, p50: source", "floor-source", "floor-source-jvm"),
    _floor_line(
        "a micro-batch of one of the rows that are there, p50: source and sink, at least once", "floor", "floor-jvm"
    ),
    _floor_line(
        "a micro-batch of one of the rows that are there, p50: source and sink, exactly once", "floor-once", "floor-jvm"
    ),
    Comparison(
        "a micro-batch of one of the rows that are there, p50: source and sink, exactly once",
        "floor-once",
        "floor-ready",
        "a source and a sink in Python that do nothing",
        "ms",
        Better.LOWER,
    ),
)
