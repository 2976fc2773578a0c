"""Reading: from anywhere, within limits, and waiting for what is not there yet."""

import os
import threading
import time

import pytest
from confluent_kafka.admin import AdminClient

from tests.compat.clients import batches
from tests.compat.clients.batches import batch, numbered
from tests.compat.clients.brokers import Broker
from tests.compat.clients.drivers import DRIVERS, Driver, Message
from tests.compat.clients.raw import RawConnection, fetch, fetch_request, produce
from tests.unit.present import present
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

LIBRDKAFKA = DRIVERS[0]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_reading_begins_in_the_middle_of_a_batch(client: Driver, codec: str, servers: str, topic: str) -> None:
    """The broker sends the whole batch; the client leaves out what was not asked for."""
    client.produce(servers, topic, numbered(100), codec=codec)
    records = client.consume(servers, topic, 43, offset=57)
    assert [record.offset for record in records] == list(range(57, 100))
    assert records[0].value == b"57"


def test_a_limit_below_one_batch_does_not_stop_a_reader(client: Driver, servers: str, topic: str) -> None:
    """KIP-74: the first batch of a fetch comes whole, whatever the limits."""
    for first in range(0, 15, 5):
        client.produce(servers, topic, numbered(5, first=first, size=2000))
    records = client.consume(servers, topic, 15, partition_bytes=1000)
    assert [record.offset for record in records] == list(range(15))


def test_a_reader_of_committed_records_reads_plain_ones(client: Driver, servers: str, topic: str) -> None:
    client.produce(servers, topic, numbered(10))
    records = client.consume(servers, topic, 10, isolation="read_committed")
    assert [record.offset for record in records] == list(range(10))


def test_what_arrives_while_reading_is_read(client: Driver, servers: str, topic: str) -> None:
    """The consumer waits at the end of the log and goes on when there is more."""
    client.produce(servers, topic, numbered(5))
    writer = threading.Timer(0.2, LIBRDKAFKA.produce, (servers, topic, numbered(5, first=5)))
    writer.start()
    records = client.consume(servers, topic, 10)
    writer.join()
    assert [record.value for record in records] == [b"%d" % index for index in range(10)]


def test_an_empty_fetch_waits_for_its_time(broker: Broker, topic: str) -> None:
    with RawConnection(broker) as connection:
        started = time.monotonic()
        answer = fetch(connection, topic, 0, max_wait_ms=300)
        waited_s = time.monotonic() - started
    assert answer.records == b""
    assert answer.error_code == 0
    assert 0.25 < waited_s < 5


def test_a_waiting_fetch_wakes_when_a_record_arrives(broker: Broker, topic: str) -> None:
    with RawConnection(broker) as reader, RawConnection(broker) as writer:
        started = time.monotonic()
        reader.send(fetch_request(topic, 0, max_wait_ms=15_000), 12)
        produce(writer, topic, batch(numbered(1)))
        response = reader.receive(FetchResponse, 12)
        waited_s = time.monotonic() - started
    assert [record.value for record in batches.read(response.responses[0].partitions[0].records)] == [b"0"]
    assert waited_s < 10


def test_a_fetch_waits_for_as_many_bytes_as_it_asks_for(broker: Broker, topic: str) -> None:
    with RawConnection(broker) as reader, RawConnection(broker) as writer:
        reader.send(fetch_request(topic, 0, max_wait_ms=15_000, min_bytes=3000), 12)
        for _ in range(3):
            produce(writer, topic, batch([Message(os.urandom(1000))]))
        response = reader.receive(FetchResponse, 12)
    assert [record.offset for record in batches.read(response.responses[0].partitions[0].records)] == [0, 1, 2]


def test_a_waiting_fetch_fails_when_its_topic_is_deleted(broker: Broker, servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    with RawConnection(broker) as reader:
        reader.send(fetch_request(topic, 0, max_wait_ms=15_000), 12)
        admin.delete_topics([topic])[topic].result(10)
        response = reader.receive(FetchResponse, 12)
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [3, 4, 11, 12])
def test_a_partition_gets_whole_batches_or_waits_its_turn(version: int, broker: Broker, topic_name: str) -> None:
    """The limit of the whole fetch is used up by the first partition; what is smaller than the rest may still come.

    Java's consumer throws when it gets bytes without a whole batch.
    """
    broker.create_topic(topic_name, 3)
    wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in range(3)]
    request = FetchRequest(min_bytes=1, max_bytes=10_000, topics=[FetchTopic(topic=topic_name, partitions=wanted)])
    with RawConnection(broker) as connection:
        for index, size in enumerate((9000, 9000, 10)):
            produce(connection, topic_name, batch(numbered(1, size=size)), partition=index)
        response = connection.call(request, version, FetchResponse)
    assert [len(batches.read(partition.records)) for partition in response.responses[0].partitions] == [1, 0, 1]
    assert response.responses[0].partitions[1].records == b""


def test_before_the_first_batch_came_whole_limits_are_hard(broker: Broker, topic: str) -> None:
    """Version 2: a client with a small limit must see that there is more, or it would ask for ever."""
    with RawConnection(broker) as connection:
        produce(connection, topic, batch(numbered(1, size=5000)))
        answer = fetch(connection, topic, 0, version=2, partition_max_bytes=1000)
    records = bytes(present(answer.records))
    offset_and_length = records[:12]
    assert len(offset_and_length) == 12
    assert int.from_bytes(offset_and_length[8:], "big") > len(records), "a message that is cut off"


@pytest.mark.parametrize("offset", [-1, 11, 1 << 40])
def test_an_offset_outside_of_the_log_is_out_of_range(offset: int, broker: Broker, topic: str) -> None:
    with RawConnection(broker) as connection:
        produce(connection, topic, batch(numbered(10)))
        answer = fetch(connection, topic, offset, max_wait_ms=15_000)
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert answer.records == b""


def test_the_end_of_the_log_is_in_range(broker: Broker, topic: str) -> None:
    with RawConnection(broker) as connection:
        produce(connection, topic, batch(numbered(10)))
        answer = fetch(connection, topic, 10)
    assert answer.error_code == 0
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (10, 10, 0)


def test_leader_epochs_are_checked(broker: Broker, topic: str) -> None:
    """KIP-320: a client that knows a newer leader, or an older one, gets the error for it."""
    with RawConnection(broker) as connection:
        assert fetch(connection, topic, 0, current_leader_epoch=0).error_code == 0
        assert fetch(connection, topic, 0, current_leader_epoch=7).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_large_fetches_come_whole(client: Driver, servers: str, topic: str) -> None:
    """Records that leave the broker by sendfile, in more pieces than a socket takes at once."""
    messages = [Message(os.urandom(200_000), b"%d" % index) for index in range(40)]
    client.produce(servers, topic, messages)
    records = client.consume(servers, topic, 40, partition_bytes=8 << 20)
    assert [(record.key, record.value) for record in records] == [(m.key, m.value) for m in messages]
