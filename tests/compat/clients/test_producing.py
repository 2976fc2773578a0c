"""Acknowledgements, idempotence, sizes and names, as producers meet them."""

import os

import pytest

from tests.compat.clients.batches import numbered
from tests.compat.clients.brokers import Broker
from tests.compat.clients.conftest import MakeTopic
from tests.compat.clients.drivers import DRIVERS, Driver, Message, Refused
from tidelog.wire.errors import ErrorCode

LIBRDKAFKA = DRIVERS[0]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_with_every_kind_of_acknowledgement(client: Driver, acks: str, servers: str, topic: str) -> None:
    offsets = client.produce(servers, topic, numbered(20), acks=acks)
    records = client.consume(servers, topic, 20)
    assert [record.value for record in records] == [b"%d" % index for index in range(20)]
    if acks != "0":
        assert offsets == [record.offset for record in records]


def test_idempotent_batches_in_flight_arrive_once_and_in_order(client: Driver, servers: str, topic: str) -> None:
    """Small batches keep several requests under way at once; sequences count through them all."""
    messages = numbered(3000)
    offsets = client.produce(servers, topic, messages, idempotent=True, batch_bytes=1000)
    assert offsets == list(range(3000))
    assert [record.value for record in client.consume(servers, topic, 3000)] == [message.value for message in messages]
    assert client.watermarks(servers, topic) == (0, 3000)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_message_of_900_kilobytes_arrives(client: Driver, codec: str, servers: str, topic: str) -> None:
    value = os.urandom(900 << 10)
    client.produce(servers, topic, [Message(value)], codec=codec)
    assert client.consume(servers, topic, 1)[0].value == value


def test_a_message_above_the_limit_is_refused_as_too_large(client: Driver, servers: str, topic: str) -> None:
    """The default limit is 1 MiB and a batch header; the error must reach the program, and nothing is kept."""
    with pytest.raises(Refused) as refused:
        client.produce(servers, topic, [Message(os.urandom(2 << 20))])
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert client.watermarks(servers, topic) == (0, 0)


def test_a_message_that_compresses_below_the_limit_is_taken(client: Driver, servers: str, topic: str) -> None:
    """`max.message.bytes` counts the bytes of the batch as it is sent."""
    value = b"\0" * (2 << 20)
    client.produce(servers, topic, [Message(value)], codec="gzip")
    assert client.consume(servers, topic, 1)[0].value == value


def test_a_topic_has_its_own_limit(client: Driver, servers: str, make_topic: MakeTopic) -> None:
    small = make_topic(**{"max.message.bytes": 10_000})
    client.produce(servers, small, [Message(os.urandom(9_000))])
    with pytest.raises(Refused) as refused:
        client.produce(servers, small, [Message(os.urandom(11_000))])
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    large = make_topic(**{"max.message.bytes": 4 << 20})
    value = os.urandom(3 << 20)
    client.produce(servers, large, [Message(value)])
    assert client.consume(servers, large, 1)[0].value == value


def test_a_batch_larger_than_a_segment_is_refused(client: Driver, servers: str, make_topic: MakeTopic) -> None:
    topic = make_topic(**{"segment.bytes": 20_000})
    client.produce(servers, topic, [Message(os.urandom(19_000))])
    with pytest.raises(Refused) as refused:
        client.produce(servers, topic, [Message(os.urandom(21_000))])
    assert refused.value.code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_writing_to_an_unknown_topic_makes_it(client: Driver, servers: str, topic_name: str) -> None:
    assert client.produce(servers, topic_name, numbered(3)) == [0, 1, 2]
    assert client.watermarks(servers, topic_name) == (0, 3)


@pytest.mark.parametrize("name", ["tôpic", "white space", "slash/ed", ".", "..", "x" * 250])
def test_an_illegal_name_is_refused_as_such(name: str, servers: str) -> None:
    """Other clients check names themselves; librdkafka leaves it to the broker, in Metadata."""
    with pytest.raises(Refused) as refused:
        LIBRDKAFKA.produce(servers, name, numbered(1))
    assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_keyed_records_spread_over_partitions_as_the_producer_decides(
    client: Driver, broker: Broker, servers: str, topic_name: str
) -> None:
    broker.create_topic(topic_name, 4)
    for partition in (3, 1):
        assert client.produce(servers, topic_name, numbered(5), partition=partition) == [0, 1, 2, 3, 4]
    assert [client.watermarks(servers, topic_name, partition=index)[1] for index in range(4)] == [0, 5, 0, 5]
