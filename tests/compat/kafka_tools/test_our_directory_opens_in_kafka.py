"""Apache Kafka 3.9.1 opens a data directory that our broker wrote, and goes on from there."""

import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks import frames
from benchmarks.admin import Admin
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from tests.compat.kafka_tools.brokers import kafka_on
from tests.compat.kafka_tools.samples import IDEMPOTENT, SEGMENTED, WrittenLog, read_all

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def kafka(our_log: WrittenLog, zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Kafka on a copy of our directory."""
    home = tmp_path_factory.mktemp("kafka-on-ours")
    shutil.copytree(our_log.directory, home / "data")
    with kafka_on(zookeeper, home, replace(our_log, directory=home / "data")) as broker:
        yield broker


def test_kafka_serves_every_record_that_we_wrote(our_log: WrittenLog, kafka: KafkaBroker) -> None:
    found = read_all(kafka, {topic: len(sent) for topic, sent in our_log.records.items()})
    for topic, sent in our_log.records.items():
        assert found[topic] == dict(enumerate(sent)), topic


def test_kafka_serves_our_topics_under_the_ids_we_gave_them(our_log: WrittenLog, kafka: KafkaBroker) -> None:
    with Admin.connect(kafka.address) as admin:
        assert {topic: admin.describe(topic).topic_id for topic in our_log.topic_ids} == our_log.topic_ids


def test_kafka_knows_a_retry_of_a_batch_that_we_took(our_log: WrittenLog, kafka: KafkaBroker) -> None:
    with Admin.connect(kafka.address) as admin:
        end = admin.offsets(IDEMPOTENT)
        batch = our_log.idempotent[-1]
        assert admin.produce(IDEMPOTENT, 0, batch.records) == batch.base_offset
        assert admin.offsets(IDEMPOTENT) == end


def test_kafka_goes_on_where_we_ended(our_log: WrittenLog, kafka: KafkaBroker) -> None:
    with Admin.connect(kafka.address) as admin:
        assert admin.produce(SEGMENTED, 0, frames.batch([b"Kafka's"])) == len(our_log.records[SEGMENTED])
