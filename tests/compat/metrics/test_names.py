"""The names of a broker's metrics, beside those of Kafka 3.9.1 under the usual rules of the JMX exporter."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from benchmarks import apache_kafka
from benchmarks.apache_kafka import ZooKeeper
from tests.compat.metrics import differences, kafka_mbeans
from tests.compat.metrics.exporter_rules import all_exported
from tests.compat.metrics.kafka_mbeans import KafkaWithJmx
from tests.compat.metrics.pages import OPENMETRICS, Page
from tests.integration.servers import Servers

Labels = dict[str, set[frozenset[str]]]

SETTINGS = {
    "metrics.listeners": "http://127.0.0.1:0",
    "default.replication.factor": 2,
    "offsets.topic.replication.factor": 2,
    "transaction.state.log.replication.factor": 2,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
}
RECORDS = 100
SECONDS = 60.0


def use(servers: str) -> None:
    """A transaction, and a group that reads it and commits."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "names"})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    for _ in range(RECORDS):
        producer.produce("names", b"a record")
    producer.commit_transaction(SECONDS)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "names", "auto.offset.reset": "earliest"})
    consumer.subscribe(["names"])
    read = 0
    while read < RECORDS:
        read += len(consumer.consume(RECORDS - read, SECONDS))
    consumer.commit(asynchronous=False)
    consumer.close()


async def label_names(directory: Path) -> Labels:
    """The names and labels of two brokers in use, in both formats."""
    cluster = Servers(directory, **SETTINGS)
    found: Labels = {}
    await cluster.start(1, 2)
    try:
        servers = ",".join(f"{host}:{port}" for host, port in (each.address for each in cluster.running.values()))
        await asyncio.to_thread(use, servers)
        for server in cluster.running.values():
            assert server.metrics is not None
            for accept in ("*/*", OPENMETRICS):
                page = await asyncio.to_thread(Page.read, server.metrics.addresses[0], accept)
                for name, labels in page.label_names.items():
                    found.setdefault(name, set()).update(labels)
    finally:
        await cluster.stop()
    return found


def test_names_and_labels_are_kafkas_but_for_the_differences_that_are_named(tmp_path: Path) -> None:
    ours = asyncio.run(label_names(tmp_path))
    kafkas: Labels = {}
    for exported in all_exported(kafka_mbeans.shipped()):
        kafkas.setdefault(exported.name, set()).add(exported.label_names)
    own = {name for name in ours if name.startswith(differences.OF_THIS_PROCESS)}
    assert kafkas.keys() - ours.keys() == differences.MISSING.keys()
    assert ours.keys() - kafkas.keys() - own == differences.ADDED.keys()
    other_labels = {name for name in ours.keys() & kafkas.keys() if ours[name] != kafkas[name]}
    assert other_labels == differences.OTHER_LABELS.keys()


@pytest.mark.java
@pytest.mark.long
@pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 240)
def test_the_list_of_mbeans_is_that_of_a_running_kafka(tmp_path: Path) -> None:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    settings = {
        **{name: str(value) for name, value in SETTINGS.items() if name != "metrics.listeners"},
        "offsets.topic.num.partitions": "2",
    }
    with (
        ZooKeeper(tmp_path / "zookeeper") as zookeeper,
        KafkaWithJmx(tmp_path / "1", zookeeper, {**settings, "broker.id": "1"}) as one,
        KafkaWithJmx(tmp_path / "2", zookeeper, {**settings, "broker.id": "2"}) as other,
    ):
        use(one.bootstrap_servers)
        assert one.attributes() | other.attributes() == kafka_mbeans.shipped()
