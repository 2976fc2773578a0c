"""Three brokers on a real ZooKeeper that is killed, hangs and comes back: nothing acknowledged is lost."""

import resource
import time
from collections.abc import Callable, Iterator

import pytest

from tests.integration.zookeeper_support import needs_zookeeper
from tests.unit.present import present
from tidelog.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from tidelog.client.errors import ApiError
from tidelog.metadata.zookeeper import ZooKeeperStore
from tidelog.metadata.zookeeper_options import ZooKeeperOptions
from tidelog.testing import Cluster
from tidelog.testing.zookeeper import ZooKeeperServer
from tidelog.wire.errors import ErrorCode

pytestmark = [needs_zookeeper, pytest.mark.long]

SESSION_TIMEOUT_S = 4
PARTITIONS = 6


@pytest.fixture
def zookeeper() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture
def cluster(zookeeper: ZooKeeperServer) -> Iterator[Cluster]:
    settings = {"zookeeper.session.timeout.ms": SESSION_TIMEOUT_S * 1000}
    with Cluster(3, settings, zookeeper=f"{zookeeper.connect_string}/kafka") as cluster:
        create_topic(cluster, "t")
        yield cluster


class Writer:
    """One producer for all of a test, so that it needs nothing of ZooKeeper, and what it was acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        self._producer = Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
        self.count = 0

    def write(self, count: int = 60) -> None:
        numbers = range(self.count, self.count + count)
        for delivery in [self._producer.send("t", b"%d" % n, partition=n % PARTITIONS) for n in numbers]:
            delivery.result(60)
        self.count += count

    def close(self) -> None:
        self._producer.close()


@pytest.fixture
def writer(cluster: Cluster) -> Iterator[Writer]:
    writer = Writer(cluster)
    yield writer
    writer.close()


def create_topic(cluster: Cluster, name: str) -> None:
    """Create a topic on all three brokers, as soon as the broker that is asked knows them."""

    def is_created() -> bool:
        try:
            admin.create_topics([NewTopic(name, PARTITIONS, 3)])
        except ApiError as error:
            if error.code not in (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.REQUEST_TIMED_OUT):
                raise
            return False
        return True

    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        wait_until(is_created)


def read_all(cluster: Cluster, count: int) -> list[int]:
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("t", index) for index in range(PARTITIONS)])
        found: list[int] = []
        deadline = time.monotonic() + 60
        while len(found) < count and time.monotonic() < deadline:
            found += [int(present(record.value)) for record in consumer.poll(5)]
    return sorted(found)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def owners(store: ZooKeeperStore) -> dict[int, int]:
    """The sessions of the registered brokers."""
    found = {}
    for name in store.children("/brokers/ids"):
        stat = store.exists(f"/brokers/ids/{name}")
        if stat is not None:
            found[int(name)] = stat.ephemeral_owner
    return found


@pytest.fixture
def tree(zookeeper: ZooKeeperServer, cluster: Cluster) -> Iterator[ZooKeeperStore]:
    store = ZooKeeperStore(f"{zookeeper.connect_string}/kafka", ZooKeeperOptions(session_timeout_ms=60_000))
    yield store
    store.close()


def test_a_killed_zookeeper_stops_no_writer_and_no_session_if_it_is_back_in_time(
    zookeeper: ZooKeeperServer, cluster: Cluster, writer: Writer, tree: ZooKeeperStore
) -> None:
    writer.write()
    zookeeper.kill()
    writer.write()
    zookeeper.start()
    writer.write()
    create_topic(cluster, "made-afterwards")
    wait_until(lambda: sorted(owners(tree)) == [1, 2, 3])
    assert read_all(cluster, writer.count) == list(range(writer.count))


def test_new_producers_write_while_zookeeper_is_gone(zookeeper: ZooKeeperServer, cluster: Cluster) -> None:
    """Each broker took a block of producer ids when it started. The test fails on 4724f6e."""
    first = Writer(cluster)
    first.write()
    zookeeper.kill()
    wait_until(lambda: all("connection lost" in cluster.logs_of(broker) for broker in (1, 2, 3)))
    for broker in cluster.broker_ids:
        with Producer(bootstrap_servers=cluster.address_of(broker), acks="all") as producer:
            producer.send("t", b"%d" % (first.count + broker), partition=0).result(60)
    zookeeper.start()
    first.close()
    assert len(read_all(cluster, first.count + 3)) == first.count + 3


def test_brokers_stop_in_order_although_zookeeper_is_gone(zookeeper: ZooKeeperServer, cluster: Cluster) -> None:
    zookeeper.kill()
    wait_until(lambda: all("connection lost" in cluster.logs_of(broker) for broker in (1, 2, 3)))
    for broker_id in (1, 2, 3):
        cluster.stop_broker(broker_id)
        assert f"broker {broker_id} has stopped" in cluster.logs_of(broker_id), "it was not killed for being slow"


def test_brokers_whose_sessions_expired_register_again_and_elect_a_controller(
    zookeeper: ZooKeeperServer, cluster: Cluster, writer: Writer, tree: ZooKeeperStore
) -> None:
    writer.write()
    before = owners(tree)
    for broker_id in before:
        cluster.pause(broker_id)
    wait_until(lambda: owners(tree) == {})
    for broker_id in before:
        cluster.resume(broker_id)
    wait_until(lambda: sorted(owners(tree)) == [1, 2, 3])
    assert not set(owners(tree).values()) & set(before.values())
    wait_until(lambda: tree.exists("/controller") is not None)
    assert int(tree.get("/controller_epoch")[0]) >= 2
    writer.write()
    create_topic(cluster, "made-afterwards")
    assert read_all(cluster, writer.count) == list(range(writer.count))


def test_a_killed_broker_that_is_started_at_once_waits_for_its_old_session_to_end(
    cluster: Cluster, writer: Writer, tree: ZooKeeperStore
) -> None:
    writer.write()
    before = owners(tree)
    cluster.kill(2)
    cluster.restart(2)
    assert owners(tree)[2] != before[2]
    assert "is still registered by session" in cluster.logs_of(2)
    writer.write()
    assert read_all(cluster, writer.count) == list(range(writer.count))


def test_a_zookeeper_that_hangs_for_longer_than_the_timeout_costs_nothing_acknowledged(
    zookeeper: ZooKeeperServer, cluster: Cluster, writer: Writer, tree: ZooKeeperStore
) -> None:
    writer.write()
    zookeeper.pause()
    writer.write()
    # Four attempts take longer than a session may be silent. Whether it survives is ZooKeeper's to decide.
    wait_until(lambda: all(cluster.logs_of(broker).count("Connection time-out") >= 4 for broker in (1, 2, 3)))
    zookeeper.resume()
    writer.write()
    create_topic(cluster, "made-afterwards")
    wait_until(lambda: sorted(owners(tree)) == [1, 2, 3])
    assert read_all(cluster, writer.count) == list(range(writer.count))


def test_a_broker_whose_disk_is_full_leaves_before_its_session_times_out(zookeeper: ZooKeeperServer) -> None:
    """It ends its session when it stops. The others need not wait until ZooKeeper misses it."""
    settings = {"zookeeper.session.timeout.ms": 60_000}
    with Cluster(3, settings, zookeeper=f"{zookeeper.connect_string}/kafka") as cluster:
        create_topic(cluster, "t")
        store = ZooKeeperStore(f"{zookeeper.connect_string}/kafka", ZooKeeperOptions(session_timeout_ms=60_000))
        writer = Writer(cluster)
        try:
            writer.write()
            resource.prlimit(cluster.pid_of(2), resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            writer.write()
            deadline = time.monotonic() + 40
            while 2 in owners(store):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            wait_until(lambda: not cluster.is_running(2))
            writer.write()
            assert read_all(cluster, writer.count) == list(range(writer.count))
        finally:
            writer.close()
            store.close()
