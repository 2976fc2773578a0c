"""Our clients against Apache Kafka itself: one broker for all tests here, with Kafka's defaults but for speed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper

HERE = Path(__file__).parent

SETTINGS = {
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",  # some records have timestamps of 2023
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first of these tests may have to wait for Maven to fetch the jars."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.java)
            item.add_marker(pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120))


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A running Kafka."""
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    with (
        ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as zookeeper,
        KafkaBroker(tmp_path_factory.mktemp("kafka"), zookeeper, SETTINGS) as broker,
    ):
        yield broker


@pytest.fixture(scope="session")
def servers(kafka: KafkaBroker) -> str:
    return kafka.bootstrap_servers
