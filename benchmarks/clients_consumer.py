"""`python -m benchmarks.clients_consumer`: our consumers beside kafka-python's, aiokafka's and confluent-kafka's.

Each client runs in a process of its own and reads the same topic from its beginning, record by record, with its own
defaults; who goes first moves on with each round. The clock runs from the first records to the last, so that no
client's way to its first fetch is counted. Figures are records per second of wall time: median, and lowest to highest
of the rounds. The processor time of the client beside it is what is left to the application.

Values are of one size or, with --varied, of 20 to 180 bytes with keys, so that no client profits from sameness.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.admin import Admin
from benchmarks.client_runs import Rates, finish, in_turn, print_rates, run_child
from benchmarks.tidelog_broker import TidelogBroker, use_source_tree

VALUE_BYTES = 100
CHUNK_RECORDS = 500


@dataclass(frozen=True, slots=True)
class Job:
    """What one child process does."""

    client: str
    servers: str
    topic: str
    partitions: int
    records: int


Count = Callable[[int], bool]
"""Called with the number of new records; returns whether there are more to come."""


def _tidelog(job: Job) -> dict[str, Any]:
    return {"bootstrap_servers": job.servers, "auto_offset_reset": "earliest"}


def _iterate(consumer: Iterable[Any], more: Count) -> None:
    count = 0
    for record in consumer:
        count += record.value is not None
        if count == CHUNK_RECORDS:
            count = 0
            if not more(CHUNK_RECORDS):
                return


async def _iterate_async(consumer: AsyncIterable[Any], more: Count) -> None:
    count = 0
    async for record in consumer:
        count += record.value is not None
        if count == CHUNK_RECORDS:
            count = 0
            if not more(CHUNK_RECORDS):
                return


def run_tidelog_poll(job: Job, more: Count) -> None:
    from tidelog.client import Consumer, TopicPartition

    with Consumer(**_tidelog(job)) as consumer:
        consumer.assign([TopicPartition(job.topic, number) for number in range(job.partitions)])
        going = True
        while going:
            count = 0
            for record in consumer.poll(5):
                count += record.value is not None
            going = more(count)


def run_tidelog_iterate(job: Job, more: Count) -> None:
    from tidelog.client import Consumer, TopicPartition

    with Consumer(**_tidelog(job)) as consumer:
        consumer.assign([TopicPartition(job.topic, number) for number in range(job.partitions)])
        _iterate(consumer, more)


async def run_tidelog_async_poll(job: Job, more: Count) -> None:
    from tidelog.client import AsyncConsumer, TopicPartition

    async with AsyncConsumer(**_tidelog(job)) as consumer:
        await consumer.assign([TopicPartition(job.topic, number) for number in range(job.partitions)])
        going = True
        while going:
            count = 0
            for record in await consumer.poll(5):
                count += record.value is not None
            going = more(count)


async def run_tidelog_async_iterate(job: Job, more: Count) -> None:
    from tidelog.client import AsyncConsumer, TopicPartition

    async with AsyncConsumer(**_tidelog(job)) as consumer:
        await consumer.assign([TopicPartition(job.topic, number) for number in range(job.partitions)])
        await _iterate_async(consumer, more)


def run_kafka_python(job: Job, more: Count) -> None:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=job.servers, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([TopicPartition(job.topic, number) for number in range(job.partitions)])
    going = True
    while going:
        count = 0
        for records in consumer.poll(timeout_ms=5000).values():
            for record in records:
                count += record.value is not None
        going = more(count)
    consumer.close()


def run_kafka_python_iterate(job: Job, more: Count) -> None:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=job.servers, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([TopicPartition(job.topic, number) for number in range(job.partitions)])
    _iterate(consumer, more)
    consumer.close()


async def run_aiokafka(job: Job, more: Count) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=job.servers, auto_offset_reset="earliest", enable_auto_commit=False)
    await consumer.start()
    consumer.assign([TopicPartition(job.topic, number) for number in range(job.partitions)])
    going = True
    while going:
        count = 0
        for records in (await consumer.getmany(timeout_ms=5000)).values():
            for record in records:
                count += record.value is not None
        going = more(count)
    await consumer.stop()


async def run_aiokafka_iterate(job: Job, more: Count) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=job.servers, auto_offset_reset="earliest", enable_auto_commit=False)
    await consumer.start()
    consumer.assign([TopicPartition(job.topic, number) for number in range(job.partitions)])
    await _iterate_async(consumer, more)
    await consumer.stop()


def run_confluent(job: Job, more: Count) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": job.servers, "group.id": "bench", "enable.auto.commit": False, "log_level": 0}
    )
    consumer.assign([TopicPartition(job.topic, number, 0) for number in range(job.partitions)])
    going = True
    while going:
        count = 0
        for message in consumer.consume(CHUNK_RECORDS, 5):
            count += message.value() is not None
        going = more(count)
    consumer.close()


CLIENTS: dict[str, Callable[[Job, Count], Awaitable[None] | None]] = {
    "tidelog Consumer.poll": run_tidelog_poll,
    "tidelog Consumer, iterated": run_tidelog_iterate,
    "tidelog AsyncConsumer.poll": run_tidelog_async_poll,
    "tidelog AsyncConsumer, iterated": run_tidelog_async_iterate,
    "kafka-python poll": run_kafka_python,
    "kafka-python, iterated": run_kafka_python_iterate,
    "aiokafka getmany": run_aiokafka,
    "aiokafka, iterated": run_aiokafka_iterate,
    "confluent-kafka consume": run_confluent,
}


class Stopwatch:
    """Runs from the first records to the last."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._seen = self._first = 0
        self._started: tuple[float, float] | None = None
        self.result: Rates | None = None

    def count(self, records: int) -> bool:
        now = time.perf_counter(), time.process_time()
        if self._started is None:
            if not records:
                return True
            self._started = now
            self._first = records
        self._seen += records
        # The last few records may share a chunk with nothing, so that who iterates stops a chunk early.
        if self._seen + CHUNK_RECORDS <= self._records:
            return True
        counted = self._seen - self._first
        self.result = {
            "wall": counted / (now[0] - self._started[0]),
            "cpu": counted / (now[1] - self._started[1]),
        }
        return False


