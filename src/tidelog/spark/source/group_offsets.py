"""Offsets shown to tools that watch consumer groups: `commitGroupId`.

Spark keeps a query's offsets in its checkpoint; what is committed to the group is for lag monitors only, one
micro-batch late, and the last one before a stop is never committed. The query does not wait for a commit. While one is
under way, only the newest offsets are kept to follow it. A failure is logged and changes nothing.
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from tidelog.client.cluster import Cluster
from tidelog.client.types import TopicPartition
from tidelog.spark.source.data_loss import LOG

Offsets = Mapping[TopicPartition, int]


class GroupOffsets:
    """Commits for one group, as a client from outside it: the group may have no members."""

    def __init__(self, cluster: Callable[[], Cluster], group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._lock = threading.Lock()
        self._is_busy = False
        self._next: Offsets | None = None

    def commit(self, offsets: Offsets) -> None:
        """Send the offsets to the coordinator of the group, after those that are under way."""
        cluster = self._cluster()
        with self._lock:
            if self._is_busy:
                self._next = offsets
                return
            self._is_busy = True
        self._send(cluster, offsets)

    def _send(self, cluster: Cluster, offsets: Offsets) -> None:
        sent = cluster.begin_group_commit(self._group_id, offsets)
        sent.add_done_callback(lambda done: self._sent(cluster, done))

    def _sent(self, cluster: Cluster, done: "Future[None]") -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            LOG.warning("offsets were not committed for group %r (commitGroupId): %s", self._group_id, error)
        with self._lock:
            following, self._next = self._next, None
            self._is_busy = following is not None
        if following is not None:
            self._send(cluster, following)
