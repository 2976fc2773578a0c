"""What our producer promises of transactions on any cluster; see `producer_claims` for who runs these."""

import asyncio
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.integration.client_support import committed_offset, make_topic, read_all, run, unique, values
from tidelog.client import AsyncProducer, OffsetAndMetadata, Producer, TopicPartition, TransactionHandle
from tidelog.client.errors import IllegalState, ProducerFenced, TransactionFailed
from tidelog.wire.errors import ApiError

COMMITTED = "read_committed"


def test_committed_records_are_seen_together_and_aborted_ones_never(servers: str) -> None:
    topic = make_topic(servers, 2)

    async def fail_midway(producer: AsyncProducer) -> None:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"lost", partition=0)
            raise ZeroDivisionError

    async def work() -> None:
        async with AsyncProducer(bootstrap_servers=servers, transactional_id=unique("id")) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send(topic, b"one", partition=0)
                await producer.send(topic, b"two", partition=1)
            with pytest.raises(ZeroDivisionError):
                await fail_midway(producer)
            async with producer.transaction():
                await producer.send(topic, b"three", partition=0)

    run(work())
    assert values(read_all(servers, topic, 2, isolation=COMMITTED)) == [b"one", b"three", b"two"]
    assert values(read_all(servers, topic, 2)) == [b"one", b"lost", b"three", b"two"]


def test_an_empty_transaction_costs_nothing_and_calls_out_of_order_are_refused(servers: str) -> None:
    topic = make_topic(servers)

    async def work() -> None:
        async with AsyncProducer(bootstrap_servers=servers, transactional_id=unique("id")) as producer:
            with pytest.raises(IllegalState, match="uninitialized"):
                await producer.begin()
            await producer.init_transactions()
            with pytest.raises(IllegalState, match="call begin first"):
                await producer.send(topic, b"outside")
            with pytest.raises(IllegalState, match="commit is not possible now: the producer is ready"):
                await producer.commit()
            async with producer.transaction():
                pass
            await producer.begin()
            await producer.abort()
        async with AsyncProducer(bootstrap_servers=servers) as plain:
            with pytest.raises(IllegalState, match=r"no transactional\.id"):
                await plain.begin()

    run(work())
    assert read_all(servers, topic) == []


def test_what_was_not_sent_when_a_transaction_is_aborted_is_dropped(servers: str) -> None:
    topic = make_topic(servers)

    async def work() -> None:
        async with AsyncProducer(
            bootstrap_servers=servers, transactional_id=unique("id"), linger_ms=60_000
        ) as producer:
            await producer.init_transactions()
            await producer.begin()
            delivery = await producer.send(topic, b"lingers")
            await producer.abort()
            with pytest.raises(TransactionFailed, match="aborted before"):
                await delivery
            async with producer.transaction():
                await producer.send(topic, b"kept")

    run(work())
    assert values(read_all(servers, topic)) == [b"kept"]


def test_a_second_producer_fences_the_first_and_aborts_its_transaction(servers: str) -> None:
    topic, name = make_topic(servers), unique("id")

    async def work() -> None:
        old = AsyncProducer(bootstrap_servers=servers, transactional_id=name)
        new = AsyncProducer(bootstrap_servers=servers, transactional_id=name)
        await old.start()
        await old.init_transactions()
        await old.begin()
        await old.send_and_wait(topic, b"of the old one")
        await new.start()
        await new.init_transactions()
        async with new.transaction():
            await new.send(topic, b"of the new one")
        with pytest.raises((ApiError, TransactionFailed)):
            await old.send_and_wait(topic, b"late")
        with pytest.raises(TransactionFailed):
            await old.commit()
        with pytest.raises(ProducerFenced):
            await old.abort()
        with pytest.raises(ProducerFenced):
            await old.send(topic, b"later still")
        await old.close()
        await new.close()

    run(work())
    assert values(read_all(servers, topic, isolation=COMMITTED)) == [b"of the new one"]


def test_offsets_are_committed_with_the_transaction_or_not_at_all(servers: str) -> None:
    topic, group = make_topic(servers), unique("group")
    where = TopicPartition(topic, 0)

    async def work() -> None:
        async with AsyncProducer(bootstrap_servers=servers, transactional_id=unique("id")) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send_offsets_to_transaction({where: OffsetAndMetadata(5, "a note")}, group)
            assert committed_offset(servers, group, where) == 5
            await producer.begin()
            await producer.send_offsets_to_transaction({where: OffsetAndMetadata(9)}, group)
            await producer.abort()
            assert committed_offset(servers, group, where) == 5

    run(work())


def test_a_record_that_is_refused_fails_the_commit_and_an_abort_heals(servers: str) -> None:
    topic = make_topic(servers, config={"max.message.bytes": "2000"})

    async def work() -> None:
        async with AsyncProducer(bootstrap_servers=servers, transactional_id=unique("id")) as producer:
            await producer.init_transactions()
            await producer.begin()
            await producer.send(topic, b"first")
            refused = await producer.send(topic, bytes(5000))
            with pytest.raises(TransactionFailed, match="MESSAGE_TOO_LARGE"):
                await producer.commit()
            assert refused.done()
            with pytest.raises(TransactionFailed, match="must be aborted"):
                await producer.send(topic, b"too late")
            await producer.abort()
            async with producer.transaction():
                await producer.send(topic, b"second")

    run(work())
    assert values(read_all(servers, topic, isolation=COMMITTED)) == [b"second"]


def _fill(servers: str, handle: TransactionHandle, topic: str, partition: int) -> int:
    """What another process does with a transaction that it was handed."""

    async def work() -> None:
        async with AsyncProducer(bootstrap_servers=servers, joining=handle, batch_size=500) as producer:
            for number in range(300):
                await producer.send(topic, f"{partition}:{number}".encode(), partition=partition)
            with pytest.raises(IllegalState, match="this one joined it"):
                await producer.commit()

    asyncio.run(work())
    return os.getpid()


@pytest.mark.parametrize("is_commit", [True, False])
def test_other_processes_fill_the_transaction_on_partitions_of_their_own(servers: str, is_commit: bool) -> None:
    topic = make_topic(servers, 3)
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(2, mp_context=context) as processes,
        Producer(bootstrap_servers=servers, transactional_id=unique("id")) as owner,
    ):
        owner.init_transactions()
        owner.begin()
        owner.add_partitions_to_transaction([TopicPartition(topic, 1), TopicPartition(topic, 2)])
        owner.send(topic, b"owner", partition=0)
        handle = owner.transaction_handle
        work = [processes.submit(_fill, servers, handle, topic, partition) for partition in (1, 2)]
        assert os.getpid() not in [each.result(60) for each in work]
        assert read_all(servers, topic, 3, isolation=COMMITTED) == []
        if is_commit:
            owner.commit()
        else:
            owner.abort()
    expected = [b"owner"] + [f"{p}:{n}".encode() for p in (1, 2) for n in range(300)]
    assert values(read_all(servers, topic, 3, isolation=COMMITTED)) == (expected if is_commit else [])
