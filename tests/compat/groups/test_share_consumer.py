"""confluent-kafka's ShareConsumer (librdkafka) on a broker and on a cluster whose brokers are killed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest

from tidelog.client import Producer
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
