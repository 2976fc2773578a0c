"""`python -m benchmarks.clients_producer`: our producers beside kafka-python's, aiokafka's and confluent-kafka's.

Each client runs in a process of its own against one broker, one after the other, round after round; who goes first
moves on with each round. A run sends records one by one through the client's ordinary call and ends with a flush, when
everything is acknowledged by all in-sync replicas. Two settings: each client's own defaults, and the same batch size
and linger for all. Figures are records per second of wall time: median, and lowest to highest of the rounds. The
processor time of the client beside it is what is left to the application.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.admin import Admin
from benchmarks.client_runs import Rates, finish, in_turn, print_rates, run_child
from benchmarks.processes import BrokerProcess
from benchmarks.tidelog_broker import TidelogBroker, use_source_tree

WARM_UP_RECORDS = 5_000
SAME_BATCH_BYTES = 65_536
SAME_LINGER_MS = 5


@dataclass(frozen=True, slots=True)
class Job:
    """What one child process does."""

    client: str
    servers: str
    topic: str
    records: int
    value_bytes: int
    keys: int
    is_tuned: bool

    def key(self, number: int) -> bytes | None:
        return b"key-%d" % (number % self.keys) if self.keys else None


Clock = Callable[[], None]


def _tidelog(job: Job) -> dict[str, Any]:
    same = {"linger_ms": SAME_LINGER_MS, "batch_size": SAME_BATCH_BYTES} if job.is_tuned else {}
    return {"bootstrap_servers": job.servers, "acks": "all", **same}


def _send(producer: Any, job: Job, start: Clock) -> None:
    value = bytes(job.value_bytes)
    for count in (WARM_UP_RECORDS, job.records):
        for number in range(count):
            producer.send(job.topic, value, job.key(number))
        producer.flush()
        start()


async def _send_async(producer: Any, job: Job, start: Clock) -> None:
    value = bytes(job.value_bytes)
    for count in (WARM_UP_RECORDS, job.records):
        for number in range(count):
            await producer.send(job.topic, value, job.key(number))
        await producer.flush()
        start()


async def run_tidelog_async(job: Job, start: Clock) -> None:
    from tidelog.client import AsyncProducer

    async with AsyncProducer(**_tidelog(job)) as producer:
        await _send_async(producer, job, start)


def run_tidelog(job: Job, start: Clock) -> None:
    from tidelog.client import Producer

    with Producer(**_tidelog(job)) as producer:
        _send(producer, job, start)


def run_kafka_python(job: Job, start: Clock) -> None:
    from kafka import KafkaProducer

    same = {"linger_ms": SAME_LINGER_MS, "batch_size": SAME_BATCH_BYTES} if job.is_tuned else {}
    producer = KafkaProducer(bootstrap_servers=job.servers, acks="all", **same)
    _send(producer, job, start)
    producer.close()


async def run_aiokafka(job: Job, start: Clock) -> None:
    from aiokafka import AIOKafkaProducer

    same = {"linger_ms": SAME_LINGER_MS, "max_batch_size": SAME_BATCH_BYTES} if job.is_tuned else {}
    producer = AIOKafkaProducer(bootstrap_servers=job.servers, acks="all", enable_idempotence=True, **same)
    await producer.start()
    await _send_async(producer, job, start)
    await producer.stop()


def run_confluent(job: Job, start: Clock) -> None:
    from confluent_kafka import Producer

    same = {"linger.ms": SAME_LINGER_MS, "batch.size": SAME_BATCH_BYTES} if job.is_tuned else {}
    producer = Producer(
        {"bootstrap.servers": job.servers, "acks": "all", "enable.idempotence": True, "log_level": 0, **same}
    )
    value = bytes(job.value_bytes)

    def send(number: int) -> None:
        while True:
            try:
                producer.produce(job.topic, value, job.key(number))
                return
            except BufferError:
                producer.poll(0.01)

    for number in range(WARM_UP_RECORDS):
        send(number)
    producer.flush()
    start()
    for number in range(job.records):
        send(number)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()
    start()


CLIENTS: dict[str, Callable[[Job, Clock], Awaitable[None] | None]] = {
    "tidelog Producer": run_tidelog,
    "tidelog AsyncProducer": run_tidelog_async,
    "kafka-python": run_kafka_python,
    "aiokafka": run_aiokafka,
    "confluent-kafka": run_confluent,
}


def run_job(job: Job) -> Rates:
    """Run one job in this process."""
    marks: list[tuple[float, float]] = []

    def mark() -> None:
        marks.append((time.perf_counter(), time.process_time()))

    finish(CLIENTS[job.client](job, mark))
    (wall_start, cpu_start), (wall_end, cpu_end) = marks
    return {"wall": job.records / (wall_end - wall_start), "cpu": job.records / (cpu_end - cpu_start)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients_producer", description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--keys", type=int, default=0, help="how many different keys; 0: none")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--client", action="append", choices=sorted(CLIENTS))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    use_source_tree()
    if options.child:
        print(json.dumps(run_job(Job(**json.loads(options.child)))))
        return 0
    # Ended from outside, it must not leave its broker and its directory behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory,
        TidelogBroker(Path(directory), {"log.retention.bytes": "300000000"}) as broker,
    ):
        for is_tuned in (False, True):
            report(options, broker, is_tuned)
    return 0


def report(options: argparse.Namespace, broker: BrokerProcess, is_tuned: bool) -> None:
    names = options.client or list(CLIENTS)
    topic = f"bench-{int(is_tuned)}"
    with Admin.connect(broker.address) as admin:
        admin.create(topic, options.partitions)

    def measure(name: str) -> Rates:
        servers, size = broker.bootstrap_servers, options.value_bytes
        job = Job(name, servers, topic, options.records, size, options.keys, is_tuned)
        return run_child("benchmarks.clients_producer", job)

    found = in_turn(names, options.rounds, measure)
    title = f"batches of {SAME_BATCH_BYTES} bytes, linger {SAME_LINGER_MS} ms" if is_tuned else "each client's defaults"
    print(f"\n{options.records:,} records of {options.value_bytes} bytes, {options.partitions} partitions, {title}:\n")
    print_rates(found)


if __name__ == "__main__":
    sys.exit(main())
