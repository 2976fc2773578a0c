"""Connections that outlive a task. Spark's Python workers are used again and again, and connecting costs milliseconds.

A task takes a client out of the pool, so that nobody else writes to its sockets meanwhile, and gives it back when all
its requests are answered. Keyed by settings, that is by cluster: a worker is given any partition, not the same ones.
"""

import os
import threading
import time
from collections import deque
from typing import Final, NamedTuple

from tidelog.client.cluster import ClusterClient
from tidelog.spark.source.client_settings import ClientSettings

CAPACITY: Final = 16
IDLE_S_MAX: Final = 300.0


class _Idle(NamedTuple):
    settings: ClientSettings
    cluster: ClusterClient
    since: float


class ConnectionPool:
    """Idle clients, the latest used last."""

    def __init__(self, capacity: int = CAPACITY, idle_s_max: float = IDLE_S_MAX) -> None:
        self._capacity = capacity
        self._idle_s_max = idle_s_max
        self._idle: deque[_Idle] = deque()
        self._lock = threading.Lock()
        self._process_id = os.getpid()

    def take(self, settings: ClientSettings) -> ClusterClient:
        """A client for `settings`, used before or new."""
        now = time.monotonic()
        with self._lock:
            if self._process_id != os.getpid():
                # Sockets of the process this one was forked from: both would read from them.
                self._idle.clear()
                self._process_id = os.getpid()
            while self._idle and now - self._idle[0].since > self._idle_s_max:
                self._idle.popleft().cluster.close()
            for each in reversed(self._idle):
                if each.settings == settings:
                    self._idle.remove(each)
                    return each.cluster
        return ClusterClient(
            settings.bootstrap_servers, client_id=settings.client_id, timeout_s=settings.request_timeout_ms / 1000
        )

    def give_back(self, settings: ClientSettings, cluster: ClusterClient) -> None:
        """Keep `cluster` for the next task. No reply may be due on its connections."""
        with self._lock:
            self._idle.append(_Idle(settings, cluster, time.monotonic()))
            if len(self._idle) > self._capacity:
                self._idle.popleft().cluster.close()

    def close(self) -> None:
        """Close what is idle."""
        with self._lock:
            while self._idle:
                self._idle.popleft().cluster.close()


POOL: Final = ConnectionPool()
"""That of this process."""
