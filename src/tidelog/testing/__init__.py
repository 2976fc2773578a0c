"""For tests that need a Kafka broker, yours and ours.

    from tidelog.testing import Broker

    with Broker() as broker:
        producer = SomeKafkaProducer(bootstrap_servers=broker.bootstrap_servers)

`Cluster(brokers=3)` is a replicated cluster of processes, `SchemaRegistryServer()` a schema registry, and
`KafkaContainer()` a broker with the methods of the class of that name in testcontainers. In pytest there are the
fixtures `tidelog_broker` and `tidelog_cluster`; `tidelog.testing.simulation` runs clusters in virtual time. See
docs/testing.md. Nothing is imported until it is asked for, because the fixtures' plugin is loaded in every pytest run
where Tidelog is installed.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tidelog.testing.broker import Broker, BrokerFailed
    from tidelog.testing.cluster import Cluster
    from tidelog.testing.container import KafkaContainer
    from tidelog.testing.registry import SchemaRegistryServer

__all__ = ["Broker", "BrokerFailed", "Cluster", "KafkaContainer", "SchemaRegistryServer"]

_HOMES: Final = {
    "Broker": "broker",
    "BrokerFailed": "broker",
    "Cluster": "cluster",
    "KafkaContainer": "container",
    "SchemaRegistryServer": "registry",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"tidelog.testing.{_HOMES[name]}"), name)
