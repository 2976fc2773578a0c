"""The compacted topic that remembers batches: read once, then only what is new; never misled by open transactions."""

import itertools
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.integration.spark.sink_checks import read_messages
from tidelog.client import Admin, ConfigResource, Producer, ResourceType, TopicPartition
from tidelog.client.aio.admin.types import LATEST
from tidelog.client.cluster import Cluster
from tidelog.spark.sink import committed_batches as module
from tidelog.spark.sink.committed_batches import CommittedBatch, CommittedBatches
from tidelog.spark.sink.errors import SinkError
from tidelog.spark.sink.transaction import OpenTransaction, begin
from tidelog.testing import Broker

_numbers = itertools.count()


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(bootstrap_servers=broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic(broker: Broker) -> str:
    """A memory of one partition, so that all queries share it."""
    name = f"memory-{next(_numbers)}"
    broker.create_topic(name, 1, config={"cleanup.policy": "compact"})
    return name


class Driver:
    """A driver of one query. Another one of the same transactional id is its successor."""

    def __init__(self, cluster: Cluster, topic: str, query: str, transactional_id: str | None = None) -> None:
        self.cluster = cluster
        self.batches = CommittedBatches(cluster, "test", topic, query)
        self.transactional_id = f"{topic}-{transactional_id or query}"

    def begin(self, timeout_ms: int = 60_000) -> OpenTransaction:
        return begin(self.cluster, self.transactional_id, timeout_ms)

    def last(self, timeout_ms: int = 10_000) -> int | None:
        remembered = self.batches.last_batch(timeout_ms)
        return None if remembered is None else remembered.batch_id

    def leave_open(self, batch_id: int, timeout_ms: int = 60_000) -> OpenTransaction:
        """Up to the point where it dies: the number is written, the transaction is not ended."""
        transaction = self.begin(timeout_ms)
        self.cluster.add_to_transaction(transaction.handle, [self.batches.where])
        servers = self.cluster.describe_cluster().nodes[0].address
        with Producer(bootstrap_servers=servers, joining=transaction.handle) as producer:
            self.batches.add(producer, CommittedBatch(batch_id, "run", self.transactional_id))
        return transaction

    def run(self, batch_id: int, *, is_commit: bool = True) -> None:
        transaction = self.leave_open(batch_id)
        self.cluster.end_transaction(transaction.handle, is_commit=is_commit)


@pytest.fixture(autouse=True)
def a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KNOWN", {})
    monkeypatch.setattr(module, "_HOMES", {})


def test_only_what_was_committed_is_remembered(cluster: Cluster, topic: str) -> None:
    driver = Driver(cluster, topic, "q")
    assert driver.last() is None

    driver.run(0)
    driver.run(1)
    driver.run(2, is_commit=False)

    assert driver.last() == 1


def test_queries_do_not_see_each_other(cluster: Cluster, topic: str) -> None:
    Driver(cluster, topic, "a").run(7)

    assert Driver(cluster, topic, "b").last() is None
    assert Driver(cluster, topic, "a").last() == 7


def test_each_record_is_read_once(cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking costs what was added since, not what there is."""
    read: list[int] = []

    def counted(*arguments: Any, **keywords: Any) -> Iterator[Any]:
        for record in Cluster.read(cluster, *arguments, **keywords):
            read.append(record.offset)
            yield record

    monkeypatch.setattr(cluster, "read", counted)
    driver = Driver(cluster, topic, "q")
    for batch_id in range(10):
        driver.run(batch_id)
        driver.begin()
        assert driver.last() == batch_id

    assert len(read) == len(set(read)) == 10


class TestAnotherQueryThatHangs:
    """Its driver died between the number and EndTxn: committed reads end there until its transaction times out."""

    def test_hides_nothing_and_is_not_waited_for(self, broker: Broker, cluster: Cluster, topic: str) -> None:
        Driver(cluster, topic, "q").run(0)
        Driver(cluster, topic, "hanging").leave_open(3)
        Driver(cluster, topic, "q").run(1)
        Driver(cluster, topic, "q").run(2, is_commit=False)
        seen = [message.value() for message in read_messages(broker.bootstrap_servers, topic)]
        assert len(seen) == 1, "a committed read ends at the open transaction"

        successor = Driver(cluster, topic, "q")
        successor.begin()
        began = time.monotonic()
        assert successor.last() == 1
        assert time.monotonic() - began < 5

        successor.run(2)
        assert successor.last() == 2

    def test_is_read_as_committed_when_it_has_ended(self, cluster: Cluster, topic: str) -> None:
        hanging = Driver(cluster, topic, "hanging")
        transaction = hanging.leave_open(3)
        Driver(cluster, topic, "q").run(0)
        assert Driver(cluster, topic, "q").last() == 0

        cluster.end_transaction(transaction.handle, is_commit=True)

        assert hanging.last() == 3
        assert Driver(cluster, topic, "q").last() == 0


class TestTheSameQueryUnderAnotherTransactionalId:
    """InitProducerId says nothing of a transaction under another id: whether it commits must be waited for."""

    def test_is_waited_for(self, cluster: Cluster, topic: str) -> None:
        before = Driver(cluster, topic, "q", "old-id")
        transaction = before.leave_open(4)
        after = Driver(cluster, topic, "q", "new-id")
        after.begin()
        asked: list[str] = []
        look_up = after.batches._look_up

        def look_up_and_end(partition: int) -> object:
            found = look_up(partition)
            if not asked:
                cluster.end_transaction(transaction.handle, is_commit=True)
            asked.append("")
            return found

        after.batches._look_up = look_up_and_end  # type: ignore[assignment,method-assign]
        assert after.last() == 4
        assert len(asked) == 2

    def test_is_given_up_with_a_sentence(self, cluster: Cluster, topic: str) -> None:
        Driver(cluster, topic, "q", "old-id").leave_open(4)
        after = Driver(cluster, topic, "q", "new-id")
        after.begin()

        with pytest.raises(SinkError, match=r"batch 4 of this query was written under another transactional id"):
            after.last(timeout_ms=200)


class TestTheTopic:
    def test_is_made_when_it_is_missing_compacted_and_in_small_segments(self, cluster: Cluster) -> None:
        name = f"memory-{next(_numbers)}"
        Driver(cluster, name, "q").run(0)

        resource = ConfigResource(ResourceType.TOPIC, name)
        settings = cluster.describe_configs([resource])[resource]
        assert settings["cleanup.policy"].value == "compact"
        assert settings["segment.bytes"].value == str(1024 * 1024)
        assert cluster.partition_count(name) == module.PARTITIONS

    def test_remembers_when_partitions_are_added(self, broker: Broker, cluster: Cluster) -> None:
        """The hash of most queries then says another partition."""
        name = f"memory-{next(_numbers)}"
        broker.create_topic(name, 1, config={"cleanup.policy": "compact"})
        for query in ("a", "b", "c", "d"):
            Driver(cluster, name, query).run(5)
        with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
            admin.create_partitions({name: 7})
        module._HOMES.clear()
        module._KNOWN.clear()

        for query in ("a", "b", "c", "d"):
            driver = Driver(cluster, name, query)
            assert driver.last() == 5
            driver.run(6)
            assert Driver(cluster, name, query).last() == 6

    @pytest.mark.parametrize(("brokers", "default", "copies"), [(1, 1, 1), (2, 1, 2), (5, 1, 3), (5, 4, 4)])
    def test_has_three_copies_where_there_are_brokers(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, brokers: int, default: int, copies: int
    ) -> None:
        nodes = [SimpleNamespace(node_id=number) for number in range(brokers)]
        monkeypatch.setattr(cluster, "describe_cluster", lambda: SimpleNamespace(nodes=nodes))
        entry = {"default.replication.factor": SimpleNamespace(value=str(default))}
        monkeypatch.setattr(cluster, "describe_configs", lambda resources, names: dict.fromkeys(resources, entry))
        assert Driver(cluster, "topic", "q").batches._replication_factor() == copies

    def test_that_forgets_by_age_is_refused(self, broker: Broker, cluster: Cluster) -> None:
        name = f"memory-{next(_numbers)}"
        broker.create_topic(name, 1)

        with pytest.raises(SinkError, match=r"has cleanup\.policy=delete: it must be compact"):
            Driver(cluster, name, "q").last()

    def test_that_was_deleted_and_made_again_is_read_again(self, broker: Broker, cluster: Cluster) -> None:
        name = f"memory-{next(_numbers)}"
        driver = Driver(cluster, name, "q")
        for batch_id in range(5):
            driver.run(batch_id)
        assert driver.last() == 4
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.delete_topics([name])

        again = Driver(cluster, name, "q")
        assert again.last() is None
        again.run(0)
        assert again.last() == 0

    def test_ends_with_what_a_marker_says(self, cluster: Cluster, topic: str) -> None:
        """A commit marker is the last thing in the log, and not a record to wait for."""
        driver = Driver(cluster, topic, "q")
        driver.run(0)
        where: TopicPartition = driver.batches.where
        assert driver.last() == 0
        assert cluster.list_offsets({where: LATEST})[where].offset == 2
