"""The readers against a real broker, called as Spark calls them, without a session: what takes too long with one."""

import json
import logging

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from tests.integration.spark.source_support import make_topic, send, wait_until
from tidelog.client import Admin, NewTopic, Producer
from tidelog.spark.clients import CLUSTERS
from tidelog.spark.source import cluster_view
from tidelog.spark.source.columns import full_schema
from tidelog.spark.source.data_loss import DataLossError
from tidelog.spark.source.stream_reader import StreamReader
from tidelog.testing import Broker
from tidelog.wire.errors import ApiError, ErrorCode

SCHEMA = full_schema({})


@pytest.fixture(scope="module")
def broker():
    with Broker(process=True) as running:
        yield running


@pytest.fixture(autouse=True)
def deletions_are_believed_soon(monkeypatch):
    """One broker, which has been there all the time, is not in doubt about its topics."""
    monkeypatch.setattr(cluster_view, "_LOOKS", 1)


@pytest.fixture
def reading():
    """Makes readers, and closes what they opened."""
    made = []

    def make(broker, topic, **options):
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, "startingOffsets": "earliest"}
        made.append(StreamReader(SCHEMA, {**given, **options}))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()
    CLUSTERS.close_all()


def _next(reader, start):
    """The next end as it comes back from the checkpoint, and the values up to it."""
    end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
    batches = [batch for each in reader.partitions(start, end) for batch in reader.read(each)]
    rows = [int(value) for batch in batches for value in _values(batch)]
    return end, rows


def _values(batch):
    return batch["value"].to_pylist()


def _delete(broker, topic):
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_topics([topic])


def _made(broker, topic):
    """Whether a topic could be made; Apache Kafka goes on deleting the old one for a while."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        try:
            admin.create_topics([NewTopic(topic, 1, configs={"retention.ms": "-1"})])
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            return False
    return True


def test_a_deleted_topic_stops_a_stream_or_is_passed_over(reading, broker, caplog):
    topic = make_topic(broker.bootstrap_servers)
    send(broker.bootstrap_servers, topic, range(10))
    fatal, lenient = reading(broker, topic), reading(broker, topic, failOnDataLoss="false")
    ends = [_next(reader, reader.initialOffset())[0] for reader in (fatal, lenient)]
    _delete(broker, topic)
    with pytest.raises(DataLossError, match=f"records of {topic}-0 are lost: the topic or the partition was"):
        _next(fatal, ends[0])
    with caplog.at_level(logging.WARNING):
        assert _next(lenient, ends[1]) == ({}, [])
    assert "failOnDataLoss is false" in caplog.text


def test_a_topic_created_again_is_noticed_by_its_id(reading, broker):
    topic = make_topic(broker.bootstrap_servers)
    send(broker.bootstrap_servers, topic, range(5))
    fatal, lenient = reading(broker, topic), reading(broker, topic, failOnDataLoss="false")
    ends = [_next(reader, reader.initialOffset())[0] for reader in (fatal, lenient)]
    _delete(broker, topic)
    wait_until(lambda: _made(broker, topic), "the topic is created again")
    send(broker.bootstrap_servers, topic, range(100, 120))
    with pytest.raises(DataLossError, match="recreated under the same name"):
        _next(fatal, ends[0])
    assert _next(lenient, ends[1])[1] == list(range(100, 120))


def test_a_topic_deleted_under_a_task_is_reported_by_offset(reading, broker):
    topic = make_topic(broker.bootstrap_servers)
    send(broker.bootstrap_servers, topic, range(10))
    reader = reading(broker, topic)
    start = reader.initialOffset()
    (partition,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    _delete(broker, topic)
    with pytest.raises(DataLossError, match=f"10 offsets are lost in {topic}-0: offsets 0 to 9; the topic or the"):
        list(reader.read(partition))


def test_a_range_goes_on_where_it_was_when_the_broker_is_killed_and_started_again(reading):
    with Broker({"log.flush.interval.messages": 1}, process=True) as broker:
        topic = make_topic(broker.bootstrap_servers)
        send(broker.bootstrap_servers, topic, range(20_000))
        reader = reading(broker, topic, **{"kafka.max.partition.fetch.bytes": "50000"})
        start = reader.initialOffset()
        (partition,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
        batches = reader.read(partition)
        rows = _values(next(batches))
        broker.kill()
        broker.start()
        for batch in batches:
            rows += _values(batch)
        assert list(map(int, rows)) == list(range(20_000))


def test_a_limit_of_bytes_takes_about_so_much(reading, broker):
    topic = make_topic(broker.bootstrap_servers, partitions=2)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition, size in ((0, 100), (1, 1000)):
            table = pa.table({"value": [bytes(size)] * 5_000})
            producer.send_arrow(table, topic=topic, partition=partition).result(20)
    reader = reading(broker, topic, maxBytesPerTrigger="500000")
    assert reader.getDefaultReadLimit() == ReadMaxBytes(500_000)
    start, sizes = reader.initialOffset(), []
    while True:
        end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
        if end == start:
            break
        batches = [batch for each in reader.partitions(start, end) for batch in reader.read(each)]
        sizes.append(sum(len(value) for batch in batches for value in _values(batch)))
        start = end
    assert sum(sizes) == 5_000 * 1_100
    assert all(400_000 < size < 550_000 for size in sizes[:-1]), sizes


def test_tasks_use_the_connections_of_those_before_them(reading, broker):
    topic = make_topic(broker.bootstrap_servers, partitions=3)
    for partition in range(3):
        send(broker.bootstrap_servers, topic, range(10), partition)
    CLUSTERS.close_all()
    reader = reading(broker, topic, **{"kafka.client.id": "counted"})
    _, rows = _next(reader, reader.initialOffset())
    assert len(rows) == 30
    assert len(CLUSTERS) == 1
