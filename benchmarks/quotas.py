"""`python -m benchmarks quotas`: the rate that each client reaches under a quota, beside the rate that was set.

All clients run at once, each under a client id with a quota of its own, first as producers, then as consumers. What is
measured begins when the ten seconds' worth that a client may spend at once are over. A bystander without a quota sends
one record at a time, before and meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks import apache_kafka, frames, load, tidelog_broker
from benchmarks.admin import Admin, open_socket
from benchmarks.lab import reply_size
from benchmarks.tidelog_broker import TidelogBroker
from tidelog.client import Admin as OurAdmin
from tidelog.client import Consumer, Producer
from tidelog.client.aio.admin.types import ClientQuotaEntity

FILLED, CALM = "filled", "calm"
VALUE: Final = bytes(range(250)) * 4
PARTITIONS: Final = 4
_FETCH_BYTES: Final = 32 << 10
_REPORT_FIELDS_MIN: Final = 5
_BYSTANDER: Final = frames.CLIENT_ID.decode()


class Counter:
    """Bytes of values, read by one client or written by it to a topic of its own; `stop` tells it to end."""

    def __init__(self, written: Callable[[], int] | None = None) -> None:
        self._read_bytes = 0
        self._written = written
        self.stop = threading.Event()

    def add(self, size: int) -> None:
        self._read_bytes += size

    @property
    def total_bytes(self) -> int:
        return self._read_bytes if self._written is None else self._written()


Run = Callable[[str, str, Counter], None]
"""Runs a client at `servers`, under a client id, until it is stopped."""


def main(arguments: list[str]) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks quotas", description=__doc__)
    parser.add_argument("--rate", type=int, default=400_000, help="bytes a second for each client (%(default)s)")
    parser.add_argument("--seconds", type=float, default=40.0, help="measured seconds (%(default)s)")
    options = parser.parse_args(arguments)
    tidelog_broker.use_source_tree()
    settings = {"num.partitions": str(PARTITIONS), "auto.create.topics.enable": "false"}
    settings["group.initial.rebalance.delay.ms"] = "0"
    with tempfile.TemporaryDirectory() as directory, TidelogBroker(Path(directory), settings) as broker:
        with Admin.connect(broker.address) as admin:
            for name in (FILLED, CALM):
                admin.create(name, PARTITIONS)
        _fill(broker.bootstrap_servers, options.rate * (options.seconds + 150))
        print("| client | produce | deviation | fetch | deviation |\n|---|---:|---:|---:|---:|")
        before = _wait_us(broker.address, 3.0)
        made, meanwhile = _measure(broker, PRODUCERS, "producer_byte_rate", options)
        read, _ = _measure(broker, CONSUMERS, "consumer_byte_rate", options)
        for name in made:
            cells = [f"{each[name] / 1000:,.0f} kB/s | {each[name] / options.rate - 1:+.1%}" for each in (made, read)]
            print(f"| {name} | {' | '.join(cells)} |")
        print(
            f"\nset: {options.rate / 1000:,.0f} kB/s; values of {len(VALUE)} B are counted, the broker counts requests"
        )
        print(f"a bystander without a quota waited {before:.0f} µs (median) before, {meanwhile:.0f} µs meanwhile")
    return 0


def _measure(
    broker: TidelogBroker, clients: dict[str, Run], quota: str, options: argparse.Namespace
) -> tuple[dict[str, float], float]:
    """The rate of each client, and the bystander's median wait."""
    servers = broker.bootstrap_servers
    with OurAdmin(bootstrap_servers=servers) as admin:
        admin.alter_client_quotas(
            {ClientQuotaEntity(client_id=f"{quota}-{name}"): {quota: options.rate} for name in clients}
        )
    is_writing = clients is PRODUCERS
    counters = {
        name: Counter(_written_by(broker.address, f"{quota}-{name}") if is_writing else None) for name in clients
    }
    threads = [
        threading.Thread(target=clients[name], args=(servers, f"{quota}-{name}", counter), daemon=True)
        for name, counter in counters.items()
    ]
    for thread in threads:
        thread.start()
    spent = options.rate * 10
    deadline = time.monotonic() + 120
    while any(counter.total_bytes < spent for counter in counters.values()) and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(3.0)
    began, at_first = time.monotonic(), {name: counter.total_bytes for name, counter in counters.items()}
    wait_us = _wait_us(broker.address, options.seconds)
    seconds = time.monotonic() - began
    rates = {name: (counter.total_bytes - at_first[name]) / seconds for name, counter in counters.items()}
    for counter in counters.values():
        counter.stop.set()
    for thread in threads:
        thread.join(20)
    return rates, wait_us


def _written_by(address: tuple[str, int], topic: str) -> Callable[[], int]:
    """Makes the topic of a producer; returns what counts the bytes in it."""
    with Admin.connect(address) as admin:
        admin.create(topic, PARTITIONS)

    def count() -> int:
        with Admin.connect(address) as admin:
            return sum(admin.offsets(topic, range(PARTITIONS)).values()) * len(VALUE)

    return count


def _wait_us(address: tuple[str, int], seconds: float) -> float:
    with open_socket(address) as sock:
        frame = frames.produce(CALM, 0, frames.batch([b"calm"]), acks=1)
        return load.one_at_a_time(sock, [frame], reply_size(sock, frame), seconds).latency_us(50)


