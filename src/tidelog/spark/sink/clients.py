"""The clients of a sink: one cluster for the conversation with coordinators, and producers that join transactions."""

from typing import Final

from tidelog.client.aio.producer.transaction_state import TransactionHandle
from tidelog.client.cluster import Cluster
from tidelog.client.producer import Producer
from tidelog.spark.clients import CLUSTERS, Kept, connect
from tidelog.spark.sink.settings import SinkSettings


class _QuickProducer(Producer):
    """A producer whose `close` does not wait: it has nothing to send, or has failed."""

    def close(self, timeout_s: float | None = 0) -> None:
        super().close(timeout_s)


PRODUCERS: Final[Kept[Producer]] = Kept()


def cluster_of(settings: SinkSettings) -> Cluster:
    """The cluster, kept for the next batch."""
    kafka = settings.producer_settings()
    timeouts = kafka.request_timeout_ms, kafka.max_block_ms
    name = (settings.bootstrap_servers, kafka.client_id, timeouts, settings.security)
    return CLUSTERS.get(name, lambda: new_cluster(settings))


def new_cluster(settings: SinkSettings) -> Cluster:
    """The same, to be closed by the caller."""
    kafka = settings.producer_settings()
    return connect(
        settings.bootstrap_servers,
        client_id=kafka.client_id,
        request_timeout_ms=kafka.request_timeout_ms,
        api_timeout_ms=kafka.max_block_ms,
        first_contact_ms=kafka.max_block_ms,
        security=settings.security,
    )


def producer_of(settings: SinkSettings, joining: TransactionHandle | None) -> Producer:
    """A producer that writes in the transaction `joining`, or without one."""
    # The driver has reached the cluster, so a broker that does not answer now is one that restarts.
    patience = {"bootstrap.timeout.ms": settings.producer_settings().max_block_ms}
    kafka = patience | dict(settings.kafka)
    if joining is None:
        return PRODUCERS.get(("alone", settings.kafka), lambda: _QuickProducer(kafka))
    producer = PRODUCERS.get(("joining", settings.kafka), lambda: _QuickProducer(kafka, joining=joining))
    producer.join(joining)
    return producer
