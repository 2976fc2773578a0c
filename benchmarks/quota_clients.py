"""Clients that do one thing as fast as a quota lets them: produce, fetch, use request time, change topics, connect."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable
from typing import Any, Final

from benchmarks import apache_kafka
from benchmarks.admin import read_frame
from benchmarks.security_load import API_VERSIONS_FRAME
from tidelog.client import Admin, Consumer, Producer
from tidelog.client.aio.admin.types import NewTopic
from tidelog.wire.errors import ApiError, ErrorCode

FILLED: Final = "filled"
"""What consumers read."""
VALUE: Final = bytes(range(250)) * 4
ADDRESS: Final = "127.0.0.2"
"""Of the client that connects too fast: a quota of the usual address would be everyone's."""
_FETCH_BYTES: Final = 8 << 10
_REPORT_FIELDS_MIN: Final = 5


class Counter:
    """What one client has done: bytes of values that it read, or wrote to a topic of its own; `stop` ends it."""

    def __init__(self, written: Callable[[], int] | None = None) -> None:
        self._done = 0
        self._written = written
        self.stop = threading.Event()

    def add(self, size: int) -> None:
        self._done += size

    @property
    def total(self) -> int:
        return self._done if self._written is None else self._written()


Run = Callable[[str, str, Counter], None]
"""Runs a client at `servers`, under a client id, until it is stopped."""


# --- producers ---


def _produce_confluent(servers: str, client_id: str, counter: Counter) -> None:
    from confluent_kafka import Producer as Confluent

    producer = Confluent(
        {
            "bootstrap.servers": servers,
            "client.id": client_id,
            "linger.ms": 20,
            "queue.buffering.max.messages": 2000,
            # As the others have it. A batch of the usual megabyte is ten seconds' worth: 30 s would see three or four.
            "batch.size": 16_384,
        }
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


def _python_settings(servers: str, client_id: str) -> dict[str, Any]:
    """Of kafka-python and aiokafka."""
    return {
        "bootstrap_servers": servers,
        "client_id": client_id,
        "group_id": client_id,
        "auto_offset_reset": "earliest",
        "max_partition_fetch_bytes": _FETCH_BYTES,
    }


def _consume_kafka_python(servers: str, client_id: str, counter: Counter) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(FILLED, **_python_settings(servers, client_id))
    while not counter.stop.is_set():
        for records in consumer.poll(200).values():
            counter.add(sum(len(record.value) for record in records))
    consumer.close()


def _consume_aiokafka(servers: str, client_id: str, counter: Counter) -> None:
    from aiokafka import AIOKafkaConsumer

    async def run() -> None:
        consumer: Any = AIOKafkaConsumer(FILLED, **_python_settings(servers, client_id))
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


# --- the other quotas ---


def use_time(servers: str, client_id: str, counter: Counter) -> None:
    """Requests that take the broker some time, as fast as it lets them through."""
    with Admin({"bootstrap.servers": servers, "client.id": client_id}) as admin:
        while not counter.stop.is_set():
            admin.list_topics()


def change_topics(servers: str, client_id: str, counter: Counter) -> None:
    """Topics of one partition; a change above the quota is refused and tried again."""
    with Admin({"bootstrap.servers": servers, "client.id": client_id}) as admin:
        while not counter.stop.is_set():
            try:
                admin.create_topics([NewTopic(f"changed-{counter.total}", 1, 1)])
            except ApiError as error:
                if error.code != ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                    raise
                counter.stop.wait(0.05)
            else:
                counter.add(1)


def connect_fast(servers: str, _client_id: str, counter: Counter) -> None:
    """Connections from an address of their own that are answered once; those above the quota are closed."""
    host, _, port = servers.rpartition(":")
    while not counter.stop.is_set():
        with (
            contextlib.suppress(OSError, RuntimeError),
            socket.create_connection((host, int(port)), 10, (ADDRESS, 0)) as sock,
        ):
            sock.sendall(API_VERSIONS_FRAME)
            read_frame(sock)
            counter.add(1)


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
            counter.add(int(float(line.split(",")[2]) * (1 << 20)) - counter.total)
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
