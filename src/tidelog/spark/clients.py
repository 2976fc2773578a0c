"""Clients that outlive a micro-batch: kept by the worker process, a few at a time.

Spark reuses its Python workers for any task of any query, one task at a time. A new connection for each batch would
cost more than a small batch. A client that failed is not reused; if there are too many, the least recently used is
closed. Clients of the process that a worker was forked from do not work here and are not used.
"""

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError
from tidelog.wire.errors import ApiError

KEPT_MAX: Final = 4
"""Clusters, or ways to write to them, that one worker serves without connecting again."""


class _Closable(Protocol):
    def close(self) -> None: ...


Client = TypeVar("Client", bound=_Closable)


class Kept(Generic[Client]):
    """At most `KEPT_MAX` clients by name. Each thread of each process has its own."""

    def __init__(self) -> None:
        self._clients: OrderedDict[tuple[int, int, Hashable], Client] = OrderedDict()
        self._lock = threading.Lock()
        atexit.register(self.close_all)

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


CLUSTERS: Final[Kept[Cluster]] = Kept()


def connect(
    servers: str,
    *,
    client_id: str,
    request_timeout_ms: int,
    api_timeout_ms: int,
    first_contact_ms: int,
    security: Iterable[tuple[str, str]] = (),
) -> Cluster:
    """A cluster, reached. Raises BootstrapFailed if no broker answers within `first_contact_ms`."""
    return Cluster(
        dict(security),
        bootstrap_servers=servers,
        client_id=client_id,
        request_timeout_ms=request_timeout_ms,
        default_api_timeout_ms=api_timeout_ms,
        bootstrap_timeout_ms=first_contact_ms,
        # The system's own sizes grow with the traffic. Kafka's fixed ones halve the speed of large fetches.
        receive_buffer_bytes=-1,
        send_buffer_bytes=-1,
    )
