"""Brokers of Apache Kafka and of ours in one cluster, each in every role, under load that never stops.

Whatever the mixture: nothing that was acknowledged is lost, duplicated or out of order, and in the end all replicas
hold the same bytes.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from benchmarks import apache_kafka
from benchmarks.apache_kafka import KafkaBroker
from benchmarks.processes import BrokerProcess, free_port
from benchmarks.tidelog_broker import TidelogBroker
from tests.compat.chaos.cluster import wait_until
from tests.compat.chaos.java import add_java_clients
from tests.compat.chaos.load import Load
from tests.compat.chaos.observer import Observer, differing_logs
from tests.compat.chaos.run import create_topics, finish
from tests.integration.zookeeper_support import needs_zookeeper
from tidelog.metadata.tree import decode_controller
from tidelog.testing.simulation.history import History
from tidelog.testing.zookeeper import HOST, ZooKeeperServer

pytestmark = [pytest.mark.long, needs_zookeeper]

KAFKA, OURS = "kafka", "ours"
SECONDS = 90.0
RECORDS = 100
"""So many more are acknowledged between two steps."""
SETTINGS = {
    "zookeeper.session.timeout.ms": "3000",
    "zookeeper.connection.timeout.ms": "30000",
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.backoff.ms": "100",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.bytes": "200000",
}


class Mixed:
    """Brokers 1 to 3 on one ZooKeeper, each of either kind, each on a port and a log directory that stay."""

    def __init__(self, directory: Path, zookeeper: ZooKeeperServer) -> None:
        self.directory = directory
        self._zookeeper = zookeeper
        self._ports = {broker: free_port() for broker in (1, 2, 3)}
        self.brokers: dict[int, BrokerProcess] = {}
        self.servers = ",".join(f"{HOST}:{port}" for port in self._ports.values())
        self.observer = Observer(self._ports)

    def log_dir(self, broker: int) -> Path:
        return self.directory / f"broker-{broker}" / "data"

    def start(self, kinds: Mapping[int, str]) -> None:
        for broker, kind in kinds.items():
            self.brokers[broker] = self._new(broker, kind)
            self.brokers[broker].spawn()
        for broker in kinds:
            self.brokers[broker].wait_until_serves()

    def _new(self, broker: int, kind: str) -> BrokerProcess:
        settings = {**SETTINGS, "broker.id": str(broker), "log.dirs": str(self.log_dir(broker))}
        settings["zookeeper.connect"] = self._zookeeper.connect_string
        home = self.directory / f"broker-{broker}"
        is_kafka = kind == KAFKA
        process = KafkaBroker(home, self._zookeeper, settings) if is_kafka else TidelogBroker(home, settings)
        process.port = self._ports[broker]
        return process

    def replace(self, broker: int, kind: str) -> None:
        """A controlled shutdown, then a broker of the other kind on the same directory."""
        self.brokers[broker].stop()
        self.start({broker: kind})

    def kill_and_restart(self, broker: int) -> None:
        self.brokers[broker].kill()
        assert wait_until(lambda: self._is_led_by_others(broker), SECONDS), f"others lead what broker {broker} led"
        self.brokers[broker].start()

    def _is_led_by_others(self, broker: int) -> bool:
        seen = self.observer.metadata(next(each for each in self.brokers if each != broker))
        return seen is not None and all(
            partition.leader not in (broker, -1)
            for topic in seen.topics.values()
            for partition in topic.partitions.values()
        )

    def make_controller(self, broker: int) -> None:
        """Let one broker alone take the place of the controller, while the others are stopped for a moment."""
        others = [each.child.pid for number, each in self.brokers.items() if number != broker]
        with _tree(self._zookeeper) as tree:

            def controller() -> int:
                with contextlib.suppress(Exception):  # there is none for a moment
                    return decode_controller(tree.get("/controller")[0])
                return -1

            for pid in others:
                os.kill(pid, signal.SIGSTOP)
            try:
                if controller() != broker:
                    tree.delete("/controller")
                assert wait_until(lambda: controller() == broker, SECONDS), f"broker {broker} is controller"
            finally:
                for pid in others:
                    os.kill(pid, signal.SIGCONT)
        self.wait_until_healthy()
        assert wait_until(lambda: self._all_name(broker), SECONDS), f"all brokers know that {broker} is controller"

    def _all_name(self, controller: int) -> bool:
        seen = [self.observer.metadata(broker) for broker in self.brokers]
        return all(each is not None and each.controller_id == controller for each in seen)

    def wait_until_healthy(self) -> None:
        assert wait_until(lambda: not self.observer.ailments(), SECONDS), self.observer.ailments()

    def close(self) -> None:
        for broker in self.brokers.values():
            with contextlib.suppress(Exception):
                os.kill(broker.child.pid, signal.SIGCONT)
            broker.kill()


@contextlib.contextmanager
def _tree(zookeeper: ZooKeeperServer) -> Iterator[KazooClient]:
    client = KazooClient(hosts=zookeeper.connect_string, timeout=30)
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Mixed]:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    with ZooKeeperServer() as zookeeper:
        cluster = Mixed(tmp_path, zookeeper)
        try:
            yield cluster
        finally:
            cluster.close()


def under_load(cluster: Mixed, kinds: Mapping[int, str], play: Callable[[Callable[[], None]], None]) -> None:
    """Run a play while clients write and read; `play` is given a function that lets them get on with it."""
    cluster.start(kinds)
    create_topics(cluster.servers)
    load = Load(History(), cluster.servers, random.Random(0))
    load.start(["confluent"])
    add_java_clients(load)

    def go_on() -> None:
        count = load.counts["acknowledged sends"] + RECORDS
        assert wait_until(lambda: load.counts["acknowledged sends"] >= count, SECONDS), "clients write"
        cluster.wait_until_healthy()

    try:
        go_on()
        play(go_on)
        go_on()
        anomalies = finish(load)
    finally:
        load.stop()
    assert anomalies == []
    assert load.counts["transactions committed"] > 0
    directories = {broker: cluster.log_dir(broker) for broker in cluster.brokers}
    assert wait_until(lambda: not differing_logs(directories), SECONDS), differing_logs(directories)


@pytest.mark.parametrize(
    "kinds",
    [{1: KAFKA, 2: OURS, 3: OURS}, {1: KAFKA, 2: OURS, 3: KAFKA}],
    ids=["one Kafka and two of ours", "two Kafkas and one of ours"],
)
def test_each_broker_is_controller_and_is_killed_in_turn(mixed: Mixed, kinds: Mapping[int, str]) -> None:
    def play(go_on: Callable[[], None]) -> None:
        for broker in mixed.brokers:
            mixed.make_controller(broker)
            go_on()
            mixed.kill_and_restart(broker)
            go_on()

    under_load(mixed, kinds, play)


def test_three_kafkas_become_three_of_ours_and_kafkas_again(mixed: Mixed) -> None:
    """One broker at a time, on the same directory, as docs/operations.md says."""

    def play(go_on: Callable[[], None]) -> None:
        for kind in (OURS, KAFKA):
            for broker in (1, 2, 3):
                mixed.replace(broker, kind)
                go_on()

    under_load(mixed, {1: KAFKA, 2: KAFKA, 3: KAFKA}, play)
