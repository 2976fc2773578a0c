"""What tests of the consumer share: topics with records in them, members that read, conditions that come true."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from tests.unit.present import present
from tidelog.client import Admin, AsyncConsumer, ConsumerRecord, NewTopic, Producer, RebalanceListener, TopicPartition
from tidelog.records.compression import Codec

PATIENCE_S = 20.0
_numbers = itertools.count()

# Sessions of a moment, so that tests of their end need not wait.
GROUP_SETTINGS = {"group.min.session.timeout.ms": "100", "group.initial.rebalance.delay.ms": "0"}


class Cluster:
    """Where a test reads and writes; ours or Apache's."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def topic(self, partitions: int = 1, *, prefix: str = "t", **configs: str) -> str:
        """A new topic of its own name."""
        name = f"{prefix}{time.time_ns() % 10**9}-{next(_numbers)}"
        settings = {each.replace("_", "."): configs[each] for each in configs}
        with Admin(bootstrap_servers=self.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name, partitions, 1, settings)])
        return name

    def group(self) -> str:
        """A group of its own."""
        return f"g{time.time_ns() % 10**9}-{next(_numbers)}"

    def write(
        self,
        topic: str,
        values: Iterable[bytes | str | int],
        *,
        partition: int | None = None,
        codec: Codec = Codec.NONE,
        timestamp_ms: int | None = None,
    ) -> None:
        """Records with these values; with `partition` none they are spread by value."""
        settings = {
            "bootstrap.servers": self.bootstrap_servers,
            "compression.type": codec.name.lower(),
            "batch.size": 4096,
            "linger.ms": 1000,
        }
        with Producer(settings) as producer:
            for value in values:
                data = value if isinstance(value, bytes) else str(value).encode()
                key = data if partition is None else None
                producer.send(topic, data, key, partition=partition, timestamp_ms=timestamp_ms)
            producer.flush(PATIENCE_S)
            assert not producer.metrics().records_failed

    def settings(self, **more: Any) -> dict[str, Any]:
        """Settings of a consumer that begins at the beginning."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 50,
            "retry_backoff_ms": 20,
            **more,
        }

    @asynccontextmanager
    async def consumer(self, **more: Any) -> AsyncIterator[AsyncConsumer]:
        """A consumer, closed in the end."""
        async with AsyncConsumer(**self.settings(**more)) as consumer:
            yield consumer


def at(topic: str, partition: int = 0) -> TopicPartition:
    """A partition."""
    return TopicPartition(topic, partition)


def values(records: Iterable[ConsumerRecord]) -> list[str]:
    """The values of records as text."""
    return [present(record.value).decode() for record in records]


async def read(consumer: AsyncConsumer, count: int, patience_s: float = PATIENCE_S) -> list[ConsumerRecord]:
    """The next `count` records, or more if they came together."""
    records: list[ConsumerRecord] = []
    deadline = time.monotonic() + patience_s
    while len(records) < count:
        records.extend(await consumer.poll(0.5))
        assert time.monotonic() < deadline, f"{len(records)} of {count} records came: {values(records)[-5:]}"
    return records


async def polling_until(
    consumers: Iterable[AsyncConsumer], condition: Callable[[], bool], patience_s: float = PATIENCE_S
) -> list[ConsumerRecord]:
    """Poll all of them, each in a task of its own, until the condition holds; returns what came."""
    came: list[ConsumerRecord] = []
    deadline = time.monotonic() + patience_s

    async def poll(consumer: AsyncConsumer) -> None:
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true"
            came.extend(await consumer.poll(0.05))

    async with asyncio.TaskGroup() as tasks:
        for consumer in consumers:
            tasks.create_task(poll(consumer))
    return came


async def eventually(condition: Callable[[], Awaitable[bool]], patience_s: float = PATIENCE_S) -> None:
    """Wait until an awaited condition holds."""
    deadline = time.monotonic() + patience_s
    while not await condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        await asyncio.sleep(0.02)


class Diary(RebalanceListener):
    """Records the calls of a listener."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, list[int]]] = []

    def on_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self.entries.append(("assigned", sorted(each.partition for each in partitions)))

    def on_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self.entries.append(("revoked", sorted(each.partition for each in partitions)))

    def on_lost(self, partitions: Iterable[TopicPartition]) -> None:
        self.entries.append(("lost", sorted(each.partition for each in partitions)))
