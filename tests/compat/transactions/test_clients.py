"""Transactions as the clients of other people make them, read by all of them, with both isolation levels."""

from contextlib import ExitStack

import pytest

from tests.compat.clients.drivers import DRIVERS, Driver, Message
from tests.compat.transactions.clients import CLIENTS, Client, Fenced
from tests.compat.transactions.conftest import MakeTopic
from tests.compat.transactions.protocol import Rpc, until
from tidelog.wire.errors import ErrorCode


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    """Each client in turn."""
    return request.param


@pytest.fixture(params=DRIVERS, ids=lambda driver: f"read by {driver.name}")
def reader(request: pytest.FixtureRequest) -> Driver:
    """Each client as a consumer."""
    return request.param


def values(reader: Driver, servers: str, topic: str, count: int, isolation: str) -> list[bytes | None]:
    return [record.value for record in reader.consume(servers, topic, count, isolation=isolation)]


def test_commits_are_seen_and_aborts_are_not(
    client: Client, reader: Driver, servers: str, topic: str, name: str
) -> None:
    with client.producer(servers, name) as producer:
        for number, word in enumerate((b"a", b"b", b"c", b"d")):
            producer.begin()
            producer.send(topic, 0, word)
            producer.send(topic, 0, word.upper())
            if number % 2:
                producer.abort()
            else:
                producer.commit()
    plain = DRIVERS[0].produce(servers, topic, [Message(b"end")])
    assert plain == [12], "eight records and four markers are before it"
    assert values(reader, servers, topic, 5, "read_committed") == [b"a", b"A", b"c", b"C", b"end"]
    everything = [b"a", b"A", b"b", b"B", b"c", b"C", b"d", b"D", b"end"]
    assert values(reader, servers, topic, 9, "read_uncommitted") == everything


def test_a_transaction_spans_partitions_and_topics(
    client: Client, servers: str, make_topic: MakeTopic, name: str
) -> None:
    first, second = make_topic(3), make_topic(2)
    places = [(topic, partition) for topic in (first, second) for partition in range(2)]
    with client.producer(servers, name) as producer:
        producer.begin()
        for topic, partition in places:
            producer.send(topic, partition, b"x")
        producer.commit()
    for topic, partition in places:
        (found,) = DRIVERS[0].consume(servers, topic, 1, partition=partition, isolation="read_committed")
        assert found.value == b"x"


def test_writers_without_transactions_are_not_disturbed(client: Client, servers: str, topic: str, name: str) -> None:
    plain = DRIVERS[0]
    with client.producer(servers, name) as producer:
        plain.produce(servers, topic, [Message(b"1")])
        producer.begin()
        producer.send(topic, 0, b"in")
        plain.produce(servers, topic, [Message(b"2")])
        assert values(plain, servers, topic, 1, "read_committed") == [b"1"]
        assert values(plain, servers, topic, 3, "read_uncommitted") == [b"1", b"in", b"2"]
        producer.abort()
        plain.produce(servers, topic, [Message(b"3")])
    assert values(plain, servers, topic, 3, "read_committed") == [b"1", b"2", b"3"]


def test_a_second_producer_fences_the_first(client: Client, servers: str, topic: str, name: str) -> None:
    with ExitStack() as stack:
        zombie = stack.enter_context(client.producer(servers, name))
        zombie.begin()
        zombie.send(topic, 0, b"zombie")
        heir = stack.enter_context(client.producer(servers, name))
        with pytest.raises(Fenced):
            zombie.commit()
        heir.begin()
        heir.send(topic, 0, b"heir")
        heir.commit()
    assert values(DRIVERS[0], servers, topic, 1, "read_committed") == [b"heir"]


def test_a_transaction_that_takes_too_long_is_aborted(
    client: Client, servers: str, rpc: Rpc, topic: str, name: str
) -> None:
    with client.producer(servers, name, timeout_ms=1_000) as producer:
        producer.begin()
        producer.send(topic, 0, b"late")
        until(lambda: rpc.state(name) == "CompleteAbort")
        with pytest.raises(Fenced):
            producer.commit()
    assert rpc.read(topic) == []
    with client.producer(servers, name) as producer:
        producer.begin()
        producer.send(topic, 0, b"again")
        producer.commit()
    until(lambda: rpc.read(topic) == [b"again"])


def test_offsets_travel_with_the_transaction(
    client: Client, servers: str, rpc: Rpc, topic: str, name: str, group: str
) -> None:
    with client.producer(servers, name) as producer:
        producer.begin()
        producer.send(topic, 0, b"1")
        producer.send_offset(group, topic, 0, 5)
        assert rpc.offset_of(group, (topic, 0), require_stable=True)[0] is ErrorCode.UNSTABLE_OFFSET_COMMIT
        producer.commit()
        until(lambda: rpc.offset_of(group, (topic, 0), require_stable=True) == (ErrorCode.NONE, 5))
        producer.begin()
        producer.send(topic, 0, b"2")
        producer.send_offset(group, topic, 0, 9)
        producer.abort()
        until(lambda: rpc.offset_of(group, (topic, 0), require_stable=True) == (ErrorCode.NONE, 5))
    until(lambda: rpc.read(topic) == [b"1"])


def test_many_transactions_follow_each_other(client: Client, servers: str, rpc: Rpc, topic: str, name: str) -> None:
    with client.producer(servers, name) as producer:
        for number in range(20):
            producer.begin()
            producer.send(topic, 0, b"%d" % number)
            producer.commit()
    until(lambda: rpc.read(topic) == [b"%d" % number for number in range(20)])
