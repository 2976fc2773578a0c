"""For tests that need a Kafka broker, yours and ours.

    from tidelog.testing import Broker

    with Broker() as broker:
        producer = SomeKafkaProducer(bootstrap_servers=broker.bootstrap_servers)

and, in pytest, the fixture `tidelog_broker`. See docs/testing.md. Nothing is imported until it is asked for, because
the fixture's plugin is loaded in every pytest run of whoever has Tidelog installed.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.testing.broker import Broker, BrokerFailed

__all__ = ["Broker", "BrokerFailed"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tidelog.testing import broker

    return getattr(broker, name)
