"""DeleteRecords: the log begins later, and readers of what is gone get an error."""

import asyncio
import time
from collections.abc import Callable

import kafka
import pytest
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from confluent_kafka import Consumer, TopicPartition

from tests.compat.clients.admins import confluent_admin, kafka_python_admin
from tests.compat.clients.batches import batch, numbered
from tests.compat.clients.brokers import Broker
from tests.compat.clients.conftest import MakeTopic
from tests.compat.clients.drivers import DRIVERS, Driver
from tests.compat.clients.drivers.types import DEADLINE_S
from tests.compat.clients.raw import RawConnection, fetch, produce
from tests.unit.present import present
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

LIBRDKAFKA = DRIVERS[0]


def by_confluent(servers: str, topic: str, offset: int) -> int:
    admin = confluent_admin(servers)
    (future,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    return future.result(DEADLINE_S).low_watermark


def by_kafka_python(servers: str, topic: str, offset: int) -> int:
    place = kafka.TopicPartition(topic, 0)
    with kafka_python_admin(servers) as admin:
        return admin.delete_records({place: offset})[place]["low_watermark"]


def by_aiokafka(servers: str, topic: str, offset: int) -> int:
    async def run() -> int:
        admin = AIOKafkaAdminClient(bootstrap_servers=servers)
        await admin.start()
        try:
            place = AioTopicPartition(topic, 0)
            return (await admin.delete_records({place: RecordsToDelete(offset)}))[place]
        finally:
            await admin.close()

    return asyncio.run(run())


def by_frame(broker: Broker, topic: str, offset: int, version: int = 2) -> DeleteRecordsPartitionResult:
    wanted = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    with RawConnection(broker) as connection:
        request = DeleteRecordsRequest(topics=[wanted], timeout_ms=1000)
        (answer,) = connection.call(request, version, DeleteRecordsResponse).topics
    return answer.partitions[0]


@pytest.mark.parametrize("delete", [by_confluent, by_kafka_python, by_aiokafka])
def test_records_are_deleted_up_to_an_offset(
    delete: Callable[[str, str, int], int], client: Driver, servers: str, topic: str
) -> None:
    """Also within a batch: what lies before is not seen any more, though the batch is still whole on disk."""
    client.produce(servers, topic, numbered(100))
    assert delete(servers, topic, 42) == 42
    assert client.watermarks(servers, topic) == (42, 100)
    assert client.consume(servers, topic, 58, offset=42)[0].value == b"42"
    assert delete(servers, topic, -1) == 100
    assert client.watermarks(servers, topic) == (100, 100)
    assert client.produce(servers, topic, numbered(1)) == [100]


def test_a_reader_of_deleted_records_is_out_of_range(broker: Broker, topic: str) -> None:
    with RawConnection(broker) as connection:
        produce(connection, topic, batch(numbered(10)))
        assert by_frame(broker, topic, 5).low_watermark == 5
        answer = fetch(connection, topic, 4)
        assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert fetch(connection, topic, 5).error_code == 0


def test_a_consumer_starts_over_where_the_log_begins(servers: str, topic: str) -> None:
    LIBRDKAFKA.produce(servers, topic, numbered(100))
    by_confluent(servers, topic, 60)
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 10)])
        deadline = time.monotonic() + DEADLINE_S
        message = None
        while message is None and time.monotonic() < deadline:
            message = consumer.poll(0.1)
        assert present(message).offset() == 60
    finally:
        consumer.close()


def test_a_consumer_of_kafka_python_starts_over_at_the_end(servers: str, topic: str) -> None:
    LIBRDKAFKA.produce(servers, topic, numbered(100))
    by_confluent(servers, topic, 60)
    place = kafka.TopicPartition(topic, 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="latest", enable_auto_commit=False)
    try:
        consumer.assign([place])
        consumer.seek(place, 10)
        deadline = time.monotonic() + DEADLINE_S
        while consumer.position(place) != 100 and time.monotonic() < deadline:
            consumer.poll(50)
        assert consumer.position(place) == 100
    finally:
        consumer.close()


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("offset", [11, -2])
def test_only_what_is_committed_can_be_deleted(offset: int, version: int, broker: Broker, topic: str) -> None:
    with RawConnection(broker) as connection:
        produce(connection, topic, batch(numbered(10)))
    answer = by_frame(broker, topic, offset, version)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_deleting_again_moves_nothing_back(broker: Broker, topic: str) -> None:
    with RawConnection(broker) as connection:
        produce(connection, topic, batch(numbered(10)))
    assert by_frame(broker, topic, 7).low_watermark == 7
    assert by_frame(broker, topic, 3).low_watermark == 7


def test_a_compacted_topic_keeps_its_records(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic(**{"cleanup.policy": "compact"})
    with RawConnection(broker) as connection:
        produce(connection, topic, batch(numbered(10)))
    assert by_frame(broker, topic, 5).error_code == ErrorCode.POLICY_VIOLATION


def test_a_missing_topic_is_an_error(broker: Broker) -> None:
    assert by_frame(broker, "missing", 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_beginning_survives_a_restart(topic_name: str) -> None:
    with Broker() as broker:
        broker.create_topic(topic_name)
        LIBRDKAFKA.produce(broker.bootstrap_servers, topic_name, numbered(10))
        by_frame(broker, topic_name, 4)
        broker.restart()
        assert LIBRDKAFKA.watermarks(broker.bootstrap_servers, topic_name) == (4, 10)
