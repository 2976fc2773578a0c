"""The result of `metrics()`: totals since the client was created, and current values.

Totals only grow, so a rate is the difference of two calls. Times are in seconds, sizes in bytes.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tidelog.client.types import TopicPartition


class RequestMetrics(NamedTuple):
    """The requests of one API to one broker that were answered. A fetch or a join may wait at the broker on purpose."""

    replies: int
    latency_s_mean: float
    latency_s_max: float


class BrokerMetrics(NamedTuple):
    """One broker. Connections to bootstrap servers, whose ids are not known yet, count down from -1."""

    node_id: int
    address: str
    connections_open: int
    connections_made: int
    connections_failed: int
    """Attempts that failed."""
    connections_lost: int
    """Connections that ended by an error or by the broker, with requests under way or without."""
    requests: int
    requests_in_flight: int
    bytes_sent: int
    bytes_received: int
    by_api: Mapping[str, RequestMetrics]
    """By Kafka's name of the API, such as `PRODUCE`."""


class ClientMetrics(NamedTuple):
    """An admin."""

    client_id: str
    age_s: float
    brokers: Mapping[int, BrokerMetrics]

    def as_dict(self) -> dict[str, Any]:
        """The same as dicts with text for keys, as JSON has it."""
        found: dict[str, Any] = _plain(self)
        return found


class ProducerPartitionMetrics(NamedTuple):
    """One partition that a producer has sent to."""

    leader_id: int
    records_stored: int
    bytes_stored: int
    """Of batches as they were sent, compressed if they were."""
    batches_stored: int
    batches_retried: int
    records_failed: int
    batches_waiting: int
    """Not sent yet, or to be sent again."""


class ProducerMetrics(NamedTuple):
    """A producer."""

    client_id: str
    age_s: float
    brokers: Mapping[int, BrokerMetrics]
    partitions: Mapping[TopicPartition, ProducerPartitionMetrics]
    records_stored: int
    records_failed: int
    batches_incomplete: int
    """Waiting or under way."""
    buffer_bytes_used: int
    buffer_bytes_total: int
    sends_waiting: int
    """Calls of `send` that wait for memory."""

    def as_dict(self) -> dict[str, Any]:
        """The same as dicts with text for keys, as JSON has it."""
        found: dict[str, Any] = _plain(self)
        return found


class ConsumerPartitionMetrics(NamedTuple):
    """One partition that a consumer reads."""

    leader_id: int
    position: int | None
    lag: int | None
    """How far the position is behind the end; None until the first fetch was answered."""
    records_returned: int
    """Zero where batches are taken undecoded, as by `poll_arrow`."""
    bytes_fetched: int
    fetches_waiting: int
    """Fetched, and not yet returned by a poll."""
    is_paused: bool


class ConsumerMetrics(NamedTuple):
    """A consumer."""

    client_id: str
    age_s: float
    brokers: Mapping[int, BrokerMetrics]
    partitions: Mapping[TopicPartition, ConsumerPartitionMetrics]
    records_returned: int
    """Of all partitions, also those that it read before."""
    bytes_fetched: int
    lag: int
    """Of all partitions whose lag is known."""

    def as_dict(self) -> dict[str, Any]:
        """The same as dicts with text for keys, as JSON has it."""
        found: dict[str, Any] = _plain(self)
        return found


AnyMetrics = ClientMetrics | ProducerMetrics | ConsumerMetrics


def _plain(figures: Any) -> Any:
    if isinstance(figures, Mapping):
        return {str(name): _plain(each) for name, each in figures.items()}
    if isinstance(figures, tuple) and hasattr(figures, "_asdict"):
        return {name: _plain(each) for name, each in figures._asdict().items()}
    return figures
