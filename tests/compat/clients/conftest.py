"""Clients that we did not write, against one broker in this process for each module."""

import itertools
from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.compat.clients.brokers import Broker
from tests.compat.clients.drivers import DRIVERS, Driver


@pytest.fixture(scope="module")
def broker_config() -> Mapping[str, object]:
    """Settings of the module's broker; a module overrides it to have others."""
    return {}


@pytest.fixture(scope="module")
def broker(broker_config: Mapping[str, object]) -> Iterator[Broker]:
    with Broker(config=broker_config) as running:
        yield running


@pytest.fixture(scope="module")
def servers(broker: Broker) -> str:
    return broker.bootstrap_servers


_numbers = itertools.count(1)


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, and that says whose it is."""
    words = request.node.originalname.removeprefix("test_")[:60]
    return f"{words}-{next(_numbers)}"


@pytest.fixture
def topic(broker: Broker, topic_name: str) -> str:
    """An empty topic with one partition."""
    broker.create_topic(topic_name)
    return topic_name


MakeTopic = Callable[..., str]


@pytest.fixture
def make_topic(broker: Broker, topic_name: str) -> MakeTopic:
    """Make topics with settings: `make_topic(partitions=3, **{"segment.bytes": 1024})`."""

    def make(partitions: int = 1, **config: object) -> str:
        name = f"{topic_name}-{next(_numbers)}"
        broker.create_topic(name, partitions, config=config)
        return name

    return make


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.name)
def client(request: pytest.FixtureRequest) -> Driver:
    """Each client in turn."""
    return request.param
