"""Segment files that Apache Kafka writes, read as Spark's tasks read them, while Kafka has them open."""

import json
from typing import Any

import pytest

from benchmarks.apache_kafka import KafkaBroker
from tests.integration.writers import wait_until
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import NewTopic
from tidelog.client.consumer import Consumer
from tidelog.client.producer import Producer
from tidelog.client.types import TopicPartition
from tidelog.spark.source.columns import full_schema
from tidelog.spark.source.files import SegmentFileReader

TOPIC = "files-of-kafka"
PARTITIONS = 2


@pytest.fixture(scope="module")
def written(kafka: KafkaBroker) -> KafkaBroker:
    """Every codec, several segments, transactions that were committed and aborted."""
    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, configs={"segment.bytes": "4000"})])
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with Producer({**servers, "compression.type": codec}) as producer:
            for number in range(100):
                producer.send(TOPIC, b"%s-%d" % (codec.encode(), number), key=b"k%d" % number, headers=[("c", b"1")])
                if number % 25 == 0:
                    producer.flush()
    for name in ("commit", "abort", "commit"):
        with Producer({**servers, "transactional.id": f"files-{name}"}) as producer:
            producer.init_transactions()
            producer.begin()
            for number in range(60):
                producer.send(TOPIC, b"%s-%d" % (name.encode(), number), partition=number % PARTITIONS)
                if number % 10 == 0:
                    producer.flush()
            producer.commit() if name == "commit" else producer.abort()
    # Kafka answers when the end of a transaction is decided; a moment later its markers are in the files.
    wait_until(lambda: _ends(kafka, "read_committed") == _ends(kafka, "read_uncommitted"), "the last markers")
    return kafka


def _ends(kafka: KafkaBroker, isolation: str) -> dict[TopicPartition, int]:
    with Consumer({"bootstrap.servers": kafka.bootstrap_servers, "isolation.level": isolation}) as consumer:
        return dict(consumer.end_offsets(*(TopicPartition(TOPIC, partition) for partition in range(PARTITIONS))))


def _consumed(kafka: KafkaBroker, isolation: str) -> list[tuple[Any, ...]]:
    partitions = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "isolation.level": isolation}
    rows: list[tuple[Any, ...]] = []
    with Consumer({**settings, "enable.auto.commit": False}) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(*partitions)
        while any(consumer.position(each) < ends[each] for each in partitions):
            rows += [
                (each.partition, each.offset, each.key, each.value, each.timestamp, len(each.headers))
                for each in consumer.poll(0.5)
            ]
    return sorted(rows)


def _read(kafka: KafkaBroker, **options: str) -> list[tuple[Any, ...]]:
    given = {"path": str(kafka.log_dir), "subscribe": TOPIC, "includeheaders": "true", **options}
    reader = SegmentFileReader(full_schema(given), given)
    splits = reader.partitions()
    assert len(splits) > PARTITIONS, "a split for each segment"
    return sorted(
        (
            row["partition"],
            row["offset"],
            row["key"],
            row["value"],
            round(row["timestamp"].timestamp() * 1000),
            len(row["headers"] or ()),
        )
        for split in splits
        for batch in reader.read(split)
        for row in batch.to_pylist()
    )


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_files_hold_what_a_consumer_gets(written: KafkaBroker, isolation: str) -> None:
    assert _read(written, **{"kafka.isolation.level": isolation}) == _consumed(written, isolation)


def test_aborted_records_are_in_the_files_and_not_in_the_rows(written: KafkaBroker) -> None:
    committed = {row[3].partition(b"-")[0] for row in _read(written)}
    everything = {row[3].partition(b"-")[0] for row in _read(written, **{"isolation.level": "read_uncommitted"})}
    assert b"abort" in everything - committed
    assert b"commit" in committed


def test_offsets_and_times_are_found_by_kafkas_own_indexes(written: KafkaBroker) -> None:
    rows = _read(written)
    middle = [row for row in rows if row[0] == 0][200]
    bounds = json.dumps({TOPIC: {"0": middle[1], "1": 0}})
    assert _read(written, startingoffsets=bounds)[0] == middle
    after = _read(written, startingtimestamp=str(middle[4]))
    assert {row for row in rows if row[4] >= middle[4]} <= set(after)
    assert len(after) < len(rows)
