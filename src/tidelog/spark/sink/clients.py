"""Connections and producers that outlive a micro-batch: kept by the worker process, a few at a time.

Spark uses its Python workers again and again, for any task of any query, one task at a time. A new connection for each
batch would cost more than a small batch does. What has failed is not used again; what was not used for longest is
closed when there are too many.
"""

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

from tidelog.client.aio.producer.transaction_state import TransactionHandle
from tidelog.client.cluster import ClusterClient
from tidelog.client.errors import ClientError
from tidelog.client.producer import Producer
from tidelog.spark.sink.settings import SinkSettings
from tidelog.wire.errors import ApiError

KEPT_MAX: Final = 4
"""Clusters, or ways to write to them, that one worker serves without connecting anew."""


class _Closable(Protocol):
    def close(self) -> None: ...


Client = TypeVar("Client", bound=_Closable)


class Kept(Generic[Client]):
    """At most `KEPT_MAX` clients by name. Each thread of each process has its own, since clients are not shared."""

    def __init__(self) -> None:
        self._clients: OrderedDict[tuple[int, int, Hashable], Client] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: Hashable, make: Callable[[], Client]) -> Client:
        """The client called `name`, made if need be."""
        whole = (os.getpid(), threading.get_ident(), name)
        with self._lock:
            client = self._clients.get(whole)
            if client is not None:
                self._clients.move_to_end(whole)
                return client
        client = make()
        with self._lock:
            self._clients[whole] = client
            surplus = [self._clients.popitem(last=False)[1] for _ in range(len(self._clients) - KEPT_MAX)]
        for old in surplus:
            _close(old)
        return client

    def drop(self, client: Client) -> None:
        """Close a client that failed, and forget it."""
        with self._lock:
            for name in [name for name, kept in self._clients.items() if kept is client]:
                del self._clients[name]
        _close(client)

    def close_all(self) -> None:
        """Close all of this process; a fork's inherited ones are forgotten, for their threads are not there."""
        with self._lock:
            clients, self._clients = self._clients, OrderedDict()
        for name, client in clients.items():
            if name[0] == os.getpid():
                _close(client)

    def __len__(self) -> int:
        return len(self._clients)


def _close(client: _Closable) -> None:
    with suppress(ClientError, ApiError, OSError):
        client.close()


class _QuickProducer(Producer):
    """A producer that is only closed when it has nothing to send, or has failed: it does not wait."""

    def close(self, timeout_s: float | None = 0) -> None:
        super().close(timeout_s)


CLUSTERS: Final[Kept[ClusterClient]] = Kept()
PRODUCERS: Final[Kept[Producer]] = Kept()
atexit.register(CLUSTERS.close_all)
atexit.register(PRODUCERS.close_all)


def cluster_of(settings: SinkSettings) -> ClusterClient:
    """A connection for the conversation with coordinators, and for the memory."""
    kafka = settings.producer_settings()
    name = (settings.bootstrap_servers, kafka.client_id, kafka.request_timeout_ms)
    return CLUSTERS.get(name, lambda: new_cluster(settings))


def new_cluster(settings: SinkSettings) -> ClusterClient:
    """The same, to be closed by the caller."""
    kafka = settings.producer_settings()
    timeout_s = kafka.request_timeout_ms / 1000
    return ClusterClient(settings.bootstrap_servers, client_id=kafka.client_id, timeout_s=timeout_s)


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
