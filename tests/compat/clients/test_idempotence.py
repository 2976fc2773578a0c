"""Sequences as KIP-98 and KIP-360 have them: retries are recognised, gaps refused, restarts survived."""

import time
from collections.abc import Iterator

import pytest

from tests.compat.clients.batches import batch, numbered
from tests.compat.clients.brokers import Broker
from tests.compat.clients.drivers import Driver
from tests.compat.clients.drivers.types import DEADLINE_S
from tests.compat.clients.raw import RawConnection, fetch, produce
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.produce import PartitionProduceResponse


class Producer:
    """An idempotent producer that can be made to do the wrong thing."""

    def __init__(self, connection: RawConnection, topic: str) -> None:
        self._connection = connection
        self._topic = topic
        self.producer_id = new_producer_id(connection)

    def send(self, sequence: int, count: int = 1, *, epoch: int = 0, codec: str = "none") -> PartitionProduceResponse:
        # Times of now, because a producer that was last heard of in 1970 has expired.
        messages = numbered(count, timestamp=int(time.time() * 1000))
        records = batch(messages, producer_id=self.producer_id, producer_epoch=epoch, sequence=sequence, codec=codec)
        return produce(self._connection, self._topic, records)


def new_producer_id(connection: RawConnection, version: int = 4) -> int:
    request = InitProducerIdRequest(transactional_id=None)
    deadline = time.monotonic() + DEADLINE_S
    response = connection.call(request, version, InitProducerIdResponse)
    while response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and time.monotonic() < deadline:
        response = connection.call(request, version, InitProducerIdResponse)
    assert (response.error_code, response.producer_epoch) == (0, 0)
    return response.producer_id


@pytest.fixture
def connection(broker: Broker) -> Iterator[RawConnection]:
    with RawConnection(broker) as opened:
        yield opened


@pytest.fixture
def producer(connection: RawConnection, topic: str) -> Producer:
    return Producer(connection, topic)


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own(version: int, connection: RawConnection) -> None:
    assert len({new_producer_id(connection, version) for _ in range(5)}) == 5


def test_an_id_without_an_epoch_is_refused(connection: RawConnection) -> None:
    request = InitProducerIdRequest(transactional_id=None, producer_id=5, producer_epoch=-1)
    response = connection.call(request, 4, InitProducerIdResponse)
    assert (response.error_code, response.producer_id) == (ErrorCode.INVALID_REQUEST, -1)
    assert response.producer_epoch == -1


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_a_retry_is_answered_with_the_first_offset(
    codec: str, connection: RawConnection, producer: Producer, topic: str
) -> None:
    assert producer.send(0, 3, codec=codec).base_offset == 0
    assert producer.send(3, 2, codec=codec).base_offset == 3
    again = producer.send(0, 3, codec=codec)
    assert (again.error_code, again.base_offset) == (0, 0)
    assert fetch(connection, topic, 0).high_watermark == 5


def test_a_gap_is_refused(connection: RawConnection, producer: Producer, topic: str) -> None:
    producer.send(0, 3)
    assert producer.send(4).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(3).base_offset == 3
    assert fetch(connection, topic, 0).high_watermark == 4


def test_the_last_five_batches_are_remembered(producer: Producer) -> None:
    """As many as a client may have in flight; what is older is out of order."""
    for sequence in range(6):
        assert producer.send(sequence).base_offset == sequence
    for sequence in range(1, 6):
        assert producer.send(sequence).base_offset == sequence
    assert producer.send(0).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_overlaps_another_is_not_a_retry(producer: Producer) -> None:
    producer.send(0, 3)
    assert producer.send(1, 2).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_begin_anywhere(producer: Producer) -> None:
    """KIP-360: its state may have been deleted with its records, which is no reason to stop it."""
    assert producer.send(17).error_code == 0
    assert producer.send(18).error_code == 0


def test_a_new_epoch_begins_at_zero(producer: Producer) -> None:
    producer.send(0, 5)
    assert producer.send(5, epoch=1).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(0, epoch=1).error_code == 0
    assert producer.send(6, epoch=0).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap_around(producer: Producer) -> None:
    """After 2³¹-1 comes 0."""
    last = 2**31 - 1
    assert producer.send(last - 1, 2).error_code == 0
    assert producer.send(0, 2).error_code == 0
    assert producer.send(last - 1, 2).base_offset == 0
    assert producer.send(last, 2).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_within_a_batch_wrap_around(producer: Producer) -> None:
    assert producer.send(2**31 - 2, 5).error_code == 0
    assert producer.send(3).error_code == 0


def test_sequences_of_partitions_are_apart(broker: Broker, connection: RawConnection, topic_name: str) -> None:
    broker.create_topic(topic_name, 2)
    producer_id = new_producer_id(connection)
    records = batch(numbered(1), producer_id=producer_id, producer_epoch=0, sequence=0)
    assert produce(connection, topic_name, records, partition=0).base_offset == 0
    assert produce(connection, topic_name, records, partition=1).base_offset == 0


def test_sequences_survive_a_restart(topic_name: str) -> None:
    """The last batch is recognised after a clean stop (Kafka's snapshots hold no more), and the next batch is next."""
    with Broker() as broker:
        broker.create_topic(topic_name)
        with RawConnection(broker) as connection:
            producer = Producer(connection, topic_name)
            for sequence in range(0, 12, 2):
                producer.send(sequence, 2)
        broker.restart()
        with RawConnection(broker) as connection:
            producer._connection = connection
            again = producer.send(10, 2)
            assert (again.error_code, again.base_offset) == (0, 10)
            assert producer.send(0, 2).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert producer.send(13).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert producer.send(12).base_offset == 12
            assert new_producer_id(connection) != producer.producer_id


def test_active_producers_are_described(connection: RawConnection, producer: Producer, topic: str) -> None:
    producer.send(0, 3)
    producer.send(3, 4)
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0, 7])])
    (described,) = connection.call(request, 0, DescribeProducersResponse).topics
    known, unknown = described.partitions
    (state,) = known.active_producers
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (producer.producer_id, 0, 6)
    assert state.current_txn_start_offset == -1
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_clients_keep_producing_over_a_restart(client: Driver, topic_name: str) -> None:
    """Same port, same data: what was written before and after is there once, in order."""
    with Broker() as broker:
        servers = broker.bootstrap_servers
        broker.create_topic(topic_name)
        client.produce(servers, topic_name, numbered(100), idempotent=True, batch_bytes=500)
        broker.restart()
        client.produce(servers, topic_name, numbered(100, first=100), idempotent=True, batch_bytes=500)
        values = [record.value for record in client.consume(servers, topic_name, 200)]
    assert values == [b"%d" % index for index in range(200)]