def run_job(job: Job) -> Rates:
    """Run one job in this process."""
    stopwatch = Stopwatch(job.records)
    finish(CLIENTS[job.client](job, stopwatch.count))
    assert stopwatch.result is not None, f"{job.client} ended before the last record"
    return stopwatch.result


def fill(servers: str, topic: str, records: int, *, is_varied: bool) -> None:
    """Write the topic that all read."""
    from tidelog.client import Producer

    draw = random.Random(1)
    with Producer(bootstrap_servers=servers, linger_ms=100) as producer:
        for number in range(records):
            size = draw.randrange(20, 180) if is_varied else VALUE_BYTES
            producer.send(topic, bytes(size), b"key-%d" % number if is_varied else None)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients_consumer", description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--varied", action="store_true", help="values of many sizes, with keys")
    parser.add_argument("--client", action="append", choices=sorted(CLIENTS))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    use_source_tree()
    if options.child:
        print(json.dumps(run_job(Job(**json.loads(options.child)))))
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory,
        TidelogBroker(Path(directory), {}) as broker,
    ):
        with Admin.connect(broker.address) as admin:
            admin.create("bench", options.partitions)
        fill(broker.bootstrap_servers, "bench", options.records, is_varied=options.varied)
        report(options, broker.bootstrap_servers)
    return 0


def report(options: argparse.Namespace, servers: str) -> None:
    names = options.client or list(CLIENTS)

    def measure(name: str) -> Rates:
        job = Job(name, servers, "bench", options.partitions, options.records)
        return run_child("benchmarks.clients_consumer", job)

    found = in_turn(names, options.rounds, measure)
    sizes = "20 to 180 bytes, with keys" if options.varied else f"{VALUE_BYTES} bytes"
    print(f"\n{options.records:,} records of {sizes}, {options.partitions} partitions:\n")
    print_rates(found)


if __name__ == "__main__":
    sys.exit(main())
