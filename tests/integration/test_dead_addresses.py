"""Clients at an address where no broker answers: they say so, soon and by name."""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.client_support import SECONDS, read_all, run
from tidelog.client import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    BootstrapFailed,
    Consumer,
    Producer,
    TopicPartition,
)
from tidelog.testing import Broker

QUICK = {"bootstrap.timeout.ms": 300}
AT = TopicPartition("topic", 0)


@pytest.fixture
def dead() -> str:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return f"127.0.0.1:{unused.getsockname()[1]}"


async def _start_producer(settings: dict[str, Any]) -> None:
    await AsyncProducer(settings).start()


async def _start_admin(settings: dict[str, Any]) -> None:
    await AsyncAdmin(settings).start()


async def _start_consumer(settings: dict[str, Any]) -> None:
    await AsyncConsumer(settings).start()


async def _poll_async(settings: dict[str, Any]) -> None:
    consumer = AsyncConsumer(settings)
    try:
        await consumer.assign([AT])
        await consumer.poll(SECONDS)
    finally:
        await consumer.close()


def _poll(settings: dict[str, Any]) -> None:
    with Consumer(settings, group_id="group") as consumer:
        consumer.subscribe(["topic"])
        consumer.poll(SECONDS)


def _poll_often(settings: dict[str, Any]) -> None:
    with Consumer(settings) as consumer:
        consumer.assign([AT])
        while True:
            consumer.poll(0)


def _list_topics(settings: dict[str, Any]) -> None:
    with Consumer(settings) as consumer:
        consumer.list_topics()


def _ask_for_offsets(settings: dict[str, Any]) -> None:
    with Consumer(settings) as consumer:
        consumer.end_offsets(AT)


@pytest.mark.parametrize(
    "use",
    [
        Producer,
        Admin,
        _poll,
        _poll_often,
        _ask_for_offsets,
        _list_topics,
        lambda settings: run(_start_producer(settings)),
        lambda settings: run(_start_admin(settings)),
        lambda settings: run(_start_consumer(settings)),
        lambda settings: run(_poll_async(settings)),
    ],
)
def test_a_client_that_never_reached_a_broker_raises_and_logs_why(
    use: Callable[[dict[str, Any]], object], dead: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(BootstrapFailed) as raised:
        use({"bootstrap.servers": dead, **QUICK})
    assert set(raised.value.failures) == {dead}
    assert dead in str(raised.value)
    (warning,) = [record for record in caplog.records if record.name == "tidelog.client"]
    assert warning.levelno == logging.WARNING
    assert f"no broker at {dead}: " in warning.message


def test_a_consumer_that_gave_up_goes_on_when_the_broker_has_come() -> None:
    with Broker(process=True) as broker:
        broker.create_topic("topic")
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("topic", b"value").result(SECONDS)
        broker.kill()
        with Consumer(QUICK, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([AT])
            with pytest.raises(BootstrapFailed):
                consumer.poll(SECONDS)
            broker.start()
            found: list[bytes | None] = []
            while not found:
                try:
                    found += [record.value for record in consumer.poll(SECONDS)]
                except BootstrapFailed:
                    continue
            assert found == [b"value"]


def test_a_producer_that_reached_a_broker_once_waits_for_it_to_come_back(caplog: pytest.LogCaptureFixture) -> None:
    with Broker(process=True) as broker:
        broker.create_topic("topic")

        async def work() -> None:
            async with AsyncProducer(QUICK, bootstrap_servers=broker.bootstrap_servers) as producer:
                await producer.send_and_wait("topic", b"first")
                broker.kill()
                delivery = await producer.send("topic", b"second")
                while not any("retrying" in message for message in caplog.messages):
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(broker.start)
                assert (await delivery).offset == 1

        run(work())
        assert len(read_all(broker.bootstrap_servers, "topic")) == 2