def _fill(servers: str, size_bytes: float) -> None:
    with Producer(bootstrap_servers=servers, client_id=_BYSTANDER) as producer:
        for number in range(int(size_bytes) // len(VALUE)):
            producer.send(FILLED, VALUE, partition=number % PARTITIONS)
        producer.flush()


# --- producers ---


def _produce_confluent(servers: str, client_id: str, counter: Counter) -> None:
    from confluent_kafka import Producer as Confluent

    producer = Confluent(
        {"bootstrap.servers": servers, "client.id": client_id, "linger.ms": 20, "queue.buffering.max.messages": 2000}
    )
    while not counter.stop.is_set():
        try:
            producer.produce(client_id, VALUE)
        except BufferError:
            producer.poll(0.05)
        producer.poll(0)
    producer.purge()


def _produce_kafka_python(servers: str, client_id: str, counter: Counter) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=servers, client_id=client_id, linger_ms=20)
    while not counter.stop.is_set():
        futures = [producer.send(client_id, VALUE) for _ in range(100)]
        for future in futures:
            future.get(120)


def _produce_aiokafka(servers: str, client_id: str, counter: Counter) -> None:
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        async with AIOKafkaProducer(bootstrap_servers=servers, client_id=client_id, linger_ms=20) as producer:
            while not counter.stop.is_set():
                for future in [await producer.send(client_id, VALUE) for _ in range(100)]:
                    await future

    asyncio.run(run())


def _produce_ours(servers: str, client_id: str, counter: Counter) -> None:
    with Producer(bootstrap_servers=servers, client_id=client_id, linger_ms=20) as producer:
        while not counter.stop.is_set():
            for sent in [producer.send(client_id, VALUE) for _ in range(100)]:
                sent.result(120)


def _produce_java(servers: str, client_id: str, counter: Counter) -> None:
    words = ["--topic", client_id, "--num-records", "100000000", "--record-size", str(len(VALUE)), "--throughput", "-1"]
    words += ["--producer-props", f"bootstrap.servers={servers}", f"client.id={client_id}", "linger.ms=20"]
    words += ["buffer.memory=2000000"]
    _watch_java("org.apache.kafka.tools.ProducerPerformance", words, counter)


# --- consumers ---


def _consume_confluent(servers: str, client_id: str, counter: Counter) -> None:
    from confluent_kafka import Consumer as Confluent

    consumer = Confluent(
        {
            "bootstrap.servers": servers,
            "client.id": client_id,
            "group.id": client_id,
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": _FETCH_BYTES,
        }
    )
    consumer.subscribe([FILLED])
    while not counter.stop.is_set():
        for message in consumer.consume(100, 0.2):
            counter.add(len(message.value() or b""))
    consumer.close()


def _consume_kafka_python(servers: str, client_id: str, counter: Counter) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        FILLED,
        bootstrap_servers=servers,
        client_id=client_id,
        group_id=client_id,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=_FETCH_BYTES,
    )
    while not counter.stop.is_set():
        for records in consumer.poll(200).values():
            counter.add(sum(len(record.value) for record in records))
    consumer.close()


def _consume_aiokafka(servers: str, client_id: str, counter: Counter) -> None:
    from aiokafka import AIOKafkaConsumer

    async def run() -> None:
        consumer: Any = AIOKafkaConsumer(
            FILLED,
            bootstrap_servers=servers,
            client_id=client_id,
            group_id=client_id,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=_FETCH_BYTES,
        )
        async with consumer:
            while not counter.stop.is_set():
                found = await consumer.getmany(timeout_ms=200)
                counter.add(sum(len(record.value) for records in found.values() for record in records))

    asyncio.run(run())


def _consume_ours(servers: str, client_id: str, counter: Counter) -> None:
    settings = {"bootstrap.servers": servers, "client.id": client_id, "group.id": client_id}
    settings |= {"auto.offset.reset": "earliest", "max.partition.fetch.bytes": str(_FETCH_BYTES)}
    with Consumer(settings) as consumer:
        consumer.subscribe([FILLED])
        while not counter.stop.is_set():
            counter.add(sum(len(record.value or b"") for record in consumer.poll(0.2)))


def _consume_java(servers: str, client_id: str, counter: Counter) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as file:
        file.write(f"client.id={client_id}\nmax.partition.fetch.bytes={_FETCH_BYTES}\n")
        file.flush()
        words = ["--bootstrap-server", servers, "--topic", FILLED, "--messages", "100000000", "--group", client_id]
        words += ["--consumer.config", file.name, "--show-detailed-stats", "--reporting-interval", "1000"]
        words += ["--hide-header", "--timeout", "600000"]
        _watch_java("org.apache.kafka.tools.ConsumerPerformance", words, counter)


def _watch_java(main_class: str, words: list[str], counter: Counter) -> None:
    """Run one of Kafka's tools; a consumer's reports say how many megabytes it has read."""
    command = [*apache_kafka.tool_command(main_class), *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None, "it is a pipe"

    def end() -> None:
        counter.stop.wait()
        process.kill()

    threading.Thread(target=end, daemon=True).start()
    for line in process.stdout:
        if line.count(",") >= _REPORT_FIELDS_MIN and "records sent" not in line:
            counter.add(int(float(line.split(",")[2]) * (1 << 20)) - counter.total_bytes)
    process.wait()


PRODUCERS: Final[dict[str, Run]] = {
    "confluent-kafka": _produce_confluent,
    "kafka-python": _produce_kafka_python,
    "aiokafka": _produce_aiokafka,
    "Java": _produce_java,
    "tidelog.client": _produce_ours,
}
CONSUMERS: Final[dict[str, Run]] = {
    "confluent-kafka": _consume_confluent,
    "kafka-python": _consume_kafka_python,
    "aiokafka": _consume_aiokafka,
    "Java": _consume_java,
    "tidelog.client": _consume_ours,
}
