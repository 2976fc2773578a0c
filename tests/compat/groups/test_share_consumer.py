"""confluent-kafka's ShareConsumer (librdkafka) on a broker and on a cluster whose brokers are killed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest

from tidelog.client import Admin, ConfigChange, ConfigResource, Producer, ResourceType
from tidelog.testing import Broker, Cluster

confluent_kafka = pytest.importorskip("confluent_kafka")
pytestmark = pytest.mark.skipif(
    not hasattr(confluent_kafka, "ShareConsumer"), reason="confluent-kafka before 2.16 has no share consumer"
)
TOPIC = "work"


class Worker(threading.Thread):
    """A consumer that accepts what it gets, until it is stopped. With acknowledgements that are implicit."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        settings = {"bootstrap.servers": servers, "group.id": "workers", "log_level": 0}
        self._consumer: Any = confluent_kafka.ShareConsumer(settings)
        self._consumer.subscribe([TOPIC])
        self._stopped = threading.Event()
        self.is_idle = threading.Event()
        self.values: list[bytes] = []

    def run(self) -> None:
        while not self._stopped.is_set():
            for message in self._consumer.poll(timeout=0.3):
                if message.error() is None:
                    self.values.append(message.value())
            self.is_idle.set()
        self._consumer.poll(timeout=0.3)
        self._consumer.close()

    def stop(self) -> None:
        self._stopped.set()
        self.join(30)


def write(servers: str, values: range) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for value in values:
            producer.send(TOPIC, str(value).encode())


def until_all_are_there(workers: list[Worker], count: int) -> Counter[bytes]:
    deadline = time.monotonic() + 60
    while True:
        found = Counter(value for worker in workers for value in worker.values)
        if len(found) == count:
            return found
        assert time.monotonic() < deadline, f"{len(found)} of {count} values came"
        time.sleep(0.1)


def until_something_comes(servers: str, workers: list[Worker]) -> None:
    """Groups begin at the end of a topic: write until each consumer's partitions are known to be read."""
    deadline = time.monotonic() + 30
    while not all(worker.values for worker in workers):
        assert time.monotonic() < deadline, "a consumer gets nothing"
        with Producer(bootstrap_servers=servers) as producer:
            for partition in range(2):
                for _ in range(4):
                    producer.send(TOPIC, b"ready", partition=partition)
        time.sleep(0.3)


def test_consumers_of_one_partition_share_its_records_and_each_is_delivered_once() -> None:
    with Broker({"group.share.heartbeat.interval.ms": 200}) as broker:
        broker.create_topic(TOPIC, partitions=2)
        workers = [Worker(broker.bootstrap_servers) for _ in range(3)]
        for worker in workers:
            worker.start()
        try:
            until_something_comes(broker.bootstrap_servers, workers)
            write(broker.bootstrap_servers, range(500))
            found = until_all_are_there(workers, 501)
        finally:
            for worker in workers:
                worker.stop()
        assert all(found[str(value).encode()] == 1 for value in range(500))


@pytest.mark.long
def test_no_record_is_lost_while_brokers_are_killed() -> None:
    config = {"share.coordinator.state.topic.num.partitions": 3, "share.coordinator.state.topic.min.isr": 1}
    with Cluster(3, {**config, "min.insync.replicas": 1}) as cluster:
        cluster.create_topic(TOPIC, 2)
        workers = [Worker(cluster.bootstrap_servers) for _ in range(2)]
        for worker in workers:
            worker.start()
        try:
            until_something_comes(cluster.bootstrap_servers, workers)
            for turn, broker_id in enumerate((1, 2, 3)):
                write(cluster.bootstrap_servers, range(turn * 200, turn * 200 + 200))
                cluster.kill(broker_id)
                cluster.restart(broker_id)
            until_all_are_there(workers, 601)
        finally:
            for worker in workers:
                worker.stop()


def test_a_plain_consumer_has_retries_with_a_delay_and_dead_letters_without_code_for_them() -> None:
    """What it releases comes again after the group's delay; what it rejects has a dead letter."""
    settings = {"group.share.heartbeat.interval.ms": 200, "errors.deadletterqueue.auto.create.topics.enable": True}
    with Broker(settings) as broker:
        broker.create_topic(TOPIC)
        changes = {
            "share.auto.offset.reset": "earliest",
            "share.retry.delays": "700ms",
            "errors.deadletterqueue.topic.name": "dlq.work",
            "errors.deadletterqueue.copy.record.enable": "true",
        }
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            resource = ConfigResource(ResourceType.GROUP, "workers")
            admin.incremental_alter_configs({resource: [ConfigChange(*each) for each in changes.items()]})
        write(broker.bootstrap_servers, range(3))
        own: dict[str, Any] = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "workers",
            "share.acknowledgement.mode": "explicit",
            "log_level": 0,
        }
        kinds = confluent_kafka.AcknowledgeType
        released_at = 0.0
        consumer: Any = confluent_kafka.ShareConsumer(own)
        consumer.subscribe([TOPIC])
        try:
            seen: list[bytes] = []
            deadline = time.monotonic() + 60
            while len(seen) < 4:
                assert time.monotonic() < deadline, f"only {seen} came"
                for message in consumer.poll(timeout=0.3):
                    value = message.value()
                    kind = {b"0": kinds.ACCEPT, b"1": kinds.REJECT}.get(value, kinds.RELEASE)
                    if value in seen:
                        assert time.monotonic() - released_at >= 0.6
                        kind = kinds.ACCEPT
                    elif kind == kinds.RELEASE:
                        released_at = time.monotonic()
                    seen.append(value)
                    consumer.acknowledge(message, kind)
                consumer.commit_sync(30.0)
        finally:
            consumer.close()
        assert sorted(seen) == [b"0", b"1", b"2", b"2"]
        letters: Any = confluent_kafka.Consumer(
            {"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers", "log_level": 0}
        )
        letters.assign([confluent_kafka.TopicPartition("dlq.work", 0, 0)])
        letter = None
        while letter is None or letter.error() is not None:
            assert time.monotonic() < deadline + 60, "there is no dead letter"
            letter = letters.poll(0.3)
        letters.close()
        assert letter.value() == b"1"
        assert dict(letter.headers())["__dlq.errors.group"] == b"workers"
