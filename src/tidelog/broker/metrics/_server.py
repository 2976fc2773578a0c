"""Connections, the request channel, purgatories, quotas, fetch sessions, the cleaner, and the broker itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tidelog import __version__
from tidelog.broker.metrics._coordinators import waiting_in_groups
from tidelog.broker.metrics._shapes import counter, counters, gauge, gauges
from tidelog.metrics import Family, Kind, labels_text

if TYPE_CHECKING:
    from tidelog.broker.metrics.event_loop import LoopMonitor
    from tidelog.broker.serving.node import Node

_RUNNING: Final = 3
"""Kafka's number of the state in which a broker serves."""
_SOCKETS: Final = "kafka_server_socket_server_metrics"
_CLEANER: Final = {
    "max-dirty-percent": ("kafka_log_logcleanermanager_max_dirty_percent", "Dirty share of the dirtiest log."),
    "time-since-last-run-ms": (
        "kafka_log_logcleanermanager_time_since_last_run_ms",
        "Since the last look at the logs.",
    ),
    "max-buffer-utilization-percent": ("kafka_log_logcleaner_max_buffer_utilization_percent", "Of the last cleanings."),
    "cleaner-recopy-percent": ("kafka_log_logcleaner_cleaner_recopy_percent", "Bytes kept by the last cleanings."),
    "max-clean-time-secs": ("kafka_log_logcleaner_max_clean_time_secs", "Time of the longest of the last cleanings."),
    "max-compaction-delay-secs": (
        "kafka_log_logcleaner_max_compaction_delay_secs",
        "By how much the most overdue log is.",
    ),
    "DeadThreadCount": ("kafka_log_logcleaner_deadthreadcount", "Workers of the cleaner that died."),
    "uncleanable-partitions-count": ("tidelog_logcleaner_uncleanable_partitions", "Logs that cannot be cleaned."),
    "uncleanable-bytes": ("tidelog_logcleaner_uncleanable_bytes", "Bytes of logs that cannot be cleaned."),
}
"""The cleaner's figures by Kafka's names, the names on the page, and what they mean."""


