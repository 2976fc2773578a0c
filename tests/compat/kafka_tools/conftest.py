"""Fixtures for tests with Kafka's own Java code: all of them skip, with the reason, where it cannot run.

`TIDELOG_COMPAT_TARGET=kafka` puts Apache Kafka in our place. That tests the tests: what Kafka's tools say of Kafka's
broker and files is what they must say of ours.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from benchmarks.processes import BrokerProcess
from benchmarks.tidelog_broker import TidelogBroker
from tests.compat.kafka_tools.samples import WrittenLog, write_samples

MakeBroker = Callable[[Path, Mapping[str, str]], BrokerProcess]


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
    """Ours, unless the tests themselves are under test."""
    if os.environ.get("TIDELOG_COMPAT_TARGET") != "kafka":
        return TidelogBroker
    zookeeper: ZooKeeper = request.getfixturevalue("zookeeper")

    def make(directory: Path, settings: Mapping[str, str]) -> BrokerProcess:
        root = {"zookeeper.connect": f"{zookeeper.connect_string}/{directory.name}"}
        return KafkaBroker(directory, zookeeper, {**root, **settings})

    return make


@pytest.fixture(scope="session")
def our_log(make_broker: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> WrittenLog:
    """A data directory that our broker wrote and closed in order, with what was produced into it."""
    with make_broker(tmp_path_factory.mktemp("ours"), {"broker.id": "0"}) as broker:
        return write_samples(broker)
