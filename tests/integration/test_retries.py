"""Failed records against a real broker: tried again, in order, dead letters, crashes."""

import asyncio
import itertools
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli_support import run_here
from tests.integration.client_support import read_all, run, unique
from tidelog.client import (
    AsyncRetryingConsumer,
    ClientConfigError,
    ConsumerRecord,
    Producer,
    RetryingConsumer,
    RetryPolicy,
    current_attempt,
    retrying,
)
from tidelog.client.retry.headers import decode
from tidelog.testing import Broker

SECONDS = 60.0
Record = ConsumerRecord[bytes, bytes]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}) as running:
        yield running


@pytest.fixture
def topic(broker: Broker) -> str:
    name = unique("orders")
    broker.create_topic(name, 2)
    return name


def send(broker: Broker, topic: str, *records: tuple[str | None, str]) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for key, value in records:
            producer.send(
                topic, value.encode(), None if key is None else key.encode(), headers=[("trace", value.encode())]
            )
        producer.flush()


@asynccontextmanager
async def running(consumer: AsyncRetryingConsumer) -> AsyncIterator[None]:
    task = asyncio.create_task(consumer.run())
    try:
        yield
    finally:
        consumer.stop()
        await task


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("store", ["broker", "topics"])
def test_a_record_that_fails_twice_succeeds_and_poison_ends_in_the_dead_letters(
    broker: Broker, topic: str, store: str
) -> None:
    send(broker, topic, ("a", "fine"), ("b", "late"), ("c", "poison"))
    handled: list[tuple[bytes | None, int]] = []
    seen: list[tuple[Any, ...]] = []

    async def handle(record: Record) -> None:
        seen.append((record.topic, record.key, record.value, record.headers))
        if record.value == b"poison" or (record.value == b"late" and current_attempt() < 3):
            raise OSError(f"attempt {current_attempt()}")
        handled.append((record.value, current_attempt()))

    policy = RetryPolicy([0.05, "100ms"], store=store)
    consumer = AsyncRetryingConsumer(
        topic, handle, policy, bootstrap_servers=broker.bootstrap_servers, group_id="billing", concurrency=4
    )

    async def work() -> None:
        async with running(consumer):
            await until(lambda: len(handled) == 2 and consumer.counts.dead_letters == 1)

    run(work())
    assert sorted(handled) == [(b"fine", 1), (b"late", 3)]
    assert {each for each in seen if each[1] == b"b"} == {(topic, b"b", b"late", (("trace", b"late"),))}
    (letter,) = read_all(broker.bootstrap_servers, f"{topic}.dlq", 2, expected=1, isolation="read_committed")
    headers: Any = letter.headers()
    trail = decode(headers)
    assert trail is not None
    assert (trail.pipeline, trail.attempts, trail.error_type) == ("billing", 3, "OSError")
    assert (trail.error_message, trail.origin.topic) == ("attempt 3", topic)
    for number in (1, 2):
        retried = read_all(broker.bootstrap_servers, f"{topic}.retry.{number}", 2, isolation="read_committed")
        assert sorted(each.value() or b"" for each in retried) == [b"late", b"poison"], "each was written once"


def test_dead_letters_are_sent_back_by_the_command_line(broker: Broker, topic: str) -> None:
    send(broker, topic, ("a", "poison"))
    is_mended = False
    handled: list[bytes | None] = []

    async def handle(record: Record) -> None:
        if not is_mended:
            raise ValueError("not yet")
        handled.append(record.value)

    policy = RetryPolicy(dead_letter_on=(ValueError,))
    settings: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "billing"}

    async def work() -> None:
        nonlocal is_mended
        consumer = AsyncRetryingConsumer(topic, handle, policy, **settings)
        async with running(consumer):
            await until(lambda: consumer.counts.dead_letters == 1)
        is_mended = True
        arguments = ["pipeline", "replay", "--topic", f"{topic}.dlq", "--filter", "pipeline=billing"]
        arguments += ["--format", "json", "--bootstrap-server", broker.bootstrap_servers]
        result = await asyncio.to_thread(run_here, *arguments)
        assert json.loads(result.out)["sent"] == {topic: 1}
        async with running(AsyncRetryingConsumer(topic, handle, policy, **settings)):
            await until(lambda: handled == [b"poison"])

    run(work())


@pytest.mark.parametrize("store", ["broker", pytest.param("topics", marks=pytest.mark.long)])
def test_records_of_a_key_wait_behind_the_one_that_failed(broker: Broker, topic: str, store: str) -> None:
    send(broker, topic, *[("a", f"a{number}") for number in range(5)], ("b", "b0"))
    handled: list[bytes] = []

    async def handle(record: Record) -> None:
        if record.value == b"a1" and current_attempt() < 3:
            raise OSError("not yet")
        handled.append(record.value or b"")

    policy = RetryPolicy(["50ms"], attempts=5, store=store, keep_order_by_key=True)
    settings: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "billing", "concurrency": 8}

    async def work() -> None:
        first = AsyncRetryingConsumer(topic, handle, policy, **settings)
        async with running(first):
            await until(lambda: first.counts.waited_for_key >= 3)
        # Another member continues with what the first has written.
        async with running(AsyncRetryingConsumer(topic, handle, policy, **settings)):
            await until(lambda: len(handled) == 6)

    run(work())
    assert [each for each in handled if each != b"b0"] == [b"a0", b"a1", b"a2", b"a3", b"a4"]


