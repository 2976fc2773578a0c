"""Fixtures for tests with Kafka's own Java code: all of them skip, with the reason, where it cannot run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import ZooKeeper
from benchmarks.tidelog_broker import TidelogBroker
from tests.compat.kafka_tools.brokers import MakeBroker, OpenDirectory, kafka_on, new_kafka, tests_are_under_test
from tests.compat.kafka_tools.samples import WrittenLog, write_samples

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first of these tests may have to wait for Maven to fetch the jars."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120))


@pytest.fixture(scope="session", autouse=True)
def jars() -> None:
    """Fetched at the first use, then kept outside the tree."""
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def zookeeper(jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(scope="session")
def make_broker(request: pytest.FixtureRequest) -> MakeBroker:
    """A new broker of ours; or, to test the tests, one of Kafka's."""
    if not tests_are_under_test():
        return TidelogBroker
    zookeeper: ZooKeeper = request.getfixturevalue("zookeeper")
    return lambda home, settings: new_kafka(zookeeper, home, settings)


@pytest.fixture(scope="session")
def open_directory(request: pytest.FixtureRequest) -> OpenDirectory:
    """Our broker on a directory of Kafka's, with nothing but the directory; or, to test the tests, Kafka."""
    if not tests_are_under_test():
        return lambda log, home: TidelogBroker(home, {"log.dirs": str(log.directory)})
    zookeeper: ZooKeeper = request.getfixturevalue("zookeeper")
    return lambda log, home: kafka_on(zookeeper, home, log)


@pytest.fixture(scope="session")
def our_log(make_broker: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> WrittenLog:
    """A data directory that our broker wrote and closed in order, with what was produced into it."""
    with make_broker(tmp_path_factory.mktemp("ours"), {"broker.id": "0"}) as broker:
        return write_samples(broker)
