"""The topics of the examples: made on a cluster, and filled. Called by their own command, the demo and the tests."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import NewTopic
from tidelog.client.errors import ApiError
from tidelog.client.producer import Producer
from tidelog.examples.data import Event
from tidelog.wire.errors import ErrorCode

_BOOTSTRAP_TIMEOUT_MS: Final = 1000
_COMPACTED: Final = {"cleanup.policy": "compact"}


class TopicShape(NamedTuple):
    """How a topic is made."""

    partitions: int
    configs: Mapping[str, str] = {}


TOPICS: Final[Mapping[str, TopicShape]] = {
    "orders": TopicShape(6),
    "orders.enriched": TopicShape(6),
    "customers": TopicShape(3, _COMPACTED),
    "tide-levels": TopicShape(4),
    "tide-levels.10m": TopicShape(2),
    "payments": TopicShape(4),
    "balances": TopicShape(4, _COMPACTED),
    "db.customers": TopicShape(3),
    "customers.latest": TopicShape(3, _COMPACTED),
}


def make_topics(bootstrap_servers: str, names: Iterable[str], *, partitions: int | None = None) -> None:
    """Create the topics of the examples, or with this many partitions; existing topics stay unchanged."""
    with Admin(bootstrap_servers=bootstrap_servers, bootstrap_timeout_ms=_BOOTSTRAP_TIMEOUT_MS) as admin:
        for name in names:
            shape = TOPICS[name]
            try:
                admin.create_topics([NewTopic(name, partitions or shape.partitions, 1, configs=dict(shape.configs))])
            except ApiError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise


def send_events(bootstrap_servers: str, events: Iterable[Event]) -> int:
    """Send events to their topics and wait until the cluster has them; how many there were."""
    count = 0
    with Producer({"bootstrap.servers": bootstrap_servers, "acks": "all"}) as producer:
        for event in events:
            producer.send(event.topic, event.value, key=event.key)
            count += 1
        producer.flush()
    return count
