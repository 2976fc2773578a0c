"""Clients that others wrote, with their idempotent producers, while the broker is killed and paused under them.

They retry as they see fit. Whatever they report as delivered must be in the log once, in order.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.effort import usually
from tests.integration.raw_client import RawClient, fetch_records
from tests.integration.writers import Writer, wait_until
from tidelog.testing import Broker

TOPIC = "survivor"
PARTITIONS = 3
MESSAGES = 3000
KILLS = 4


class Load(threading.Thread):
    """A producer of numbered messages, one series for each partition."""

    def __init__(self, produce_all: Callable[[Load], None]) -> None:
        super().__init__(name="load", daemon=True)
        self._produce_all = produce_all
        self.delivered: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._produce_all(self)
        except BaseException as error:
            self.failure = error

    @property
    def delivered_count(self) -> int:
        return sum(map(len, self.delivered.values()))


def with_confluent(servers: str) -> Callable[[Load], None]:
    """librdkafka treats a sequence that the broker does not expect as fatal: this would end the test."""
    from confluent_kafka import Producer

    def produce_all(load: Load) -> None:
        producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 20,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "message.timeout.ms": 60_000,
                "compression.type": "lz4",
                "log_level": 0,
            }
        )

        def on_delivery(error: object, message: object) -> None:
            assert error is None, error
            load.delivered[message.partition()].append(int(message.value()))  # type: ignore[attr-defined]

        for number in range(MESSAGES):
            producer.produce(TOPIC, str(number).encode(), partition=number % PARTITIONS, on_delivery=on_delivery)
            if not number % 50:
                producer.poll(0.01)
        assert producer.flush(60) == 0

    return produce_all


def with_aiokafka(servers: str) -> Callable[[Load], None]:
    import asyncio

    from aiokafka import AIOKafkaProducer

    async def produce(load: Load) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=servers,
            enable_idempotence=True,
            retry_backoff_ms=20,
            request_timeout_ms=5000,
            max_batch_size=500,
        )
        await producer.start()
        try:
            for start in range(0, MESSAGES, 60):
                numbers = range(start, min(start + 60, MESSAGES))
                sent = [await producer.send(TOPIC, b"%d" % n, partition=n % PARTITIONS) for n in numbers]
                for number, future in zip(numbers, sent, strict=True):
                    await future
                    load.delivered[number % PARTITIONS].append(number)
        finally:
            await producer.stop()

    return lambda load: asyncio.run(produce(load))


@pytest.mark.timeout(180)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "client", usually([with_confluent], [with_confluent, with_aiokafka]), ids=["confluent-kafka", "aiokafka"]
)
def test_an_idempotent_producer_survives_kills(tmp_path: Path, client: Callable[[str], Callable[[Load], None]]) -> None:
    source = random.Random(17)
    with Broker(process=True, data_dir=tmp_path) as broker:
        broker.create_topic(TOPIC, PARTITIONS, config={"segment.bytes": 16_384})
        load = Load(client(broker.bootstrap_servers))
        load.start()
        for number in range(KILLS):
            goal = MESSAGES * number // (KILLS + 1)
            wait_until(
                partial(
                    lambda goal: load.failure is not None or load.delivered_count > goal or not load.is_alive(), goal
                ),
                "messages are delivered",
                timeout_s=60,
            )
            time.sleep(source.uniform(0, 0.02))
            broker.kill()
            broker.start()
        load.join(90)
        assert not load.is_alive()
        if load.failure is not None:
            raise load.failure
        assert load.delivered_count == MESSAGES
        with RawClient(broker.port) as reader:
            for index in range(PARTITIONS):
                stored = [int(record.value or b"-1") for record in fetch_records(reader, TOPIC, index)]
                assert stored == list(range(index, MESSAGES, PARTITIONS))


@pytest.mark.timeout(120)
def test_a_pause_is_only_a_pause(tmp_path: Path) -> None:
    """A machine that freezes and thaws: clients wait, nothing is lost, no response is wrong."""
    keys = [(TOPIC, index) for index in range(PARTITIONS)]
    with Broker(process=True, data_dir=tmp_path) as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        writers = [Writer(f"writer-{number}", lambda: broker.port, keys, number) for number in range(3)]
        for writer in writers:
            writer.start()
        for number in range(5):
            goal = 40 * (number + 1)
            wait_until(
                partial(lambda goal: all(w.failure or w.acknowledged_count > goal for w in writers), goal), "progress"
            )
            broker.pause()
            time.sleep(0.1)
            broker.resume()
        for writer in writers:
            writer.stop()
        with RawClient(broker.port) as reader:
            for topic, index in keys:
                promised = sum(entry.count for writer in writers for entry in writer.acknowledged[topic, index])
                assert len(fetch_records(reader, topic, index)) == promised
