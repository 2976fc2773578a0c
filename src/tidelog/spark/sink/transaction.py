"""The transaction of one batch: begun by the driver, carried to the tasks, and how long it may stay open."""

import time
from typing import Final, NamedTuple

from tidelog.client.aio.admin.types import ConfigResource, ResourceType
from tidelog.client.aio.producer.transaction_state import TransactionHandle
from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError


class OpenTransaction(NamedTuple):
    """A transaction that was begun, and since when; it travels to tasks and back."""

    handle: TransactionHandle
    timeout_ms: int
    begun_ms: int

    def open_ms(self) -> int:
        """How long it has been open, as far as clocks of different machines agree."""
        return now_ms() - self.begun_ms


def begin(cluster: Cluster, transactional_id: str, timeout_ms: int) -> OpenTransaction:
    """Take over the transactional id: its open transaction is completed, its former producer is fenced."""
    begun_ms = now_ms()
    return OpenTransaction(cluster.begin_transaction(transactional_id, timeout_ms), timeout_ms, begun_ms)


_LONGEST_MS: Final[dict[str, int]] = {}


def longest_timeout_ms(cluster: Cluster, cluster_name: str, otherwise_ms: int) -> int:
    """The brokers' `transaction.max.timeout.ms`; `otherwise_ms` if it is unknown.

    Asked for once in a process. The least of all brokers counts, because the coordinator may move to any of them.
    """
    if cluster_name not in _LONGEST_MS:
        name = "transaction.max.timeout.ms"
        try:
            nodes = cluster.describe_cluster().nodes
            brokers = [ConfigResource(ResourceType.BROKER, str(node.node_id)) for node in nodes]
            found = [settings[name].value for settings in cluster.describe_configs(brokers, names=[name]).values()]
            longest_ms = min((int(value) for value in found if value), default=otherwise_ms)
        except (ClientError, KeyError, ValueError):
            return otherwise_ms
        _LONGEST_MS[cluster_name] = longest_ms
    return _LONGEST_MS[cluster_name]


def now_ms() -> int:
    """Wall clock: it is compared across processes."""
    return time.time_ns() // 1_000_000