def test_a_plain_function_runs_in_threads_and_stops_in_order(broker: Broker, topic: str) -> None:
    send(broker, topic, *[(str(number % 8), str(number)) for number in range(40)])
    handled: list[tuple[bytes | None, bytes]] = []
    together = threading.Barrier(4, timeout=SECONDS)
    calls = itertools.count()

    @retrying(
        topic,
        group="threads",
        policy=RetryPolicy(["20ms"]),
        bootstrap_servers=broker.bootstrap_servers,
        concurrency=4,
        records_max=10,
        value_deserializer=bytes.decode,
    )
    def handle(record: Any) -> None:
        if next(calls) < 4:
            together.wait()
        handled.append((record.key, record.value))

    assert isinstance(handle, RetryingConsumer)
    thread = threading.Thread(target=handle.run, daemon=True)
    thread.start()
    try:
        run(until(lambda: len(handled) == 40))
    finally:
        handle.stop()
        thread.join(SECONDS)
    assert not thread.is_alive()
    for key in {key for key, _ in handled}:
        numbers = [int(value) for each, value in handled if each == key]
        assert numbers == sorted(numbers)
    assert Counter(value for _, value in handled).most_common(1)[0][1] == 1, "nothing was handled twice"


def test_a_topic_that_would_not_delay_is_refused(broker: Broker, topic: str) -> None:
    broker.create_topic(f"{topic}.retry.1", 2)

    async def handle(record: Record) -> None: ...

    consumer = AsyncRetryingConsumer(topic, handle, bootstrap_servers=broker.bootstrap_servers, group_id="billing")
    with pytest.raises(ClientConfigError, match=r"tidelog\.delay\.enable=true"):
        run(consumer.run())


@pytest.mark.long
@pytest.mark.timeout(300)
def test_members_that_join_and_leave_lose_nothing_and_keep_the_order_of_keys(broker: Broker) -> None:
    """Partitions move while handlers fail and records wait behind failed ones of their key."""
    topic, count, keys = unique("orders"), 400, 20
    broker.create_topic(topic, 4)
    handled: list[tuple[bytes, int]] = []

    async def handle(record: Record) -> None:
        await asyncio.sleep(0.002)
        number = int(record.value or b"")
        if number % 5 == 0 and current_attempt() < 3:
            raise OSError("not yet")
        handled.append((record.key or b"", number))

    def member() -> AsyncRetryingConsumer:
        policy = RetryPolicy(["50ms"], attempts=50, keep_order_by_key=True)
        settings: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "moving"}
        return AsyncRetryingConsumer(topic, handle, policy, concurrency=8, **settings)

    def done() -> int:
        return len({number for _, number in handled})

    async def work() -> None:
        async with running(member()):
            for part in range(4):
                first, last = part * count // 4, (part + 1) * count // 4
                values = [(str(number % keys), str(number)) for number in range(first, last)]
                await asyncio.to_thread(send, broker, topic, *values)
                async with running(member()):
                    # It joins and leaves in the middle of the records of this part.
                    await until(lambda first=first: done() >= first + count // 16)  # type: ignore[misc]
            await until(lambda: done() == count)

    run(work())
    for key in {key for key, _ in handled}:
        numbers = list(dict.fromkeys(number for each, number in handled if each == key))
        assert numbers == sorted(numbers), "records that are handled again aside, the order of a key is kept"
    letters = read_all(broker.bootstrap_servers, f"{topic}.dlq", 4, expected=0, isolation="read_committed")
    assert letters == []


@pytest.mark.long
def test_an_application_that_is_killed_loses_nothing_and_writes_each_retry_once(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    count = 2000
    send(broker, topic, *[(str(number % 50), str(number)) for number in range(count)])
    path = tmp_path / "handled"
    path.touch()
    command = [sys.executable, "-m", "tests.integration.retry_application"]
    command += [broker.bootstrap_servers, topic, "killed", "broker", str(path)]

    def handled() -> list[str]:
        return path.read_text().split()

    for wanted in (count // 4, count // 2):
        with subprocess.Popen(command) as application:
            run(until(lambda wanted=wanted: len(handled()) >= wanted or application.poll() is not None))  # type: ignore[misc]
            application.kill()
    with subprocess.Popen(command) as application:
        run(until(lambda: len(set(handled())) == count))
        application.terminate()
        assert application.wait(SECONDS) == 0
    retried = read_all(broker.bootstrap_servers, f"{topic}.retry.1", 2, isolation="read_committed")
    assert sorted(int(each.value() or b"") for each in retried) == list(range(count))
