"""The retry service with a real Redis: retry topic, Redis, and back, with everything killed at every step."""

import asyncio
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from tests.integration.cli_support import run_here
from tests.integration.client_support import committed_offset, read_all, run, unique
from tests.integration.killed_at import start
from tests.integration.redis_support import RedisServer
from tests.integration.retry_service import SECONDS, serving, until
from tidelog.client import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    AsyncRetryingConsumer,
    ClientError,
    ConsumerRecord,
    Producer,
    RedisQueue,
    RedisUnavailable,
    RetryPolicy,
    WaitingRecord,
    current_attempt,
)
from tidelog.client.retry.headers import decode
from tidelog.client.retry.redis_queue import ArrivedRecord
from tidelog.testing import Broker

QUEUE = "tidelog.client.retry.redis_queue.RedisQueue"
CONFIG = {
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
    "group.min.session.timeout.ms": 100,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        server.reached()
        yield server


def fill(broker: Broker, count: int, partitions: int = 1, delay_ms: int = 0) -> str:
    """A topic and its retry topic, with failed records that come back to the topic after a delay."""
    topic = unique("orders")
    broker.create_topic(topic, partitions)
    broker.create_topic(f"{topic}.retry", partitions)
    add(broker, topic, range(count), partitions, delay_ms)
    return topic


def add(broker: Broker, topic: str, numbers: range, partitions: int = 1, delay_ms: int = 0) -> None:
    due = str(time.time_ns() // 1_000_000 + delay_ms).encode()
    headers = [("tidelog.due.ms", due), ("tidelog.return.topic", topic.encode()), ("trace", b"1")]
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in numbers:
            producer.send(f"{topic}.retry", str(number).encode(), partition=number % partitions, headers=headers)
        producer.flush()


def returned(broker: Broker, topic: str, partitions: int = 1) -> list[int]:
    return [int(each.value() or b"") for each in read_all(broker.bootstrap_servers, topic, partitions)]


@pytest.fixture(scope="module")
def soon_missed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings with which a member that was killed is missed soon."""
    file = tmp_path_factory.mktemp("client") / "client.properties"
    file.write_text("session.timeout.ms=1000\nheartbeat.interval.ms=200\n")
    return file


def work_arguments(broker: Broker, redis: RedisServer, topic: str, config: Path) -> list[str]:
    return [
        "retry", "work", "--redis", redis.url, "--prefix", topic, "--group", topic, "--retry-topic", f"{topic}.retry",
        "--command-config", str(config), "--lease", "1", "--workers", "1",
        "--bootstrap-server", broker.bootstrap_servers,
    ]  # fmt: skip


def ended(process: Popen[bytes]) -> int:
    try:
        return process.wait(timeout=SECONDS)
    finally:
        process.kill()
        process.communicate()


def begun(process: Popen[bytes]) -> Popen[bytes]:
    """A process that has said so: SIGTERM ends it in order from then on."""
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"started")
    return process


def stop(*processes: Popen[bytes]) -> list[int]:
    for each in processes:
        each.send_signal(signal.SIGTERM)
    try:
        return [each.wait(timeout=SECONDS) for each in processes]
    finally:
        for each in processes:
            each.kill()
            each.communicate()


async def come_back(broker: Broker, topic: str, count: int, partitions: int = 1) -> list[int]:
    """Wait until so many different records are in the topic again; returns all that are there."""
    found: list[int] = []

    async def are_back() -> bool:
        found[:] = await asyncio.to_thread(returned, broker, topic, partitions)
        return len(set(found)) >= count

    await until(are_back)
    return found


def test_a_failed_record_goes_to_redis_and_back_to_its_topic_until_it_is_a_dead_letter(
    broker: Broker, redis: RedisServer
) -> None:
    topic = unique("orders")
    broker.create_topic(topic, 2)
    handled: list[tuple[bytes | None, int]] = []
    seen: list[tuple[object, ...]] = []
    others: list[bytes | None] = []

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        seen.append((record.topic, record.offset, record.value, record.headers))
        if record.value == b"poison" or (record.value == b"late" and current_attempt() < 3):
            raise OSError(f"attempt {current_attempt()}")
        handled.append((record.value, current_attempt()))

    async def ship(record: ConsumerRecord[bytes, bytes]) -> None:
        others.append(record.value)

    policy = RetryPolicy(["20ms", "50ms"], store="service")
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    billing = AsyncRetryingConsumer(topic, handle, policy, {**servers, "group.id": "billing"}, concurrency=4)
    shipping = AsyncRetryingConsumer(topic, ship, policy, {**servers, "group.id": "shipping"})

    async def go() -> None:
        async with AsyncProducer[bytes, bytes](servers) as producer:
            for value in (b"fine", b"late", b"poison"):
                await producer.send_and_wait(topic, value, headers=[("trace", value)])
        tasks = [asyncio.create_task(each.run()) for each in (billing, shipping)]
        async with serving(broker.bootstrap_servers, redis, topic) as queue:

            async def are_done() -> bool:
                assert not any(task.done() for task in tasks)
                return len(handled) == 2 and billing.counts.dead_letters == 1 and len(others) == 3

            await until(are_done)
            await queue.put_records([])
            assert (await queue.waiting())[0] == 0
        for each in (billing, shipping):
            each.stop()
        await asyncio.gather(*tasks)

    run(go())
    assert sorted(handled) == [(b"fine", 1), (b"late", 3)]
    assert sorted(others, key=str) == [b"fine", b"late", b"poison"], "other groups see each record once"
    assert len({each for each in seen if each[2] == b"late"}) == 1, "it looks the same at every attempt"
    (letter,) = read_all(broker.bootstrap_servers, f"{topic}.dlq", 2, expected=1, isolation="read_committed")
    trail = decode(letter.headers() or [])  # type: ignore[arg-type]
    assert trail is not None
    assert (trail.pipeline, trail.attempts, trail.error_message, trail.return_topic) == (
        "billing",
        3,
        "attempt 3",
        None,
    )
    waited = read_all(broker.bootstrap_servers, f"{topic}.retry", 2, isolation="read_committed")
    assert sorted(each.value() or b"" for each in waited) == [b"late", b"late", b"poison", b"poison"]


@pytest.mark.parametrize("name", ["own", "same"])
def test_records_come_back_to_the_return_topic(broker: Broker, redis: RedisServer, name: str) -> None:
    """To one of the consumer's own, or to a topic that it reads anyway, whose new records are still records."""
    topic = unique("orders")
    broker.create_topic(topic)
    attempts: list[int] = []

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        attempts.append(current_attempt())
        if current_attempt() < 3:
            raise OSError("not yet")

    return_topic = topic if name == "same" else f"{topic}.billing"
    policy = RetryPolicy(["10ms", "10ms"], store="service", return_topic=return_topic)
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    consumer = AsyncRetryingConsumer(topic, handle, policy, {**servers, "group.id": "billing"})

    async def go() -> None:
        async with AsyncProducer[bytes, bytes](servers) as producer:
            await producer.send_and_wait(topic, b"3 apples")
        task = asyncio.create_task(consumer.run())
        async with serving(broker.bootstrap_servers, redis, topic):

            async def is_handled() -> bool:
                assert not task.done()
                return consumer.counts.handled == 1

            await until(is_handled)
        consumer.stop()
        await task

    run(go())
    assert attempts == [1, 2, 3]
    assert len(read_all(broker.bootstrap_servers, return_topic)) == (3 if name == "same" else 2)


def test_consumers_without_a_policy_only_write_failed_records_to_the_retry_topic(
    broker: Broker, redis: RedisServer
) -> None:
    topic = unique("orders")
    for name in (topic, f"{topic}.retry", f"{topic}.dlq"):
        broker.create_topic(name)
    servers = {"bootstrap.servers": broker.bootstrap_servers}

    async def go() -> list[int]:
        failures: list[int] = []
        policy = RetryPolicy(["10ms", "20ms"])
        async with (
            serving(broker.bootstrap_servers, redis, topic, policy=policy),
            AsyncProducer[bytes, bytes](servers) as producer,
            AsyncConsumer[bytes, bytes](
                {**servers, "group.id": f"{topic}-plain", "auto.offset.reset": "earliest"}
            ) as plain,
        ):
            await producer.send_and_wait(topic, b"poison", b"k")
            await plain.subscribe([topic])
            while len(failures) < 3:
                for row in await plain.poll(SECONDS):
                    failures.append(int(dict(row.headers).get("tidelog.attempts") or 0))
                    await producer.send_and_wait(f"{topic}.retry", row.value, row.key, headers=row.headers)
            await asyncio.to_thread(read_all, broker.bootstrap_servers, f"{topic}.dlq", expected=1)
        return failures

    assert run(go()) == [0, 1, 2]
    (letter,) = read_all(broker.bootstrap_servers, f"{topic}.dlq")
    assert (letter.key(), letter.headers()) == (b"k", [("tidelog.attempts", b"3")])


def test_records_and_their_position_are_stored_together_and_once(redis: RedisServer) -> None:
    def arrivals(*offsets: int) -> list[ArrivedRecord]:
        return [ArrivedRecord(each, str(each), 1, WaitingRecord("orders", b"")) for each in offsets]

    async def go() -> None:
        queue = RedisQueue(redis.url, prefix=unique("position"))
        assert await queue.positions(["a", "b"]) == [None, None]
        assert await queue.take_over("a", None, 12, arrivals(10, 11))
        assert await queue.positions(["a", "b"]) == [12, None]
        claimed = [each.id for each in await queue.claim(10)]
        await queue.finish(claimed)
        assert await queue.take_over("a", 10, 14, arrivals(10, 11, 12, 13)), "a zombie that read 12 and 13, too"
        assert sorted(each.id for each in await queue.claim(10)) == [b"12", b"13"], "10 and 11 were returned before"
        assert await queue.take_over("a", 12, 13, arrivals(12))
        assert await queue.positions(["a"]) == [14], "it does not fall"
        assert not await queue.take_over("a", 20, 22, arrivals(20, 21)), "14 to 19 are missing"
        assert not await queue.take_over("b", 5, 6, arrivals(5)), "what was stored of it is lost"
        assert await queue.positions(["a", "b"]) == [14, None]
        await queue.close()

    run(go())


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(f"after:{QUEUE}.take_over", id="between storing and committing"),
        *(
            pytest.param(step, id=name, marks=pytest.mark.long)
            for name, step in {
                "before storing": f"before:{QUEUE}.take_over",
                "after committing": "after:tidelog.client.aio.consumer.consumer.AsyncConsumer.commit_async",
                "after claiming": f"after:{QUEUE}.claim",
                "between writing and removing": f"before:{QUEUE}.finish",
                "after removing": f"after:{QUEUE}.finish",
            }.items()
        ),
    ],
)
def test_a_service_that_is_killed_loses_nothing(
    broker: Broker, redis: RedisServer, soon_missed: Path, step: str
) -> None:
    topic, count = fill(broker, 20), 20
    arguments = work_arguments(broker, redis, topic, soon_missed)
    assert ended(start(step, "tidelog", *arguments)) == -signal.SIGKILL
    next_one = begun(start(None, "tidelog", *arguments))
    try:
        found = run(come_back(broker, topic, count))

        async def is_done() -> bool:
            retries = (f"{topic}.retry", 0)
            committed = await asyncio.to_thread(committed_offset, broker.bootstrap_servers, topic, retries)
            return committed == count and (await queue.waiting())[0] == 0

        async def go() -> None:
            await until(is_done)
            await queue.close()

        queue = RedisQueue(redis.url, prefix=topic)
        run(go())
    finally:
        assert stop(next_one) == [0]
    assert set(found) == set(range(count))
    if step != f"before:{QUEUE}.finish":
        assert sorted(returned(broker, topic)) == list(range(count)), "each is back once"


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("after:tidelog.client.retry.writer.Writer.write", id="after the transaction"),
        *(
            pytest.param(f"{when}:tidelog.client.aio.producer.producer.AsyncProducer.{name}", marks=pytest.mark.long)
            for when, name in (
                ("after", "send"),
                ("before", "send_offsets_to_transaction"),
                ("after", "send_offsets_to_transaction"),
            )
        ),
    ],
)
def test_a_consumer_that_is_killed_writes_each_failed_record_once(
    broker: Broker, redis: RedisServer, soon_missed: Path, tmp_path: Path, step: str
) -> None:
    topic, count = unique("orders"), 20
    broker.create_topic(topic)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(count):
            producer.send(topic, str(number).encode())
    file = tmp_path / "handled"
    file.touch()
    arguments = [broker.bootstrap_servers, topic, topic + "-app", "service", str(file)]
    service = start(None, "tidelog", *work_arguments(broker, redis, topic, soon_missed))
    running = [service]
    try:
        assert ended(start(step, "tests.integration.retry_application", *arguments)) == -signal.SIGKILL
        running.append(start(None, "tests.integration.retry_application", *arguments))

        async def is_handled() -> bool:
            return len(set(file.read_bytes().split())) == count

        run(until(is_handled))
    finally:
        codes = stop(*running)
    assert codes == [0, 0]
    waited = read_all(broker.bootstrap_servers, f"{topic}.retry", 1, isolation="read_committed")
    assert Counter(each.value() for each in waited) == {str(number).encode(): 1 for number in range(count)}


