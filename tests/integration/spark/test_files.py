"""Segment files read by Spark: the files of a broker at work, and of one that is gone."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.unit.present import present
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import NewTopic
from tidelog.client.consumer import Consumer
from tidelog.client.producer import Producer
from tidelog.client.types import TopicPartition
from tidelog.testing import Broker

pytestmark = pytest.mark.spark

TOPIC = "ledger"
PARTITIONS = 2


@pytest.fixture(scope="module")
def written(broker: Broker) -> Iterator[Broker]:
    """Several segments in two partitions: plain, compressed and transactional records, one transaction left open."""
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, configs={"segment.bytes": "4000"})])
    with Producer({**servers, "compression.type": "lz4"}) as producer:
        for number in range(300):
            producer.send(TOPIC, b"plain-%d" % number, key=b"k%d" % (number % 7), headers=[("n", b"%d" % number)])
    for is_kept in (True, False, True):
        _transaction(servers, is_kept)
    with Producer({**servers, "transactional.id": "open"}) as producer:
        producer.init_transactions()
        producer.begin()
        producer.send(TOPIC, b"aborted, never seen", partition=0)
        producer.flush()
        yield broker
        producer.abort()


def _transaction(servers: dict[str, str], is_kept: bool) -> None:
    with Producer({**servers, "transactional.id": "ledger"}) as producer:
        producer.init_transactions()
        producer.begin()
        for number in range(200):
            producer.send(TOPIC, b"%s-%d" % (b"kept" if is_kept else b"lost", number), partition=number % PARTITIONS)
            if number % 20 == 0:
                producer.flush()
        producer.commit() if is_kept else producer.abort()


def _consumed(broker: Broker) -> list[tuple[int, int, bytes | None, bytes]]:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
    }
    partitions = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    rows: list[tuple[int, int, bytes | None, bytes]] = []
    with Consumer(settings) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(*partitions)
        while any(consumer.position(each) < ends[each] for each in partitions):
            rows += [(each.partition, each.offset, each.key, present(each.value)) for each in consumer.poll(0.5)]
    return sorted(rows)


def test_files_hold_what_a_read_committed_consumer_sees(spark: SparkSession, written: Broker) -> None:
    read = spark.read.format("tidelog").option("includeHeaders", "true").load(written.data_dir)
    found = read.where(f"topic = '{TOPIC}'").cache()
    expected = _consumed(written)
    assert sorted((row.partition, row.offset, row.key, row.value) for row in found.collect()) == [
        (partition, offset, key, value) for partition, offset, key, value in expected
    ]
    assert len([row for row in expected if row[3].startswith(b"kept")]) == 400
    assert not [row for row in expected if row[3].startswith((b"lost", b"aborted"))]
    with_headers = found.where("headers is not null").collect()
    assert {row.headers[0].value for row in with_headers} == {b"%d" % number for number in range(300)}
    found.unpersist()


def test_segments_are_read_side_by_side(spark: SparkSession, written: Broker) -> None:
    directory = f"{written.data_dir}/{TOPIC}-0"
    read = spark.read.format("tidelog").option("path", directory).schema("offset long, value binary").load()
    assert read.columns == ["offset", "value"]
    assert read.rdd.getNumPartitions() > 1


def test_damage_is_reported_with_file_and_position(spark: SparkSession, written: Broker, tmp_path: Path) -> None:
    """On a copy: the broker's own files are never touched."""
    segment = sorted((Path(written.data_dir) / f"{TOPIC}-1").glob("*.log"))[0]
    copy = tmp_path / "ledger-1" / segment.name
    copy.parent.mkdir()
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    copy.write_bytes(data)
    query = spark.read.format("tidelog").option("path", str(tmp_path)).schema("offset long").load()
    with pytest.raises(PySparkException, match=r"\.log is damaged at byte 0: the checksum of the batch at offset 0"):
        query.collect()


def test_offsets_narrow_what_is_read(spark: SparkSession, written: Broker) -> None:
    bounds = {"startingOffsets": {TOPIC: {"0": 5, "1": 0}}, "endingOffsets": {TOPIC: {"0": 12, "1": 3}}}
    options = {name: json.dumps(value) for name, value in bounds.items()}
    read = spark.read.format("tidelog").options(subscribe=TOPIC, **options).load(written.data_dir)
    found = sorted((row.partition, row.offset) for row in read.select("partition", "offset").collect())
    assert found == [(0, offset) for offset in range(5, 12)] + [(1, offset) for offset in range(3)]
