"""Our consumer, the claims that our own broker sees it keep, against Apache Kafka."""

from collections.abc import Iterator

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from tests.integration.consumer_support import GROUP_SETTINGS, Cluster
from tests.integration.test_consumer_groups import TestCommits, TestFaltering, TestListeners, TestSharing
from tests.integration.test_consumer_reading import (
    TestCallers,
    TestOrder,
    TestPositions,
    TestRecords,
    TestResets,
    TestTransactions,
)

__all__ = [
    "TestCallers",
    "TestCommits",
    "TestFaltering",
    "TestListeners",
    "TestOrder",
    "TestPositions",
    "TestRecords",
    "TestResets",
    "TestSharing",
    "TestTransactions",
]

SETTINGS = {
    **GROUP_SETTINGS,
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    with (
        ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as zookeeper,
        KafkaBroker(tmp_path_factory.mktemp("kafka"), zookeeper, SETTINGS) as broker,
    ):
        yield Cluster(broker.bootstrap_servers)
