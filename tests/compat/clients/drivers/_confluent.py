"""confluent-kafka: librdkafka, as most programs outside of Java use it."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka import Message as Received

from tests.compat.clients.drivers.types import DEADLINE_S, Message, Refused, Stored
from tests.unit.present import present

QUIET = {"log_level": 0}
"""librdkafka would report every broker that a test stops."""


class ConfluentDriver:
    """Compiled with every codec."""

    name = "confluent-kafka"

    def has_codec(self, codec: str) -> bool:
        return True

    def produce(
        self,
        servers: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool | None = None,
        batch_bytes: int = 1 << 20,
    ) -> list[int]:
        producer = Producer(
            {
                **QUIET,
                "bootstrap.servers": servers,
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": bool(idempotent),
                "linger.ms": 20,
                "batch.size": batch_bytes,
                "message.max.bytes": 20 << 20,
                "delivery.timeout.ms": int(DEADLINE_S * 1000),
                "topic.metadata.propagation.max.ms": 0,
            }
        )
        offsets: dict[int, int] = {}
        errors: list[KafkaError] = []

        def delivered(index: int, error: KafkaError | None, received: Received) -> None:
            if error is not None:
                errors.append(error)
            else:
                offset = received.offset()
                offsets[index] = -1 if offset is None else offset  # with acks=0 there is none

        for index, message in enumerate(messages):
            timestamp: dict[str, Any] = {} if message.timestamp is None else {"timestamp": message.timestamp}
            producer.produce(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                partition=partition,
                on_delivery=partial(delivered, index),
                **timestamp,
            )
        left = producer.flush(DEADLINE_S)
        if errors:
            raise Refused(errors[0].code(), errors[0].str())
        assert not left, f"{left} of {len(messages)} messages were not delivered"
        return [offsets[index] for index in range(len(messages))]

    def consume(
        self,
        servers: str,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        offset: int = 0,
        isolation: str = "read_uncommitted",
        partition_bytes: int = 1 << 20,
    ) -> list[Stored]:
        settings = {"isolation.level": isolation, "fetch.message.max.bytes": partition_bytes, "check.crcs": True}
        consumer = _consumer(servers, settings)
        found: list[Stored] = []
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            deadline = time.monotonic() + DEADLINE_S
            while len(found) < count and time.monotonic() < deadline:
                for message in consumer.consume(count - len(found), 0.1):
                    error = message.error()
                    if error is not None:
                        raise Refused(error.code(), error.str())
                    found.append(_stored(message))
        finally:
            consumer.close()
        assert len(found) == count, f"{len(found)} of {count} records of {topic}-{partition} came"
        return found

    def watermarks(self, servers: str, topic: str, *, partition: int = 0) -> tuple[int, int]:
        consumer = _consumer(servers)
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), DEADLINE_S)
            return low, high
        finally:
            consumer.close()

    def offset_for_time(self, servers: str, topic: str, timestamp: int, *, partition: int = 0) -> int | None:
        consumer = _consumer(servers)
        try:
            (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], DEADLINE_S)
            return found.offset if found.offset >= 0 else None
        finally:
            consumer.close()


def _consumer(servers: str, settings: Mapping[str, object] | None = None) -> Consumer:
    return Consumer(
        {
            **QUIET,
            "bootstrap.servers": servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
            "topic.metadata.propagation.max.ms": 0,
            **(settings or {}),
        }
    )


def _stored(message: Received) -> Stored:
    timestamp_type, timestamp = message.timestamp()
    # librdkafka counts "not available" as 0, so its types are one above Kafka's.
    headers: Any = message.headers() or ()
    return Stored(
        present(message.offset()), timestamp, timestamp_type - 1, message.key(), message.value(), tuple(headers)
    )
