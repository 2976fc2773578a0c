"""Spark's own Kafka connector (for the JVM) and ours, on one broker of ours: one session that has both.

Tests that take `connector` run once with each and so hold both to the same claim. All skip, with the reason, where
there is no Java, or no Maven to fetch the jars with the first time.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from benchmarks import spark_connector
from tests.compat.spark_connector.connectors import FORMATS, Connector
from tidelog.testing import Broker

HERE = Path(__file__).parent
SETTINGS = {
    # The records of these tests are years old.
    "log.retention.ms": -1,
    "log.cleaner.backoff.ms": 50,
    "transaction.state.log.num.partitions": 3,
    "offsets.topic.num.partitions": 3,
}

_numbers = itertools.count(1)


@pytest.hookimpl(tryfirst=True)  # before the marks are used to choose tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark these tests; the first of them may have to wait for Maven to fetch the jars.

    All are long: a session with both connectors takes longer to start than most tests take as a whole.
    """
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.java)
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.timeout(spark_connector.MAVEN_SECONDS_MAX + 120))


@pytest.fixture(scope="session", autouse=True)
def jars() -> None:
    """They are in the session of the test process."""
    reason = spark_connector.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A broker in a process of its own, which cleans compacted logs at once."""
    with Broker(SETTINGS, process=True) as running:
        yield running


@pytest.fixture(scope="session")
def servers(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def official(spark: SparkSession, servers: str) -> Connector:
    """Spark's own connector."""
    return Connector("kafka", spark, servers)


@pytest.fixture
def ours(spark: SparkSession, servers: str) -> Connector:
    return Connector("tidelog", spark, servers)


@pytest.fixture(params=FORMATS)
def connector(request: pytest.FixtureRequest, spark: SparkSession, servers: str) -> Connector:
    """Each of the two in turn."""
    return Connector(request.param, spark, servers)


MakeTopic = Callable[..., str]


@pytest.fixture(scope="session")
def make_topic(broker: Broker) -> MakeTopic:
    """Make a topic that no other test uses: `make_topic("orders", 3, **{"cleanup.policy": "compact"})`."""

    def make(name: str = "topic", partitions: int = 1, **config: object) -> str:
        unique = f"{name}-{next(_numbers)}"
        broker.create_topic(unique, partitions, config=config)
        return unique

    return make
