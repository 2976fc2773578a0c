"""`tidelog cluster migrate`: a single broker's metadata moves to a ZooKeeper, and its records stay."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli_support import run, run_here
from tests.integration.zookeeper_support import fresh_chroot, needs_zookeeper, shared_server
from tests.unit.present import present
from tidelog.client import Admin, ConfigResource, Consumer, Producer, ResourceType, TopicPartition
from tidelog.testing import Broker, BrokerFailed

pytestmark = needs_zookeeper


@pytest.fixture
def address() -> str:
    return fresh_chroot(shared_server())


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that had two topics, records in one of them, and was stopped."""
    broker = Broker(data_dir=tmp_path, process=True)
    with broker:
        broker.create_topic("orders", partitions=3, config={"retention.ms": "86400000"})
        broker.create_topic("empty")
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(30):
                producer.send("orders", b"%d" % number, partition=number % 3)
            producer.flush()
    yield broker
    if broker.is_running:
        broker.stop()


def migrate(broker: Broker, address: str, *more: str):
    return run_here("cluster", "migrate", "--data", str(broker.data_dir), "--zookeeper", address, *more)


def values(broker: Broker) -> list[bytes]:
    partitions = [TopicPartition("orders", index) for index in range(3)]
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        found: list[bytes] = []
        while len(found) < 30:
            found += [present(record.value) for record in consumer.poll(30)]
    return sorted(found, key=int)


def test_the_broker_goes_on_with_its_topics_settings_and_records(broker: Broker, address: str) -> None:
    done = migrate(broker, address)
    assert done.code == 0, done.err
    assert "2 topics" in done.out
    assert f"zookeeper.connect={address}" in done.out
    with pytest.raises(BrokerFailed, match=rf"was moved to a ZooKeeper: set zookeeper\.connect={address}"):
        broker.start()
    moved = Broker({"zookeeper.connect": address}, data_dir=broker.data_dir, process=True)
    with moved:
        assert values(moved) == [b"%d" % number for number in range(30)]
        with Admin(bootstrap_servers=moved.bootstrap_servers) as admin:
            assert {"orders", "empty"} <= {topic.name for topic in admin.list_topics()}
            orders = ConfigResource(ResourceType.TOPIC, "orders")
            assert admin.describe_configs([orders])[orders]["retention.ms"].value == "86400000"
    assert migrate(broker, address, "--format", "json").document["was_done"]


def test_a_broker_that_runs_is_not_migrated(broker: Broker, address: str) -> None:
    broker.start()
    done = migrate(broker, address)
    assert done.code == 1
    assert "is in use by another process" in done.err


def test_what_is_wrong_is_named(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    done = run_here("cluster", "migrate", "--data", str(tmp_path / "nothing"), "--zookeeper", "localhost:1")
    assert "has no tidelog-metadata.sqlite: give the first of the broker's log.dirs" in done.err
    server = shared_server().connect_string
    done = migrate(broker, f"{server}/zookeeper")
    assert "is not empty" in done.err
    (tmp_path / "patience.properties").write_text("zookeeper.connection.timeout.ms=100\n")
    done = migrate(broker, "127.0.0.1:1/x", "--config", str(tmp_path / "patience.properties"))
    assert done.code == 1
    assert "cannot be reached within 100 ms" in done.err


def test_help_ends_with_an_example() -> None:
    assert "Example: tidelog cluster migrate --data" in " ".join(run("cluster", "migrate", "--help").out.split())
