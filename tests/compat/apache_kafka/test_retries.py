"""Retries in a cluster of Apache Kafka's, where records wait in topics by time, or in Redis with a service."""

import asyncio
import time
from collections import defaultdict
from pathlib import Path

import pytest

from tests.integration.client_support import read_all, run, unique
from tests.integration.redis_support import RedisServer
from tests.integration.retry_service import serving, until
from tidelog.client import (
    Admin,
    AsyncRetryingConsumer,
    ClientConfigError,
    ConsumerRecord,
    NewTopic,
    Producer,
    RetryPolicy,
    current_attempt,
)

SECONDS = 60.0
KEYS = 6
PER_KEY = 10


@pytest.mark.long
def test_records_that_fail_wait_in_topics_of_kafka_and_keep_their_order(servers: str) -> None:
    topic = unique("orders")
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, 2)])
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(KEYS * PER_KEY):
            producer.send(topic, b"%d" % number, b"%d" % (number % KEYS))
    handled: dict[bytes | None, list[int]] = defaultdict(list)

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        number = int(record.value or b"")
        if number == 17 or (number % 7 == 0 and current_attempt() < 3):
            raise OSError(f"attempt {current_attempt()}")
        handled[record.key].append(number)

    async def work() -> None:
        # The broker's own store needs a setting that Kafka does not have.
        with pytest.raises(ClientConfigError, match="store='topics'"):
            await AsyncRetryingConsumer(topic, handle, bootstrap_servers=servers, group_id="billing").run()
        consumer = AsyncRetryingConsumer(
            topic,
            handle,
            RetryPolicy(["100ms", "200ms"], store="topics", keep_order_by_key=True),
            bootstrap_servers=servers,
            group_id="billing",
            concurrency=8,
        )
        task = asyncio.create_task(consumer.run())
        deadline = time.monotonic() + SECONDS
        while sum(map(len, handled.values())) < KEYS * PER_KEY - 1 or not consumer.counts.dead_letters:
            assert not task.done(), task.exception()
            assert time.monotonic() < deadline, f"handled so far: {dict(handled)}"
            await asyncio.sleep(0.02)
        consumer.stop()
        await task

    run(work())
    expected = {b"%d" % key: [n for n in range(key, KEYS * PER_KEY, KEYS) if n != 17] for key in range(KEYS)}
    assert handled == expected
    (letter,) = read_all(servers, f"{topic}.dlq", 2, expected=1, isolation="read_committed")
    assert letter.value() == b"17"


@pytest.mark.long
def test_records_that_fail_go_to_redis_and_back_to_their_topic_by_a_service(servers: str, tmp_path: Path) -> None:
    topic = unique("orders")
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, 2)])
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(40):
            producer.send(topic, b"%d" % number)
    handled: list[int] = []

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        if record.value == b"17" or current_attempt() < 3:
            raise OSError(f"attempt {current_attempt()}")
        handled.append(int(record.value or b""))

    async def work(redis: RedisServer) -> None:
        policy = RetryPolicy(["50ms", "100ms"], store="service")
        consumer = AsyncRetryingConsumer(topic, handle, policy, bootstrap_servers=servers, group_id="shipping")
        task = asyncio.create_task(consumer.run())
        async with serving(servers, redis, topic):

            async def is_done() -> bool:
                assert not task.done(), task.exception()
                return len(handled) == 39 and consumer.counts.dead_letters == 1

            await until(is_done)
        consumer.stop()
        await task

    with RedisServer(tmp_path) as redis:
        redis.reached()
        run(work(redis))
    assert sorted(handled) == [number for number in range(40) if number != 17]
    (letter,) = read_all(servers, f"{topic}.dlq", 2, expected=1, isolation="read_committed")
    assert letter.value() == b"17"