@pytest.mark.long
def test_a_service_that_wakes_up_after_it_was_replaced_stores_nothing_again(
    broker: Broker, redis: RedisServer, soon_missed: Path
) -> None:
    topic, count = fill(broker, 20), 20
    arguments = work_arguments(broker, redis, topic, soon_missed)
    zombie = start(f"paused-before:{QUEUE}.take_over", "tidelog", *arguments)
    running = [zombie]
    try:
        _, status = os.waitpid(zombie.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        running.append(begun(start(None, "tidelog", *arguments)))
        run(come_back(broker, topic, count))
        zombie.send_signal(signal.SIGCONT)
        # It stores, commits or fails, and reads on as a member of the group.
        add(broker, topic, range(count, count + 5))
        run(come_back(broker, topic, count + 5))
    finally:
        codes = stop(*running)
    assert codes == [0, 0]
    assert sorted(returned(broker, topic)) == list(range(count + 5))


def test_two_members_share_the_partitions_and_store_each_record_once(broker: Broker, redis: RedisServer) -> None:
    topic = fill(broker, 40, partitions=2)

    async def go() -> None:
        async with serving(broker.bootstrap_servers, redis, topic, members=2) as queue:
            await come_back(broker, topic, 40, partitions=2)
            add(broker, topic, range(40, 80), partitions=2)
            await come_back(broker, topic, 80, partitions=2)

            async def is_empty() -> bool:
                return (await queue.waiting())[0] == 0

            await until(is_empty)

    run(go())
    assert sorted(returned(broker, topic, 2)) == list(range(80))


def test_what_redis_lost_is_read_from_the_retry_topic_again(broker: Broker, tmp_path: Path) -> None:
    """As after a power failure with `appendfsync everysec`: Redis comes back without its last writes."""
    topic = fill(broker, 10, delay_ms=3_600_000)
    data, older = tmp_path / "redis", tmp_path / "older"
    data.mkdir()

    async def go() -> None:
        async def has(count: int) -> bool:
            try:
                return (await queue.waiting())[0] == count
            except RedisUnavailable:
                return False

        with RedisServer(data) as server:
            server.reached()
            async with serving(broker.bootstrap_servers, server, topic) as queue:
                await until(lambda: has(10))
                server.kill()
                shutil.copytree(data, older)
                server.start()
                await until(lambda: has(10))
                add(broker, topic, range(10, 20), delay_ms=3_600_000)
                await until(lambda: has(20))
                server.kill()
                shutil.rmtree(data)
                shutil.copytree(older, data)
                server.start()
                await until(lambda: has(10))
                # The next record shows that those before it are missing.
                add(broker, topic, range(20, 21), delay_ms=3_600_000)
                await until(lambda: has(21))

    run(go())


def test_a_retry_topic_that_is_created_again_is_read_from_its_start(broker: Broker, redis: RedisServer) -> None:
    topic = fill(broker, 5)

    async def go() -> None:
        async with serving(broker.bootstrap_servers, redis, topic):
            await come_back(broker, topic, 5)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.delete_topics([f"{topic}.retry"])

        async def is_created() -> bool:
            try:
                await asyncio.to_thread(broker.create_topic, f"{topic}.retry")
            except ClientError:
                return False
            return True

        await until(is_created)
        add(broker, topic, range(5, 8))
        async with serving(broker.bootstrap_servers, redis, topic):
            await come_back(broker, topic, 8)

    run(go())
    assert sorted(returned(broker, topic)) == list(range(8))


@pytest.mark.long
def test_a_broker_that_is_killed_and_restarted_costs_nothing(redis: RedisServer) -> None:
    with Broker(CONFIG, process=True) as broker:
        topic = fill(broker, 200)

        async def go() -> None:
            async with serving(broker.bootstrap_servers, redis, topic) as queue:

                async def is_stored() -> bool:
                    return (await queue.positions(await places(broker, topic)))[0] is not None

                await until(is_stored)
                broker.kill()
                broker.start()
                add(broker, topic, range(200, 400))
                await come_back(broker, topic, 400)

        run(go())
        assert set(returned(broker, topic)) == set(range(400))


async def places(broker: Broker, topic: str) -> list[str]:
    async with AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
        found = (await admin.describe_topics([f"{topic}.retry"]))[f"{topic}.retry"]
    return [f"{topic}.retry/0/{found.topic_id.hex()}"]


def test_a_drain_of_retry_topics_is_refused() -> None:
    ran = run_here("retry", "work", "--redis", "redis://localhost:1", "--retry-topic", "orders.retry", "--drain")
    assert ran.code != 0
    assert "--drain cannot be used with --retry-topic" in ran.err