class ServerFamilies:
    """The rest of a broker's figures."""

    def __init__(self, node: Node, monitor: LoopMonitor) -> None:
        self._node = node
        self._monitor = monitor

    def families(self) -> Iterator[Family]:
        yield from self._connections()
        yield from self._requests()
        yield from self._purgatories()
        yield from self._quotas()
        yield from self._cleaner()
        node = self._node
        yield from _disk()
        yield gauge("kafka_server_kafkaserver_brokerstate", "3 while the broker serves.", _RUNNING)
        cluster = labels_text(("cluster_id", "broker_id"), (node.image.cluster_id, str(node.broker_id)))
        yield Family("tidelog_broker", Kind.INFO, "The broker and its cluster.", [("_info", cluster, 1)])
        version = labels_text(("version",), (__version__,))
        yield Family("tidelog_build", Kind.INFO, "The version of Tidelog.", [("_info", version, 1)])

    def _connections(self) -> Iterator[Family]:
        node = self._node
        server, quotas = node.socket_server, node.socket_server.quotas
        authentication = node.authentication
        listeners = list(server.ports())

        def of_listeners(read: Callable[[str], float]) -> Iterator[tuple[str, float]]:
            # Kafka has one for each of its network threads; here there is one event loop.
            return (
                (labels_text(("listener", "networkProcessor"), (listener, "0")), read(listener))
                for listener in listeners
            )

        succeeded = {} if authentication is None else authentication.succeeded
        renewed = {} if authentication is None else authentication.renewed
        failed = {} if authentication is None else authentication.failed
        handshakes = server.failed_handshakes
        yield gauges(f"{_SOCKETS}_connection_count", "Open connections.", of_listeners(quotas.open_on))
        for suffix, documentation, read in (
            ("connection_creation", "Connections that were accepted.", lambda name: quotas.accepted[name]),
            ("successful_authentication", "Clients that authenticated.", lambda name: succeeded.get(name, 0)),
            ("successful_reauthentication", "Sessions that were renewed.", lambda name: renewed.get(name, 0)),
            (
                "failed_authentication",
                "Clients whose authentication failed, TLS handshakes included.",
                lambda name: failed.get(name, 0) + handshakes.get(name, 0),
            ),
        ):
            yield counters(f"{_SOCKETS}_{suffix}", documentation, of_listeners(read))
        yield gauge(
            "kafka_network_socketserver_expiredconnectionskilledcount",
            "Connections that were closed because they were idle.",
            server.idle_closed,
        )

    def _requests(self) -> Iterator[Family]:
        channel, idle = self._node.socket_server.channel, self._monitor.idle_share()
        yield gauge("kafka_network_requestchannel_requestqueuesize", "Requests under way.", channel.queued_requests)
        available = sys.maxsize if channel.bytes_max > sys.maxsize else max(channel.bytes_max - channel.queued_bytes, 0)
        yield gauge("kafka_network_socketserver_memorypoolused", "Bytes of requests under way.", channel.queued_bytes)
        yield gauge(
            "kafka_network_socketserver_memorypoolavailable",
            "Bytes that queued.max.request.bytes leaves for more of them; 2^63 - 1 without that limit.",
            available,
        )
        yield gauge(
            "tidelog_requestchannel_waitingconnections",
            "Connections that queued.max.requests makes wait.",
            len(channel.waiting),
        )
        documentation = "Share of time in which the event loop was idle, since the last minute began."
        yield gauge("kafka_network_socketserver_networkprocessoravgidlepercent", documentation, idle)
        yield gauges(
            "kafka_network_processor_idlepercent", documentation, [(labels_text(("networkProcessor",), ("0",)), idle)]
        )
        yield gauge("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", documentation, idle)

    def _purgatories(self) -> Iterator[Family]:
        manager, sessions = self._node.replica_manager, self._node.fetch_sessions
        purgatories = (manager.produce_purgatory, manager.fetch_purgatory, manager.delete_records_purgatory)
        # What waits elsewhere is in one list each, and watched by nothing.
        others = {**self._node.topology.waiting(), **waiting_in_groups(self._node)}
        sizes = {each.name: each.watched for each in purgatories} | others
        waiting = {each.name: each.delayed for each in purgatories} | others
        for suffix, documentation, values in (
            ("purgatorysize", "Entries in the watch lists of requests that wait.", sizes),
            ("numdelayedoperations", "Requests that wait.", waiting),
        ):
            yield gauges(
                f"kafka_server_delayedoperationpurgatory_{suffix}",
                documentation,
                [(labels_text(("delayedOperation",), (name,)), value) for name, value in values.items()],
            )
        name = "kafka_server_fetchsessioncache"
        yield gauge(f"{name}_numincrementalfetchsessions", "Incremental fetch sessions.", len(sessions))
        yield gauge(
            f"{name}_numincrementalfetchpartitionscached", "Partitions of those sessions.", sessions.partition_count
        )
        yield counter(f"{name}_incrementalfetchsessionevictions", "Sessions that made room.", sessions.evictions)

    def _quotas(self) -> Iterator[Family]:
        quotas = self._node.client_quotas
        yield counter(
            "tidelog_quota_throttles", "Times that a client had to wait because of a quota.", quotas.throttles
        )
        yield counter("tidelog_quota_throttled_seconds", "How long they had to wait.", quotas.throttled_ms / 1000)
        yield counters(
            "tidelog_quota_used",
            "What was counted against a quota: bytes, percent of a second, partitions.",
            (
                (
                    labels_text(
                        ("quota", "user", "client_id"), (kind.value, entity.user or "", entity.client_id or "")
                    ),
                    used,
                )
                for kind, entity, used in quotas.measured()
            ),
        )

    def _cleaner(self) -> Iterator[Family]:
        metrics = self._node.cleaning.metrics
        if metrics is None:
            return
        for name, value in metrics.values(self._node.clock.wall_ms()).items():
            shown, documentation = _CLEANER[name]
            yield gauge(shown, documentation, value)
        yield counter("tidelog_logcleaner_cleanings", "Logs that were cleaned.", metrics.cleanings)


def _disk() -> Iterator[Family]:
    """What Linux says that this process read from disk and wrote to it."""
    try:
        with open("/proc/self/io", "rb") as file:
            figures = dict(line.split(b": ") for line in file)
    except (OSError, ValueError):
        return  # another system, or one that does not say
    for field in ("read_bytes", "write_bytes"):
        yield gauge(
            f"kafka_server_kafkaserver_linux_disk_{field}",
            "Bytes that went to or from disk for this process.",
            int(figures.get(field.encode(), 0)),
        )
