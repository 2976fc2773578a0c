"""The sink as users see it: streams and batches of a real Spark session into a real broker."""

import itertools
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.integration.spark.sink_checks import judge, read_messages, read_rows
from tests.unit.present import present
from tidelog.client import Producer
from tidelog.client.partitioner import partition_for_key
from tidelog.spark import internals, place_rows, write_each_batch
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

KEY_VALUE = "key binary, value binary"

_numbers = itertools.count()


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"sink-{next(_numbers)}"
    broker.create_topic(name, 4)
    return name


@pytest.fixture
def numbers(spark: SparkSession) -> DataFrame:
    """A hundred numbers a batch, without end; those of a key are all in one of two tasks."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).option("numPartitions", 2).load()
    return source.selectExpr("cast(value % 14 as string) key", "cast(value as string) value")


def sink(rows: DataFrame, broker: Broker, topic: str | None, checkpoint: Path) -> DataStreamWriter:
    writer = rows.writeStream.format("tidelog").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    writer = writer.option("checkpointLocation", str(checkpoint))
    return writer if topic is None else writer.option("topic", topic)


def run_to(query: StreamingQuery, batch_id: int, meanwhile: Callable[[int], None] = lambda _: None) -> None:
    """Let a query commit `batch_id`, then stop it."""
    deadline = time.monotonic() + 200
    reached = -1
    try:
        while reached < batch_id:
            assert time.monotonic() < deadline, f"batch {batch_id} was not committed, only {reached}"
            if not query.isActive:
                raise query.exception() or AssertionError("the query ended")
            progress = query.lastProgress
            if progress is not None and progress["batchId"] > reached:
                reached = progress["batchId"]
                meanwhile(reached)
            time.sleep(0.02)
    finally:
        query.stop()


class TestAStream:
    def test_writes_keys_where_kafka_does_and_in_order_over_restarts(
        self, broker: Broker, topic: str, numbers: DataFrame, tmp_path: Path
    ) -> None:
        """Placed and as they come: keys meet in one partition from both tasks."""
        other = f"{topic}-unplaced"
        broker.create_topic(other, 4)
        placed = place_rows(numbers, topic=topic, bootstrap_servers=broker.bootstrap_servers)
        for name, frame in ((topic, placed), (other, numbers)):
            run_to(sink(frame, broker, name, tmp_path / name).start(), 2)
            run_to(sink(frame, broker, name, tmp_path / name).start(), 4)

            rows = read_rows(broker.bootstrap_servers, name)
            assert judge(rows).is_clean
            assert judge(rows).batches >= 5
            for row in rows:
                assert row.key is not None
                assert row.partition == partition_for_key(row.key.encode(), 4)

    def test_with_a_key_in_two_tasks_is_written_whole_however_many_its_rows_are(
        self, broker: Broker, topic: str, numbers: DataFrame, tmp_path: Path
    ) -> None:
        """Five megabytes a task, more than travels in a message: they lie beside the checkpoint until the commit. What
        a batch left that was stopped in the middle is removed by the next one."""
        rows = numbers.selectExpr("'same' key", "repeat(value, 50000) value")
        run_to(sink(rows, broker, topic, tmp_path).start(), 1)
        left = set((tmp_path / "unplaced").iterdir())
        run_to(sink(rows, broker, topic, tmp_path).start(), 2)

        found = [value for _, key, value, _ in everything(broker, topic) if key == b"same"]
        written = range(max(300, len(found)))  # three batches, and whatever came before the stop
        assert sorted(found) == sorted(str(number).encode() * 50_000 for number in written)
        assert left & set((tmp_path / "unplaced").iterdir()) == set()

    @pytest.mark.long
    def test_with_partitions_that_its_source_has_apart_needs_no_shuffle(
        self, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
    ) -> None:
        """Record for record from topic to topic, partitions kept."""
        source = f"{topic}-source"
        broker.create_topic(source, 4)
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(500):
                producer.send(source, b"%d" % number, b"%d" % (number % 14), headers=[("n", b"%d" % number)])
        records = (
            spark.readStream.format("tidelog")
            .options(subscribe=source, startingOffsets="earliest", includeHeaders=True, maxOffsetsPerTrigger=200)
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .load()
            .drop("topic")
        )
        assert sink(records, broker, topic, tmp_path).trigger(availableNow=True).start().awaitTermination(100)

        there, here = (sorted(everything(broker, name)) for name in (source, topic))
        assert len(here) == 500
        assert here == there

    @pytest.mark.long
    def test_in_complete_mode_adds_all_rows_each_time(
        self, broker: Broker, topic: str, numbers: DataFrame, tmp_path: Path
    ) -> None:
        total = numbers.groupBy().count().selectExpr("cast(count as string) value")
        run_to(sink(total, broker, topic, tmp_path).outputMode("complete").start(), 1)

        assert [row.value for row in sorted(read_rows(broker.bootstrap_servers, topic), key=lambda row: row.value)][
            :2
        ] == [100, 200]

    @pytest.mark.long
    def test_survives_a_broker_that_is_killed_and_restarted(self, numbers: DataFrame, tmp_path: Path) -> None:
        with Broker(process=True) as broker:
            broker.create_topic("out", 4)
            placed = place_rows(numbers, topic="out", bootstrap_servers=broker.bootstrap_servers)

            def crash(batch_id: int) -> None:
                if batch_id in (1, 3):
                    broker.kill()
                    broker.start()

            run_to(sink(placed, broker, "out", tmp_path).start(), 5, crash)

            verdict = judge(read_rows(broker.bootstrap_servers, "out"))
            assert verdict.is_clean, verdict
            assert verdict.batches >= 6


class TestForeachBatch:
    def test_writes_updates_exactly_once(self, broker: Broker, topic: str, numbers: DataFrame, tmp_path: Path) -> None:
        """With keys, in two tasks, and as the documentation has it. The second run gets batch 1 again."""
        counts = numbers.groupBy("key").count().selectExpr("key", "cast(count as string) value")
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic}
        write = write_each_batch(**options)

        def start(*, fails_after: int | None) -> StreamingQuery:
            def write_and_fail(rows: DataFrame, batch_id: int) -> None:
                write(rows, batch_id)
                if batch_id == fails_after:
                    raise RuntimeError("after the write")

            writer = counts.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path))
            return writer.foreachBatch(write_and_fail).start()

        with pytest.raises(StreamingQueryException, match="after the write"):
            start(fails_after=1).awaitTermination(100)
        run_to(start(fails_after=None), 2)

        by_key: dict[str, list[int]] = {}
        for row in read_rows(broker.bootstrap_servers, topic):
            by_key.setdefault(str(row.key), []).append(row.value)
        assert len(by_key) == 14
        for counted in by_key.values():
            assert counted == sorted(set(counted)), "each update is there once, in order"
            assert len(counted) >= 3

    @pytest.mark.long
    def test_may_write_to_several_topics_and_not_twice_to_one(
        self, broker: Broker, topic: str, numbers: DataFrame, tmp_path: Path
    ) -> None:
        other = f"{topic}-other"
        broker.create_topic(other, 4)
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        first, second = write_each_batch(topic=topic, **options), write_each_batch(topic=other, **options)

        def write(rows: DataFrame, batch_id: int) -> None:
            first(rows.coalesce(1), batch_id)
            second(rows.coalesce(1), batch_id)
            if batch_id == 1:
                first(rows.coalesce(1), batch_id)

        query = numbers.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(write).start()
        with pytest.raises(StreamingQueryException, match="was already written in this run"):
            query.awaitTermination(100)

        for name in (topic, other):
            verdict = judge(read_rows(broker.bootstrap_servers, name))
            assert (verdict.batches, verdict.missing, verdict.duplicates) == (2, [], 0)


class TestABatch:
    def test_is_written_with_keys_headers_and_topics(self, spark: SparkSession, broker: Broker, topic: str) -> None:
        other = f"{topic}-other"
        broker.create_topic(other, 2)
        rows = spark.range(3000).selectExpr(
            "cast(id % 7 as string) key",
            "cast(cast(id as string) as binary) value",
            f"if(id % 2 = 0, '{topic}', '{other}') topic",
            "array(named_struct('key', 'id', 'value', cast(cast(id as string) as binary))) headers",
        )
        placed = place_rows(rows, bootstrap_servers=broker.bootstrap_servers)
        write(placed, broker, None, delivery="exactly-once")

        found = everything(broker, topic) + everything(broker, other)
        assert len(found) == 3000
        assert {(value, headers) for _, _, value, headers in found} == {
            (b"%d" % number, (("id", b"%d" % number),)) for number in range(3000)
        }

    def test_may_be_appended_and_not_overwritten(self, spark: SparkSession, broker: Broker, topic: str) -> None:
        rows = spark.range(10).selectExpr("cast(id as string) value")
        write(rows, broker, topic, mode="append")
        assert len(everything(broker, topic)) == 10

        with pytest.raises(PySparkException, match=r"use either the .Append."):  # Spark's own word, for any Python sink
            write(rows, broker, topic, mode="errorifexists")
        with pytest.raises(PySparkException, match="records are only added to a topic"):
            write(rows, broker, topic, mode="overwrite")

    def test_is_refused_before_anything_is_written(self, spark: SparkSession, broker: Broker, topic: str) -> None:
        with pytest.raises(PySparkException, match="the column 'value' is bigint: it must be string or binary"):
            write(spark.range(1).withColumnRenamed("id", "value"), broker, topic)
        with pytest.raises(PySparkException, match="1 of 1 rows have no topic"):
            write(spark.sql("select 'v' value, cast(null as string) topic"), broker, None)


class TestPlacing:
    def test_gives_each_task_partitions_of_its_own(self, spark: SparkSession, broker: Broker, topic: str) -> None:
        rows = spark.range(0, 1000, 1, 3).selectExpr("cast(id as string) key", "cast(id as string) value")
        placed = place_rows(rows, topic=topic, bootstrap_servers=broker.bootstrap_servers, tasks=3)

        found = placed.selectExpr("key", "partition", "spark_partition_id() task").collect()
        assert {row.task for row in found} == {0, 1, 2}
        assert {row.partition % 3 for row in found if row.task == 1} == {1}
        assert all(row.partition == partition_for_key(row.key.encode(), 4) for row in found)

    @pytest.mark.parametrize("kind", ["binary", "string"])
    @pytest.mark.long
    def test_chooses_in_the_jvm_what_kafka_chooses(
        self, spark: SparkSession, broker: Broker, topic: str, kind: str
    ) -> None:
        """Bytes that are no UTF-8 among them, in columns of either type."""
        keys = [bytes(random.Random(number).randbytes(number % 23)) for number in range(600)]
        rows = spark.createDataFrame([(each, b"v%d" % at) for at, each in enumerate([*keys, *[None] * 50])], KEY_VALUE)
        placed = place_rows(
            rows.withColumn("key", functions.col("key").cast(kind)),
            topic=topic,
            bootstrap_servers=broker.bootstrap_servers,
            tasks=3,
        )

        assert "PythonUDF" not in placed._jdf.queryExecution().optimizedPlan().toString()
        found = placed.selectExpr("cast(key as binary) key", "partition").collect()
        with_key = [(bytes(row.key), row.partition) for row in found if row.key is not None]
        assert sorted(with_key) == sorted((key, partition_for_key(key, 4)) for key in keys)
        assert {row.partition for row in found if row.key is None} == {0, 1, 2, 3}

    @pytest.mark.long
    def test_asks_python_where_the_jvm_cannot_be_asked(
        self, spark: SparkSession, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(internals, "_HASHER", "org.example.NotThere")
        rows = spark.range(0, 100, 1, 3).selectExpr("cast(id as string) key", "cast(id as string) value")
        placed = place_rows(rows, topic=topic, bootstrap_servers=broker.bootstrap_servers, tasks=2)

        assert all(row.partition == partition_for_key(row.key.encode(), 4) for row in placed.collect())

    @pytest.mark.long
    def test_keeps_partitions_that_are_given(self, spark: SparkSession, broker: Broker, topic: str) -> None:
        rows = spark.sql("select 'k' key, 'v' value, 3 partition union all select 'k', 'v', null")
        placed = place_rows(rows, topic=topic, bootstrap_servers=broker.bootstrap_servers)

        assert sorted(row.partition for row in placed.collect()) == sorted([3, partition_for_key(b"k", 4)])

    @pytest.mark.long
    def test_moves_nothing_where_nothing_must_be_moved(self, spark: SparkSession, broker: Broker, topic: str) -> None:
        rows = spark.range(0, 100, 1, 3).selectExpr("cast(id as string) key", "cast(id as string) value")
        servers = broker.bootstrap_servers
        one_task = place_rows(rows, topic=topic, bootstrap_servers=servers, tasks=1)
        without_keys = place_rows(rows.select("value"), topic=topic, bootstrap_servers=servers, tasks=3)
        with_keys = place_rows(rows, topic=topic, bootstrap_servers=servers, tasks=2)

        assert [shuffles(each) for each in (one_task, without_keys, with_keys)] == [0, 0, 1]
        for each in (one_task, without_keys, with_keys):
            write(each, broker, topic, delivery="exactly-once")
        assert len(everything(broker, topic)) == 300


def shuffles(rows: DataFrame) -> int:
    """How often a plan moves rows between tasks."""
    plan: str = rows._jdf.queryExecution().executedPlan().toString()
    return plan.count("Exchange ")


def write(rows: DataFrame, broker: Broker, topic: str | None, *, mode: str = "append", **options: str) -> None:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, **({"topic": topic} if topic else {}), **options}
    rows.write.format("tidelog").options(**given).mode(mode).save()


def everything(broker: Broker, topic: str) -> list[tuple[int, Any, Any, Any]]:
    return [
        (present(message.partition()), message.key(), message.value(), tuple(message.headers() or ()))
        for message in read_messages(broker.bootstrap_servers, topic)
    ]
