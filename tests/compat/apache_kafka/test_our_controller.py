"""Three brokers of Apache Kafka and one of ours, whose controller takes over from Kafka's and gives back to it."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import apache_kafka
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from tests.integration.servers import member_of
from tests.unit.present import present
from tidelog.broker.server import Server
from tidelog.broker.surroundings import Surroundings
from tidelog.config import load_broker_config
from tidelog.controller.events import ElectionType
from tidelog.controller.partitions import Leadership
from tidelog.metadata import paths
from tidelog.metadata.tree import ReplicaAssignment, decode_controller
from tidelog.metadata.zookeeper import ZooKeeperStore
from tidelog.metadata.zookeeper_options import ZooKeeperOptions
from tidelog.testing._settings import broker_properties
from tidelog.wire.partitions import TopicPartition

OURS = 99
SETTINGS = {
    "zookeeper.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "4000",
    "offsets.topic.num.partitions": "3",
}
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Cluster:
    """Brokers of Kafka on one ZooKeeper."""

    def __init__(self, directory: Path) -> None:
        self.zookeeper = ZooKeeper(directory / "zookeeper").start()
        self.directory = directory
        self.brokers = {
            broker_id: KafkaBroker(
                directory / f"broker-{broker_id}", self.zookeeper, {**SETTINGS, "broker.id": str(broker_id)}
            )
            for broker_id in (1, 2, 3)
        }
        self._running: set[int] = set()
        self.ours: str | None = None
        """The address of our broker while it runs."""

    def start(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.brokers[broker_id].spawn()
            self._running.add(broker_id)
        for broker_id in broker_ids:
            self.brokers[broker_id].wait_until_serves()

    def stop(self, broker_id: int) -> None:
        """SIGTERM: the broker asks the controller to move its leaderships first."""
        self._running.discard(broker_id)
        self.brokers[broker_id].stop()

    def kill(self, broker_id: int) -> None:
        self._running.discard(broker_id)
        self.brokers[broker_id].kill()

    def close(self) -> None:
        for broker_id in list(self._running):
            self.kill(broker_id)
        self.zookeeper.stop()

    @property
    def servers(self) -> str:
        theirs = [self.brokers[broker_id].bootstrap_servers for broker_id in sorted(self._running)]
        return ",".join([*theirs, *([] if self.ours is None else [self.ours])])

    def logs(self, broker_id: int, partition: TopicPartition) -> list[Path]:
        return list((self.directory / f"broker-{broker_id}").rglob(str(partition)))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


def produce(servers: str, values: range, **settings: Any) -> None:
    """Every record is acknowledged by all replicas that are in sync."""
    failures: list[object] = []

    def on_delivery(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": servers, "acks": "all", "message.timeout.ms": 90_000, **settings})
    for value in values:
        producer.produce("orders", value=str(value), partition=value % 2, on_delivery=on_delivery)
        producer.poll(0)
    assert producer.flush(100) == 0
    assert not failures


def consume(servers: str, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([ConfluentPartition("orders", index, 0) for index in range(2)])
    values: list[int] = []
    deadline = time.monotonic() + 60
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append(int(present(message.value())))
    consumer.close()
    return sorted(values)


def create_topic(servers: str, name: str, partitions: int, factor: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, partitions, factor)])[name].result(60)


def await_controller(cluster: Cluster, among: set[int]) -> None:
    """Return when every broker names one of these; a client that gets another one waits for it for a minute."""
    deadline = time.monotonic() + 60
    for broker in cluster.brokers.values():
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        while admin.list_topics(timeout=30).controller_id not in among:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def delete_topic(servers: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([name])[name].result(60)


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.05)


@pytest.mark.long
def test_kafka_brokers_follow_a_controller_of_ours(cluster: Cluster) -> None:
    async def main() -> None:
        async with asyncio.timeout(400):
            await play(cluster)

    asyncio.run(main())


def our_broker(directory: Path, connect: str) -> Server:
    properties = broker_properties({"broker.id": OURS, **SETTINGS}, str(directory), None)
    surroundings = dataclasses.replace(
        Surroundings.of_this_machine(),
        open_store=lambda *_: ZooKeeperStore(connect, ZooKeeperOptions(session_timeout_ms=6000)),
        is_clustered=True,
    )
    return Server(load_broker_config(properties), surroundings)


async def play(cluster: Cluster) -> None:
    in_thread = asyncio.to_thread
    await in_thread(cluster.start, 1)
    await in_thread(create_topic, cluster.servers, "orders", 2)

    ours = our_broker(cluster.directory / "ours", cluster.zookeeper.connect_string)
    await ours.start()
    cluster.ours = "{}:{}".format(*ours.address)
    service = member_of(ours).controller
    controller = service.controller
    context = controller.context

    def led(partition: TopicPartition) -> Leadership:
        return context.leaderships[partition]

    try:
        # Kafka's controller stops, and ours takes over what it has made.
        await until(lambda: controller.active_id == 1)
        await in_thread(cluster.stop, 1)
        await until(lambda: SECOND in context.partition_states)
        assert (controller.is_active, controller.epoch) == (True, 2)
        await in_thread(cluster.start, 1, 2, 3)
        await until(lambda: sorted(context.live_brokers) == [1, 2, 3, OURS])
        await until(lambda: led(FIRST).leader == led(SECOND).leader == 1)
        await in_thread(produce, cluster.servers, range(100))

        # Reassignment: leaders ask for each replica that is in sync; our broker follows one of Kafka's.
        await service.alter_reassignments({FIRST: (1, 2, 3), SECOND: (2, OURS)})
        await until(lambda: not context.reassigning)
        assert context.assignment(SECOND) == ReplicaAssignment((2, OURS))
        assert set(led(FIRST).isr) == {1, 2, 3}
        assert set(led(SECOND).isr) == {2, OURS}
        await until(lambda: not cluster.logs(1, SECOND))
        await in_thread(produce, cluster.servers, range(100, 200), **{"enable.idempotence": True})

        # A leader that is killed is replaced, and catches up when it is back.
        assert led(FIRST).leader == 1
        await in_thread(cluster.kill, 1)
        await until(lambda: led(FIRST).leader in (2, 3))
        await in_thread(produce, cluster.servers, range(200, 300))
        await in_thread(cluster.start, 1)
        await until(lambda: set(led(FIRST).isr) == {1, 2, 3})
        assert (await service.elect_leaders((FIRST,), ElectionType.PREFERRED)) == {FIRST: 1}

        # A broker that is stopped hands its leaderships over before it goes: to ours.
        assert led(SECOND).leader == 2
        await in_thread(cluster.stop, 2)
        await until(lambda: 2 not in context.live_brokers)
        assert led(SECOND).leader == OURS
        await in_thread(produce, cluster.servers, range(300, 400))
        assert await in_thread(consume, cluster.servers, 400) == list(range(400))

        # A broker of Kafka follows ours, and takes over again.
        await in_thread(cluster.start, 2)
        await until(lambda: set(led(SECOND).isr) == {2, OURS})
        assert (await service.elect_leaders((SECOND,), ElectionType.PREFERRED)) == {SECOND: 2}
        await in_thread(produce, cluster.servers, range(400, 500))
        assert await in_thread(consume, cluster.servers, 500) == list(range(500))

        # Topics of the whole cluster, created and deleted through our broker.
        await in_thread(create_topic, cluster.servers, "ours", 4, 3)
        await in_thread(delete_topic, cluster.servers, "orders")
        await until(lambda: "orders" not in context.topics)
        assert not any(cluster.logs(each, FIRST) for each in (1, 2, 3))
    finally:
        await ours.stop()
        cluster.ours = None

    # Our controller has given up, and Kafka's goes on.
    store = ZooKeeperStore(cluster.zookeeper.connect_string)
    try:
        await until(lambda: store.exists(paths.CONTROLLER) is not None)
        assert decode_controller(store.get(paths.CONTROLLER)[0]) in (1, 2, 3)
        await in_thread(await_controller, cluster, {1, 2, 3})
        await in_thread(create_topic, cluster.servers, "after", 3)
        assert store.get(paths.CONTROLLER_EPOCH)[0] == b"3"
    finally:
        store.close()
