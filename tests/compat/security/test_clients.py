"""Every mechanism, with TLS and without, by clients that we did not write, and by ours."""

import asyncio
import time
import warnings
from collections.abc import Callable

import pytest

from tests.compat.security.conftest import Secured
from tests.compat.security.secured import MECHANISMS, java_settings, librdkafka_settings, python_settings
from tests.effort import usually

with warnings.catch_warnings():
    # It reads its schemas with a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer

WAYS = [
    "SSL",
    *(f"{protocol} {mechanism}" for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS),
]
ways = pytest.mark.parametrize("way", usually(["SSL", "SASL_PLAINTEXT PLAIN", "SASL_SSL SCRAM-SHA-512"], WAYS))
VALUES = [bytes([index]) * size for index, size in enumerate((1, 1000, 100_000, 300_000))]


def topic_of(library: str, protocol: str, mechanism: str) -> str:
    return f"{library}-{protocol}-{mechanism or 'none'}".lower()


@ways
def test_confluent_kafka(secured: Secured, way: str) -> None:
    protocol, _, mechanism = way.partition(" ")
    from confluent_kafka import Consumer, Producer

    topic = topic_of("confluent", protocol, mechanism)
    settings = {
        "bootstrap.servers": secured.address(protocol),
        **librdkafka_settings(secured.certificates, protocol, mechanism),
    }
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    if mechanism:
        assert "User:alice" in secured.principals()
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        assert collect(lambda: [each.value() for each in consumer.consume(10, 0.5)]) == VALUES
    finally:
        consumer.close()


@ways
def test_kafka_python(secured: Secured, way: str) -> None:
    protocol, _, mechanism = way.partition(" ")
    topic = topic_of("kafka-python", protocol, mechanism)
    settings = {
        "bootstrap_servers": secured.address(protocol),
        **python_settings(secured.certificates, protocol, mechanism),
    }
    producer = KafkaProducer(**settings)
    try:
        for value in VALUES:
            producer.send(topic, value).get(30)
    finally:
        producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", **settings)
    try:
        assert collect(lambda: [r.value for records in consumer.poll(500).values() for r in records]) == VALUES
    finally:
        consumer.close()


@ways
def test_aiokafka(secured: Secured, way: str) -> None:
    protocol, _, mechanism = way.partition(" ")
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    topic = topic_of("aiokafka", protocol, mechanism)
    settings = python_settings(secured.certificates, protocol, mechanism)

    async def run() -> list[bytes]:
        where = secured.address(protocol)
        async with AIOKafkaProducer(bootstrap_servers=where, **settings) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value)
        found: list[bytes] = []
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=where, auto_offset_reset="earliest", **settings)
        async with consumer:
            async with asyncio.timeout(30):
                while len(found) < len(VALUES):
                    found.append((await consumer.getone()).value)
        return found

    assert asyncio.run(run()) == VALUES


@ways
def test_ours(secured: Secured, way: str) -> None:
    protocol, _, mechanism = way.partition(" ")
    from tidelog.client import Consumer, Producer

    topic = topic_of("tidelog", protocol, mechanism)
    settings = {
        "bootstrap.servers": secured.address(protocol),
        **java_settings(secured.certificates, protocol, mechanism),
    }
    with Producer(settings) as producer:
        for sent in [producer.send(topic, value) for value in VALUES]:
            sent.result(30)
    with Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([topic])
        assert collect(lambda: [record.value for record in consumer.poll(0.5)]) == VALUES


def collect(poll: Callable[[], list[bytes | None]]) -> list[bytes | None]:
    found: list[bytes | None] = []
    deadline = time.monotonic() + 30
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        found += poll()
    return found
