"""Records that exercise every file kind: what is written, and how it is read back.

`write_samples` fills a running broker through clients neither Kafka nor we wrote; tests compare what comes out,
through Kafka's tools or through the other broker, with the `WrittenLog` it returns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from aiokafka import AIOKafkaProducer
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks import frames
from benchmarks.admin import Admin
from benchmarks.processes import BrokerProcess
from tests.unit.present import present

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENTED = "segmented"
IDEMPOTENT = "idempotent"
# An hour old: retention by time must not find anything to delete while a test runs.
FIRST_TIMESTAMP_MS = int(time.time() * 1000) - 3_600_000
READ_SECONDS_MAX = 30.0

# Several segments, and several entries in each of their indexes, from a few dozen kilobytes.
SMALL_SEGMENTS: Mapping[str, str] = {"segment.bytes": "16384", "index.interval.bytes": "1024"}
SMALL_BATCHES: Mapping[str, object] = {"enable.idempotence": True, "batch.num.messages": 2}


class Sent(NamedTuple):
    """One record as a client sees it."""

    key: str | None
    value: str | None
    header_keys: tuple[str, ...]
    timestamp_ms: int


class IdempotentBatch(NamedTuple):
    """A batch that a producer may send again after a lost answer, and the offset it got the first time."""

    records: bytes
    base_offset: int


@dataclass(slots=True)
class WrittenLog:
    """A data directory and what was produced into it, topic by topic; every topic has one partition."""

    directory: Path
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    records: dict[str, list[Sent]] = field(default_factory=dict)
    idempotent: list[IdempotentBatch] = field(default_factory=list)

    def partition_files(self, topic: str, suffix: str) -> list[Path]:
        return sorted((self.directory / f"{topic}-0").glob(f"*{suffix}"))

    def meta_properties(self) -> dict[str, str]:
        lines = (self.directory / "meta.properties").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def files(self, suffix: str) -> list[Path]:
        return [path for topic in sorted(self.records) for path in self.partition_files(topic, suffix)]


PRODUCER_ID, PRODUCER_EPOCH = 7_000, 3


def write_samples(broker: BrokerProcess) -> WrittenLog:
    """One topic per codec, one of many segments, one of an idempotent producer."""
    written = WrittenLog(broker.log_dir)
    with Admin.connect(broker.address) as admin:
        for codec in CODECS:
            written.topic_ids[f"codec-{codec}"] = admin.create(f"codec-{codec}")
            asyncio.run(produce_compressed(broker, written, f"codec-{codec}", codec))
        written.topic_ids[SEGMENTED] = admin.create(SEGMENTED, 1, SMALL_SEGMENTS)
        produce(broker, written, SEGMENTED, long_records(0, 120), SMALL_BATCHES)
        written.topic_ids[IDEMPOTENT] = admin.create(IDEMPOTENT)
        written.records[IDEMPOTENT] = []
        for sequence in (0, 3, 6):
            add_idempotent_batch(admin, written, sequence)
    return written


def add_idempotent_batch(admin: Admin, written: WrittenLog, sequence: int) -> None:
    """Three records of the producer, sent once and remembered for the retry."""
    values = [f"sequence-{sequence + number}" for number in range(3)]
    records = frames.batch([value.encode() for value in values], (PRODUCER_ID, PRODUCER_EPOCH, sequence))
    stamp = int.from_bytes(records[27:35], "big")
    base_offset = admin.produce(IDEMPOTENT, 0, records)
    written.idempotent.append(IdempotentBatch(records, base_offset))
    written.records[IDEMPOTENT] += [Sent(None, value, (), stamp) for value in values]


def varied_records(count: int) -> list[Sent]:
    """Keys and values present and absent (never both: not every client sends that), with and without headers."""
    return [
        Sent(
            key=f"key-{number}" if number % 3 else None,
            value=f"value-{number}" * (number % 7 + 1) if number % 6 != 1 else None,
            header_keys=("trace", "tenant")[: number % 3],
            timestamp_ms=FIRST_TIMESTAMP_MS + number * 10,
        )
        for number in range(count)
    ]


def long_records(start: int, count: int) -> list[Sent]:
    """A kilobyte each, so that a few fill a segment."""
    return [
        Sent(f"key-{number}", f"{number:04}" * 256, (), FIRST_TIMESTAMP_MS + number * 1000)
        for number in range(start, start + count)
    ]


async def produce_compressed(broker: BrokerProcess, written: WrittenLog, topic: str, codec: str) -> None:
    """Send records through aiokafka, which compresses as it is configured.

    librdkafka does not: it believes in LZ4 only where FindCoordinator is advertised, and silently sends plain batches.
    """
    records = varied_records(40)
    compression = None if codec == "none" else codec
    async with AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, compression_type=compression, linger_ms=20
    ) as producer:
        acknowledged = [
            await producer.send(
                topic,
                value=_encoded(record.value),
                key=_encoded(record.key),
                partition=0,
                timestamp_ms=record.timestamp_ms,
                headers=[(name, b"1") for name in record.header_keys],
            )
            for record in records
        ]
        await asyncio.gather(*acknowledged)
    written.records[topic] = records


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def produce(
    broker: BrokerProcess,
    written: WrittenLog,
    topic: str,
    records: Sequence[Sent],
    config: Mapping[str, object] | None = None,
) -> None:
    """Send the records in one go, wait until all are acknowledged and note them."""
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            refused.append(error)

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "linger.ms": 20,
            "on_delivery": delivered,
            **(config or {}),
        }
    )
    for record in records:
        producer.produce(
            topic,
            partition=0,
            key=record.key,
            value=record.value,
            headers=[(name, b"1") for name in record.header_keys],
            timestamp=record.timestamp_ms,
        )
    assert producer.flush(30) == 0, f"{topic}: not everything was acknowledged"
    assert not refused, f"{topic}: {refused[0]}"
    written.records.setdefault(topic, []).extend(records)


def read_all(
    broker: BrokerProcess, counts: Mapping[str, int], isolation_level: str = "read_uncommitted"
) -> dict[str, dict[int, Sent]]:
    """As many records of each topic as `counts` says, by offset, through librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "not-used",
            "enable.auto.commit": False,
            "isolation.level": isolation_level,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in counts])
    found: dict[str, dict[int, Sent]] = {topic: {} for topic in counts}
    missing = sum(counts.values())
    deadline = time.monotonic() + READ_SECONDS_MAX
    try:
        while missing and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and not message.error():
                found[present(message.topic())][present(message.offset())] = _as_sent(message)
                missing -= 1
    finally:
        consumer.close()
    return found


def _as_sent(message: Message) -> Sent:
    key, value = message.key(), message.value()
    return Sent(
        None if key is None else key.decode(),
        None if value is None else value.decode(),
        tuple(str(name) for name, _ in list(message.headers() or ())),
        message.timestamp()[1],
    )
