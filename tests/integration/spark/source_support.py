"""What the tests of the source share: topics with something in them, and queries that run to their end."""

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidelog.client import Admin, NewTopic

SECONDS = 60.0
START_MS = 1_700_000_000_000
_numbers = itertools.count(1)


def make_topic(servers: str, partitions: int = 1, prefix: str = "topic", **configs: str) -> str:
    """A topic that no other test uses; underscores in settings stand for dots. Records may be old and stay."""
    name = f"{prefix}-{next(_numbers)}"
    settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in configs.items()}
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, partitions, configs=settings)])
    return name


def send(
    servers: str,
    topic: str,
    numbers: Iterable[int],
    partition: int = 0,
    *,
    key: Callable[[int], bytes] = lambda number: b"k%d" % number,
    **settings: Any,
) -> None:
    """Records with the values of `numbers`, a second apart."""
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "linger.ms": 5, **settings})
    for number in numbers:
        producer.produce(topic, b"%d" % number, key(number), partition, timestamp=START_MS + 1000 * number)
    assert producer.flush(SECONDS) == 0


def reading(spark: SparkSession, servers: str, **options: str) -> DataFrame:
    """A batch."""
    return spark.read.format("tidelog").options(**_named(servers, options)).load()


def streaming(spark: SparkSession, servers: str, **options: str) -> DataFrame:
    """A stream."""
    return spark.readStream.format("tidelog").options(**_named(servers, options)).load()


def values(rows: Iterable[Row]) -> list[int]:
    """The numbers that `send` sent."""
    return [int(row.value) for row in rows]


class Collected:
    """A sink that keeps the values of every micro-batch, and fails on request."""

    def __init__(self) -> None:
        self.batches: dict[int, list[int]] = {}
        self.failing_batch: int | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        rows = batch.select("value").collect()
        if batch_id == self.failing_batch:
            raise RuntimeError(f"batch {batch_id} fails on purpose")
        self.batches[batch_id] = values(rows)

    @property
    def all(self) -> list[int]:
        return sorted(itertools.chain.from_iterable(self.batches.values()))

    def start(self, stream: DataFrame, checkpoint: Path, **trigger: Any) -> StreamingQuery:
        writer = stream.writeStream.foreachBatch(self).option("checkpointLocation", str(checkpoint))
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    def run(self, stream: DataFrame, checkpoint: Path) -> StreamingQuery:
        """Everything that there is now. Raises what the query fails with."""
        query = self.start(stream, checkpoint)
        assert query.awaitTermination(int(SECONDS))
        return query


def wait_until(condition: Callable[[], bool], what: str, query: StreamingQuery | None = None) -> None:
    """Wait for a condition; a query that fails meanwhile fails the test."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        failure = None if query is None else query.exception()
        if failure is not None:
            raise failure
        time.sleep(0.02)


def _named(servers: str, options: Mapping[str, str]) -> dict[str, str]:
    """Options with double underscores for dots."""
    given = {name.replace("__", "."): value for name, value in options.items()}
    return {"kafka.bootstrap.servers": servers, **given}
