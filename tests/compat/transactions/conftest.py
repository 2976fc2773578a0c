"""One broker for all tests here; `TIDELOG_COMPAT_TARGET=kafka` puts Apache Kafka in its place to test the tests."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.compat.kafka_tools.brokers import new_kafka, tests_are_under_test
from tests.compat.transactions.protocol import Rpc
from tidelog.client import Admin, NewTopic
from tidelog.testing import Broker

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}

_numbers = itertools.count(1)
MakeTopic = Callable[..., str]


@pytest.fixture(scope="session")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Where the broker listens."""
    if not tests_are_under_test():
        with Broker(SETTINGS) as broker:
            yield broker.port
        return
    from benchmarks.apache_kafka import ZooKeeper

    with (
        ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as zookeeper,
        new_kafka(zookeeper, tmp_path_factory.mktemp("kafka"), SETTINGS) as kafka,
    ):
        yield kafka.port


@pytest.fixture(scope="session")
def servers(port: int) -> str:
    return f"127.0.0.1:{port}"


@pytest.fixture
def rpc(port: int) -> Iterator[Rpc]:
    with Rpc(port) as connection:
        yield connection


@pytest.fixture
def make_topic(servers: str) -> MakeTopic:
    """A topic that no other test uses."""

    def make(partitions: int = 1) -> str:
        name = f"topic-{next(_numbers)}"
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(name, partitions)])
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic()


@pytest.fixture
def name() -> str:
    """A transactional id that no other test uses."""
    return f"id-{next(_numbers)}"


@pytest.fixture
def group(rpc: Rpc) -> str:
    """A group that no other test uses, and whose coordinator is ready."""
    from tests.compat.transactions.protocol import until
    from tidelog.wire.errors import ErrorCode

    group_id = f"group-{next(_numbers)}"
    until(lambda: rpc.find_coordinator(group_id, 0) is ErrorCode.NONE)
    return group_id
