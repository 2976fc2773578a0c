"""This broker in its cluster: the controller, fetchers of followers, the session with the metadata."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tidelog.broker.metrics._shapes import Timer, counter, counters, gauge, gauges
from tidelog.metadata.store import SessionState
from tidelog.metrics import Distribution, Family, Kind, labels_text
from tidelog.metrics.families import Sample

if TYPE_CHECKING:
    from tidelog.broker.serving.node import Node
    from tidelog.replication.fetcher import Fetcher

_SESSION_STATES: Final = {SessionState.CONNECTED: 1, SessionState.SUSPENDED: 0, SessionState.EXPIRED: 2}
_CONTROLLER: Final = "kafka_controller_kafkacontroller"
_STATS: Final = "kafka_controller_controllerstats"
_SESSION: Final = "kafka_server_sessionexpirelistener"


class ClusterFamilies:
    """Controller, fetchers and session of one broker. A broker without a cluster is its own controller."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._metadata_timer = Timer(node.metadata.times)
        self._event_times: defaultdict[str, Distribution] = defaultdict(Distribution)
        self._event_timers: dict[str, Timer] = {}

    def families(self) -> Iterator[Family]:
        yield from self._controller()
        yield from self._fetchers()
        yield from self._session()

    # --- the controller ---

    def _controller(self) -> Iterator[Family]:
        figures = self._node.topology.controller_figures()
        yield gauge(f"{_CONTROLLER}_activecontrollercount", "1 on the active controller.", int(figures.is_active))
        for suffix, documentation in (
            ("activebrokercount", "Brokers that are registered, on the controller."),
            ("fencedbrokercount", "Brokers that shut down, on the controller."),
            ("globalpartitioncount", "Partitions of the cluster, on the controller."),
            ("globaltopiccount", "Topics of the cluster, on the controller."),
            ("offlinepartitionscount", "Partitions without a leader, on the controller."),
            ("preferredreplicaimbalancecount", "Partitions whose first replica does not lead, on the controller."),
            ("topicstodeletecount", "Topics that are being deleted, on the controller."),
            ("topicsineligibletodeletecount", "Topics whose deletion waits, on the controller."),
        ):
            yield gauge(f"{_CONTROLLER}_{suffix}", documentation, figures.cluster.get(suffix, 0))
        events = "kafka_controller_controllereventmanager"
        yield gauge(f"{events}_eventqueuesize", "Events that wait.", figures.queued_events)
        queues = figures.queued_requests
        channels = "kafka_controller_controllerchannelmanager"
        yield gauges(
            f"{channels}_queuesize",
            "Requests of the controller that wait for a broker.",
            [(labels_text(("broker_id",), (str(broker_id),)), size) for broker_id, size in queues.items()],
        )
        yield gauge(f"{channels}_totalqueuesize", "All of them.", sum(queues.values()))
        yield counter(
            f"{_STATS}_uncleanleaderelections",
            "Elections of replicas that were not in sync.",
            figures.unclean_elections,
        )
        for name, counts in figures.event_counts.items():
            times = self._event_times[name]
            times.counts = counts
            timer = self._event_timers.setdefault(name, Timer(times))
            yield from timer.families(f"{_STATS}_{name}rateandtimems", "Time of the controller's events.")
        yield gauge(
            "kafka_server_metadataloader_currentcontrollerid", "The active controller.", self._node.image.controller_id
        )

    # --- followers ---

    def _fetchers(self) -> Iterator[Family]:
        fetchers = list(self._node.topology.fetchers())
        lags: list[int] = [0]
        yield Family(
            "kafka_server_fetcherlagmetrics_consumerlag",
            Kind.GAUGE,
            "Records by which a follower is behind its leader's high watermark.",
            _lags(fetchers, lags),
        )
        replica = labels_text(("clientId",), ("Replica",))
        manager = "kafka_server_replicafetchermanager"
        yield Family(
            f"{manager}_maxlag",
            Kind.GAUGE,
            "Records by which the slowest follower is behind.",
            (("", replica, max(lags)) for _ in (None,)),
        )
        failed = sum(fetcher.failed_count for _, fetcher in fetchers)
        yield gauges(f"{manager}_failedpartitionscount", "Followers that stopped fetching.", [(replica, failed)])
        figures: tuple[tuple[str, str, Callable[[Fetcher], int]], ...] = (
            ("bytes", "Bytes fetched from a leader.", lambda fetcher: fetcher.bytes_fetched),
            ("requests", "Fetches that a leader answered.", lambda fetcher: fetcher.requests),
        )
        for suffix, documentation, read in figures:
            yield counters(
                f"kafka_server_fetcherstats_{suffix}",
                documentation,
                [(labels_text(("clientId",), (_client_id(key),)), read(fetcher)) for key, fetcher in fetchers],
            )

    # --- the session ---

    def _session(self) -> Iterator[Family]:
        metadata = self._node.metadata
        yield gauge(
            f"{_SESSION}_sessionstate",
            "The session with the metadata: 1 connected, 0 not connected, 2 expired.",
            _SESSION_STATES[metadata.state],
        )
        changes = metadata.state_changes
        for suffix, state, documentation in (
            ("zookeepersyncconnects", SessionState.CONNECTED, "Times that the session was connected again."),
            ("zookeeperdisconnects", SessionState.SUSPENDED, "Times that the metadata could not be reached."),
            ("zookeeperexpires", SessionState.EXPIRED, "Sessions that expired."),
        ):
            yield counter(f"{_SESSION}_{suffix}", documentation, changes[state])
        yield from self._metadata_timer.families(
            "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms", "Time of calls to the metadata."
        )


def _client_id(key: tuple[int, int]) -> str:
    leader_id, number = key
    return f"ReplicaFetcherThread-{number}-{leader_id}"


def _lags(fetchers: list[tuple[tuple[int, int], Fetcher]], lags: list[int]) -> Iterator[Sample]:
    for key, fetcher in fetchers:
        client_id = _client_id(key)
        for (topic, index), lag in fetcher.lags():
            lags.append(lag)
            yield "", labels_text(("clientId", "topic", "partition"), (client_id, topic, str(index))), lag
