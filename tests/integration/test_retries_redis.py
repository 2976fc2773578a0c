"""Records that wait in a real Redis: killed servers, killed workers, many workers."""

import asyncio
import itertools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.integration.client_support import read_all, run, unique
from tests.integration.redis_support import RedisServer
from tidelog.client import (
    AsyncProducer,
    AsyncRetryingConsumer,
    ConsumerRecord,
    RedisQueue,
    RedisUnavailable,
    RetryPolicy,
    WaitingRecord,
    current_attempt,
)
from tidelog.client.retry.redis_worker import move
from tidelog.testing import Broker

SECONDS = 30.0
_prefixes = itertools.count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}) as running:
        yield running


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        run(_reached(server.url))
        yield server


async def _reached(url: str) -> None:
    queue = RedisQueue(url)
    await until(lambda: _answers(queue))
    await queue.close()


async def _answers(queue: RedisQueue) -> bool:
    try:
        await queue.waiting()
    except RedisUnavailable:
        return False
    return True


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + SECONDS
    while not await condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


@asynccontextmanager
async def opened(redis: RedisServer, lease_s: float = 30.0, prefix: str | None = None) -> AsyncIterator[RedisQueue]:
    queue = RedisQueue(redis.url, prefix=prefix or f"test-{next(_prefixes)}", lease_s=lease_s)
    try:
        yield queue
    finally:
        await queue.close()


def records(topic: str, count: int) -> list[tuple[str, int, WaitingRecord]]:
    return [(str(number), 0, WaitingRecord(topic, str(number).encode())) for number in range(count)]


def test_a_due_record_is_claimed_by_one_worker_and_comes_back_when_that_one_dies(redis: RedisServer) -> None:
    async def work() -> None:
        async with opened(redis, lease_s=0.2) as queue:
            record = WaitingRecord("orders", None, b"\xff", (("trace", b"1"), ("empty", None)), 1)
            await queue.put_records([("now", 0, record), ("later", 60_000, record)])
            await queue.put_records([("now", 60_000, WaitingRecord("other", b""))])
            taken = await asyncio.gather(*[queue.claim(10) for _ in range(8)])
            assert [(each.id, each.record) for found in taken for each in found] == [(b"now", record)]
            assert await queue.waiting() == (2, 1)
            again: list[bytes] = []

            async def comes_back() -> bool:
                again.extend(each.id for each in await queue.claim(10))
                return bool(again)

            await until(comes_back)
            await queue.finish(again)
            assert await queue.waiting() == (1, 0)

    run(work())


def test_what_is_not_a_record_is_set_aside_and_claimed_no_more(redis: RedisServer) -> None:
    async def work() -> None:
        producer: AsyncProducer[bytes, bytes] = AsyncProducer(bootstrap_servers="127.0.0.1:1")  # never started
        async with opened(redis) as queue:
            await queue._redis.hset(queue._keys[2], "odd", b"no JSON")
            await queue._redis.zadd(queue._keys[0], {"odd": 1})
            assert await move(queue, producer) == 0
            assert await queue.waiting() == (0, 0)
            assert await queue._redis.hgetall(queue.unreadable_key) == {b"odd": b"no JSON"}
            assert await queue._redis.hlen(queue._keys[2]) == 0

    run(work())


def test_a_handler_fails_and_redis_brings_the_record_back(broker: Broker, redis: RedisServer) -> None:
    topic = unique("orders")
    broker.create_topic(topic, 2)
    handled: list[tuple[bytes | None, int]] = []

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        if record.value == b"poison" or current_attempt() < 3:
            raise OSError("not yet")
        handled.append((record.value, current_attempt()))

    consumer = AsyncRetryingConsumer(
        topic,
        handle,
        RetryPolicy(["20ms", "50ms"], store=redis.url),
        bootstrap_servers=broker.bootstrap_servers,
        group_id="billing",
    )

    async def work() -> None:
        async with AsyncProducer[bytes, bytes](bootstrap_servers=broker.bootstrap_servers) as producer:
            for value in (b"late", b"poison"):
                await producer.send_and_wait(topic, value)
        task = asyncio.create_task(consumer.run())

        async def is_done() -> bool:
            return task.done() or (bool(handled) and consumer.counts.dead_letters == 1)

        await until(is_done)
        consumer.stop()
        await task

    run(work())
    assert handled == [(b"late", 3)]
    (letter,) = read_all(broker.bootstrap_servers, f"{topic}.dlq", 2, expected=1, isolation="read_committed")
    assert letter.value() == b"poison"


@pytest.mark.long
def test_redis_is_killed_and_restarted_and_nothing_is_lost(broker: Broker, tmp_path: Path) -> None:
    topic = unique("orders")
    broker.create_topic(topic, 1)
    prefix = "killed"

    async def work() -> None:
        with RedisServer(tmp_path) as server:
            await _reached(server.url)
            async with (
                opened(server, 0.5, prefix) as queue,
                AsyncProducer[bytes, bytes](bootstrap_servers=broker.bootstrap_servers) as producer,
            ):
                await queue.put_records(records(topic, 1000))
                assert await move(queue, producer, 200) == 200
                await queue.claim(100)
                server.kill()
                with pytest.raises(RedisUnavailable):
                    await queue.claim(1)
                server.start()

                async def is_empty() -> bool:
                    try:
                        await move(queue, producer, 200)
                        return (await queue.waiting())[0] == 0
                    except RedisUnavailable:
                        return False

                await until(is_empty)

    run(work())
    found = read_all(broker.bootstrap_servers, topic, 1)
    assert sorted(int(each.value() or b"") for each in found) == list(range(1000))


@pytest.mark.long
def test_two_hundred_workers_of_which_some_are_killed(broker: Broker, redis: RedisServer) -> None:
    topic = unique("orders")
    broker.create_topic(topic, 4)
    count, prefix = 4000, unique("many")
    command = [sys.executable, "-m", "tidelog", "retry", "work", "--redis", redis.url, "--prefix", prefix]
    command += ["--workers", "50", "--lease", "2", "--format", "json", "--bootstrap-server", broker.bootstrap_servers]

    async def work() -> None:
        async with opened(redis, 2.0, prefix) as queue:
            await queue.put_records(records(topic, count))

            async def is_begun() -> bool:
                return (await queue.waiting())[0] < count

            async def is_empty() -> bool:
                return (await queue.waiting())[0] == 0

            await until(is_begun)
            processes[0].kill()
            await queue.claim(100)  # by a worker that will never finish
            await until(is_empty)

    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ}) for _ in range(4)]
    try:
        run(work())
    finally:
        for process in processes:
            process.terminate()
        try:
            outputs = [process.communicate(timeout=SECONDS)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
    assert [process.returncode for process in processes[1:]] == [0, 0, 0]
    events = [json.loads(line) for output in outputs[1:] for line in output.splitlines()]
    assert {each["event"] for each in events} >= {"started"}
    found = Counter(each.value() for each in read_all(broker.bootstrap_servers, topic, 4))
    assert set(found) == {str(number).encode() for number in range(count)}, "none is lost"
