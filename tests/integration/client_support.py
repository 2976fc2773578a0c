"""What the tests of our clients share: topics, and reading back with a client that we did not write."""

import asyncio
import itertools
import time
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tests.unit.present import present
from tidelog.client import Admin, NewTopic

Result = TypeVar("Result")

SECONDS = 20.0
"""How long anything may take that takes a moment."""

QUICK = {
    "broker.address.family": "v4",
    "fetch.error.backoff.ms": 5,
    "fetch.wait.max.ms": 10,
    "log_level": 0,
    "reconnect.backoff.ms": 5,
    "topic.metadata.refresh.fast.interval.ms": 10,
}
"""librdkafka's defaults wait where a test need not."""

_numbers = itertools.count(1)


def unique(prefix: str) -> str:
    """A name that no other test uses."""
    return f"{prefix}-{next(_numbers)}"


def make_topic(servers: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
    """A topic that no other test uses."""
    name = unique("topic")
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, partitions, configs=dict(config or {}))])
    return name


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work` on a fresh loop, within the time that any test may take."""

    async def limited() -> Result:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(limited())


def read_all(
    servers: str, topic: str, partitions: int = 1, *, isolation: str = "read_uncommitted", expected: int | None = None
) -> list[Message]:
    """Every record of a topic that confluent-kafka sees, partition by partition; waits for `expected` if given."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reads-everything",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            **QUICK,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        found: list[Message] = []
        ended: set[int] = set()
        deadline = time.monotonic() + SECONDS
        while len(ended) < partitions or (expected is not None and len(found) < expected):
            assert time.monotonic() < deadline, f"{len(found)} records came, {expected} were expected"
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append(message)
            elif error.name() == "_PARTITION_EOF":
                ended.add(present(message.partition()))
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
    return sorted(found, key=lambda each: (each.partition(), each.offset()))


def values(messages: list[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


def committed_offset(servers: str, group: str, where: tuple[str, int]) -> int:
    """What a group has committed for a partition, as confluent-kafka reads it; -1001 for nothing."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, **QUICK})
    try:
        (found,) = consumer.committed([TopicPartition(*where)], timeout=SECONDS)
    finally:
        consumer.close()
    return int(found.offset)
