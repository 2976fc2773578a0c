"""One ZooKeeper, used by Apache Kafka and by our store: each reads what the other writes there."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from tests.unit.present import present
from tidelog.metadata import paths
from tidelog.metadata.cluster_id import generate_broker_id, get_cluster_id
from tidelog.metadata.loading import load_image
from tidelog.metadata.registration import BrokerIdTakenError, prepare_tree, register_broker
from tidelog.metadata.tree import (
    BrokerRegistration,
    Endpoint,
    decode_broker,
    decode_config,
    decode_config_change,
    decode_controller,
    decode_partition_state,
    decode_topic,
    encode_broker,
    encode_cluster_id,
    encode_config,
    encode_config_change,
    encode_controller,
    encode_features,
    encode_partition_state,
    encode_topic,
)
from tidelog.metadata.walk import subtree
from tidelog.metadata.zookeeper import ZooKeeperStore
from tidelog.metadata.zookeeper_options import ZooKeeperOptions

pytestmark = [pytest.mark.java, pytest.mark.long]

CHROOT = "/shared/tree"


@pytest.fixture(scope="module")
def address(zookeeper: ZooKeeper) -> str:
    return zookeeper.connect_string + CHROOT


@pytest.fixture(scope="module")
def store(address: str) -> Iterator[ZooKeeperStore]:
    """Opened before Kafka starts: the chroot and the roots are ours, and Kafka has to be content with them."""
    store = ZooKeeperStore(address, ZooKeeperOptions(session_timeout_ms=6_000))
    prepare_tree(store)
    yield store
    store.close()


@pytest.fixture(scope="module")
def kafka(zookeeper: ZooKeeper, store: ZooKeeperStore, address: str, tmp_path_factory: pytest.TempPathFactory):
    settings = {"zookeeper.connect": address, "broker.rack": "r0"}
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), zookeeper, settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(kafka: KafkaBroker) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{kafka.port}"})
    admin.create_topics([NewTopic("t", 3, 1, config={"retention.ms": "1000"})])["t"].result(30)
    change = ConfigEntry("retention.ms", "2000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "t", incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(30)
    return admin


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_kafka_writes_is_read(kafka: KafkaBroker, store: ZooKeeperStore, admin: AdminClient) -> None:
    cluster_id = present(get_cluster_id(store))
    assert cluster_id == admin.list_topics(timeout=30).cluster_id
    image = load_image(store, cluster_id)
    assert image.controller_id == 0
    broker = image.broker(0)
    assert broker is not None
    assert broker.rack == "r0"
    assert broker.endpoint("PLAINTEXT") == Endpoint("PLAINTEXT", "127.0.0.1", kafka.port)
    topic = image.topic("t")
    assert topic is not None
    assert [partition.leader_id for partition in topic.partitions] == [0, 0, 0]
    assert image.overrides("t") == {"retention.ms": "2000"}


def test_what_kafka_writes_is_what_we_would_have_written(store: ZooKeeperStore, admin: AdminClient) -> None:
    """Each node, decoded and encoded again, is the same JSON."""

    def timestamp(path: str) -> int:
        return int(json.loads(store.get(path)[0])["timestamp"])

    change = paths.CONFIG_CHANGES + "/" + store.children(paths.CONFIG_CHANGES)[0]
    again = {
        paths.CLUSTER_ID: lambda data: encode_cluster_id(get_cluster_id(store) or ""),
        paths.CONTROLLER: lambda data: encode_controller(decode_controller(data), timestamp(paths.CONTROLLER)),
        paths.broker(0): lambda data: encode_broker(decode_broker(0, data)),
        paths.topic("t"): lambda data: encode_topic(decode_topic("t", data)),
        paths.partition_state("t", 1): lambda data: encode_partition_state(decode_partition_state("t", 1, data)),
        paths.config("topics", "t"): lambda data: encode_config(decode_config("topics", "t", data)),
        paths.FEATURES: lambda data: encode_features(),
        change: lambda data: encode_config_change(decode_config_change(change, data)),
    }
    for path, encoded_again in again.items():
        data = store.get(path)[0]
        assert json.loads(encoded_again(data)) == json.loads(data), path


def test_the_roots_are_those_that_kafka_makes(store: ZooKeeperStore, zookeeper: ZooKeeper, admin: AdminClient) -> None:
    """In a tree that Kafka made alone nothing is missing that we make, and no root is there that we do not know."""
    with KafkaBroker(
        Path(zookeeper.directory) / "alone", zookeeper, {"zookeeper.connect": f"{zookeeper.connect_string}/alone"}
    ):
        alone = ZooKeeperStore(f"{zookeeper.connect_string}/alone", ZooKeeperOptions())
        try:
            theirs = set(subtree(alone, "/"))
        finally:
            alone.close()
    ours = set(paths.PERSISTENT_ROOTS)
    assert ours <= theirs
    assert "/migration" not in theirs
    made_later = (paths.CLUSTER_ID, "/controller", "/controller_epoch", "/feature", paths.broker(0))
    unknown = {path for path in theirs if not any(root.startswith(path) for root in (*ours, *made_later))}
    assert unknown <= {"/config/topics/__consumer_offsets", "/latest_producer_id_block"}, unknown


def test_kafka_reads_our_registration_and_forgets_it_with_the_session(
    store: ZooKeeperStore, address: str, admin: AdminClient
) -> None:
    registration = BrokerRegistration(
        1,
        (Endpoint("PLAINTEXT", "127.0.0.1", 19092), Endpoint("INTERNAL", "::1", 19093, "PLAINTEXT")),
        rack="r1",
        timestamp_ms=1_700_000_000_000,
    )
    ours = ZooKeeperStore(address, ZooKeeperOptions(session_timeout_ms=6_000))
    try:
        register_broker(ours, registration)
        wait_until(lambda: 1 in admin.list_topics(timeout=30).brokers)
        seen = admin.list_topics(timeout=30).brokers[1]
        assert (seen.host, seen.port) == ("127.0.0.1", 19092)
        wait_until(lambda: {node.id: node.rack for node in admin.describe_cluster().result(30).nodes}.get(1) == "r1")
    finally:
        ours.close()
    wait_until(lambda: 1 not in admin.list_topics(timeout=30).brokers)


def test_the_id_of_a_living_kafka_broker_is_taken(store: ZooKeeperStore, admin: AdminClient) -> None:
    with pytest.raises(BrokerIdTakenError):
        register_broker(store, BrokerRegistration(0, (Endpoint("PLAINTEXT", "127.0.0.1", 19092),)))


def test_generated_broker_ids_continue_those_of_kafka(store: ZooKeeperStore, admin: AdminClient) -> None:
    first = generate_broker_id(store, 1000)
    assert (first, generate_broker_id(store, 1000)) == (1001, 1002)
