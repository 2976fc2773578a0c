"""The broker dies and comes back while our producer writes: nothing is lost, nothing is stored twice, order is kept."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from tests.effort import usually
from tests.integration.client_support import SECONDS, read_all, run
from tests.unit.present import present
from tidelog.client import AsyncProducer, Producer
from tidelog.client.errors import DeadlinePassed, TransactionFailed
from tidelog.testing import Broker

COUNT = 12_000


def _crash(broker: Broker) -> None:
    broker.kill()
    broker.start()


def _stop_and_start(broker: Broker) -> None:
    broker.restart()


def _freeze(broker: Broker) -> None:
    """Long enough that requests time out, are sent again, and the first ones are then answered after all."""
    broker.pause()
    threading.Event().wait(1.5)
    broker.resume()


@pytest.mark.parametrize("mishap", usually([_crash, _freeze], [_crash, _stop_and_start, _freeze]))
def test_every_record_is_stored_once_and_in_order(mishap: Callable[[Broker], None]) -> None:
    """Retries carry the sequence of the first attempt, so the log takes each batch once whatever was answered."""
    with Broker(process=True) as broker:
        broker.create_topic("topic", 3)

        async def work() -> None:
            async with AsyncProducer(
                bootstrap_servers=broker.bootstrap_servers, batch_size=500, request_timeout_ms=1000
            ) as producer:
                mishaps = None
                for number in range(COUNT):
                    if number % 4000 == 2000:
                        if mishaps is not None:
                            await mishaps
                        mishaps = asyncio.create_task(asyncio.to_thread(mishap, broker))
                    await producer.send("topic", str(number).encode(), partition=number % 3)
                    if number % 100 == 0:
                        await asyncio.sleep(0.001)
                assert mishaps is not None
                await mishaps
                await producer.flush(60)

        run(work())
        found = read_all(broker.bootstrap_servers, "topic", 3)
        for partition in range(3):
            stored = [int(present(message.value())) for message in found if message.partition() == partition]
            assert stored == list(range(partition, COUNT, 3))


def test_the_blocking_producer_survives_a_crash_as_well() -> None:
    with Broker(process=True) as broker:
        broker.create_topic("topic")
        with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=2, batch_size=2000) as producer:
            crashing = threading.Thread(target=_crash, args=(broker,))
            deliveries = []
            for number in range(COUNT):
                deliveries.append(producer.send("topic", str(number).encode()))
                if number == COUNT // 3:
                    crashing.start()
            crashing.join()
            offsets = [delivery.result(SECONDS).offset for delivery in deliveries]
        stored = [int(present(message.value())) for message in read_all(broker.bootstrap_servers, "topic")]
        assert stored == list(range(COUNT))
        # A batch that was stored before the crash and sent again may get its offset or, if it is too long ago, none.
        assert all(offset in (number, -1) for number, offset in enumerate(offsets))


def test_close_and_flush_wait_for_a_broker_that_pauses() -> None:
    """Both take seconds, like every other call: 10 outlasts a pause of one second, and no record is given up."""
    with Broker(process=True) as broker:
        broker.create_topic("topic")

        async def work() -> None:
            producer = await AsyncProducer(bootstrap_servers=broker.bootstrap_servers).start()
            await producer.send_and_wait("topic", b"first")
            for settle in (producer.flush, producer.close):
                broker.pause()
                asyncio.get_running_loop().call_later(1, broker.resume)
                deliveries = [await producer.send("topic", b"value") for _ in range(500)]
                await settle(10)
                assert [delivery.exception() for delivery in deliveries] == [None] * 500

        run(work())
        assert len(read_all(broker.bootstrap_servers, "topic")) == 1001


def test_records_for_a_broker_that_stays_away_are_given_up_in_time() -> None:
    with Broker(process=True) as broker:
        broker.create_topic("topic")

        async def work() -> None:
            async with AsyncProducer(
                bootstrap_servers=broker.bootstrap_servers, delivery_timeout_ms=1500, request_timeout_ms=500
            ) as producer:
                await producer.send_and_wait("topic", b"first")
                broker.kill()
                delivery = await producer.send("topic", b"never")
                started = asyncio.get_running_loop().time()
                with pytest.raises(DeadlinePassed, match=r"delivery\.timeout\.ms=1500"):
                    await delivery
                assert 1.4 < asyncio.get_running_loop().time() - started < 5
                broker.start()
                assert (await producer.send_and_wait("topic", b"again")).offset == 1

        run(work())


@pytest.mark.parametrize("mishap", usually([_crash], [_crash, _freeze]))
def test_transactions_stay_whole_while_the_broker_dies(mishap: Callable[[Broker], None]) -> None:
    """Each transaction is seen whole or not at all, committed ones for certain; the producer goes on by itself."""
    settings = {"transaction.state.log.num.partitions": 2, "offsets.topic.num.partitions": 2}
    with Broker(settings, process=True) as broker:
        broker.create_topic("topic", 2)
        committed: list[int] = []
        uncertain: list[int] = []

        async def work() -> None:
            async with AsyncProducer(
                bootstrap_servers=broker.bootstrap_servers, transactional_id="id", request_timeout_ms=1000
            ) as producer:
                await producer.init_transactions()
                mishaps = None
                for number in range(60):
                    if number == 20:
                        mishaps = asyncio.create_task(asyncio.to_thread(mishap, broker))
                    try:
                        async with producer.transaction():
                            for partition in (0, 1):
                                for _ in range(5):
                                    await producer.send("topic", str(number).encode(), partition=partition)
                        committed.append(number)
                    except TransactionFailed:
                        uncertain.append(number)
                assert mishaps is not None
                await mishaps

        run(work())
        found = [
            int(present(m.value())) for m in read_all(broker.bootstrap_servers, "topic", 2, isolation="read_committed")
        ]
        counts = {number: found.count(number) for number in range(60)}
        assert all(counts[number] == 10 for number in committed)
        assert all(counts[number] in (0, 10) for number in uncertain)
        assert len(committed) > 50
