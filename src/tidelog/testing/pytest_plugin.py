"""The pytest fixtures: `tidelog_broker`, `tidelog_cluster` and `tidelog_registry`, fresh ones for each test that asks,
and `tidelog_session_broker`, one for all tests of a run (with pytest-xdist, of a worker).

Loaded by pytest through the entry point `tidelog` in every run, so nothing but pytest is imported here.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing.broker import Broker
    from tidelog.testing.cluster import Cluster
    from tidelog.testing.registry import SchemaRegistryServer


@pytest.fixture
def tidelog_broker_config() -> Mapping[str, object]:
    """Settings of `tidelog_broker`, under Kafka's names. Override it in a module or a conftest to change them."""
    return {}


@pytest.fixture
def tidelog_broker(tidelog_broker_config: Mapping[str, object]) -> Iterator["Broker"]:
    """A running broker in this process: empty, on a free port, gone with its data after the test."""
    from tidelog.testing.broker import Broker

    with Broker(config=tidelog_broker_config) as broker:
        yield broker


@pytest.fixture
def tidelog_cluster_config() -> Mapping[str, object]:
    """Settings of the brokers of `tidelog_cluster`. Override it in a module or a conftest to change them."""
    return {}


@pytest.fixture
def tidelog_cluster(tidelog_cluster_config: Mapping[str, object]) -> Iterator["Cluster"]:
    """Three brokers, each a process of its own: empty, on free ports, gone with their data after the test."""
    from tidelog.testing.cluster import Cluster

    with Cluster(config=tidelog_cluster_config) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def tidelog_session_broker_config() -> Mapping[str, object]:
    """Settings of `tidelog_session_broker`. Override it in a conftest to change them."""
    return {}


@pytest.fixture(scope="session")
def tidelog_session_broker(tidelog_session_broker_config: Mapping[str, object]) -> Iterator["Broker"]:
    """A broker for all tests, which keep apart by the names of their topics and groups."""
    from tidelog.testing.broker import Broker

    with Broker(config=tidelog_session_broker_config) as broker:
        yield broker


@pytest.fixture
def tidelog_registry() -> Iterator["SchemaRegistryServer"]:
    """An empty schema registry on a free port."""
    from tidelog.testing.registry import SchemaRegistryServer

    with SchemaRegistryServer() as registry:
        yield registry
