"""All metrics of one broker, and the addresses at which they are read."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tidelog.broker.metrics._clients import ClientFamilies
from tidelog.broker.metrics._cluster import ClusterFamilies
from tidelog.broker.metrics._coordinators import CoordinatorFamilies
from tidelog.broker.metrics._partitions import PartitionFamilies
from tidelog.broker.metrics._server import ServerFamilies
from tidelog.broker.metrics._traffic import RequestFamilies, TopicFamilies
from tidelog.broker.metrics.event_loop import LoopMonitor
from tidelog.metrics import Registry
from tidelog.metrics.endpoint import MetricsEndpoint
from tidelog.metrics.process import process_families
from tidelog.replication.traffic import TrafficCounters

if TYPE_CHECKING:
    from tidelog.broker.requests.request_meter import RequestMeter
    from tidelog.broker.serving.node import Node

logger = logging.getLogger(__name__)


class BrokerMetrics:
    """Counts from when it is made; serves pages from `start` to `close`."""

    def __init__(self, node: Node, meter: RequestMeter) -> None:
        self._node = node
        self.registry = Registry()
        """More may be added to it."""
        self._monitor = LoopMonitor(asyncio.get_running_loop(), meter, lambda: node.socket_server.polled_seconds)
        self._endpoint = MetricsEndpoint(self.registry, node.slices.pause)
        self.addresses: list[str] = []
        """Where pages are served, as URLs."""
        traffic = TrafficCounters(lambda name: node.image.topic(name) is not None, self._is_added)
        node.replica_manager.traffic = traffic
        node.hosted_topics.add_deletion_listener(traffic.forget)
        for collector in (
            ServerFamilies(node, self._monitor).families,
            TopicFamilies(node).families,
            RequestFamilies(node, meter).families,
            PartitionFamilies(node).families,
            CoordinatorFamilies(node).families,
            ClusterFamilies(node).families,
            self._monitor.families,
            process_families,
        ):
            self.registry.add_collector(collector)
        if node.client_metrics is not None:
            self.registry.add_collector(ClientFamilies(node.client_metrics, node.clock).families)

    def _is_added(self, topic: str, index: int, broker_id: int) -> bool:
        partition = self._node.replica_manager.find(topic, index)
        return partition is not None and broker_id in partition.replica_set.adding_replicas

    async def start(self) -> None:
        """Serve pages. Raises OSError, which names the address, when one cannot be had."""
        for listener in self._node.config.parsed_metrics_listeners:
            host = listener.host
            try:
                port = await self._endpoint.listen(host, listener.port)
            except OSError as cause:
                where = f"{host or '*'}:{listener.port}"
                text = f"cannot listen on {where}: {cause.strerror or cause}; change metrics.listeners"
                raise OSError(cause.errno, text) from cause
            shown = f"[{host}]" if ":" in host else host or "localhost"
            self.addresses.append(f"http://{shown}:{port}/metrics")
        self._monitor.start()
        logger.info("metrics are at %s", ", ".join(self.addresses))

    async def close(self) -> None:
        """Serve no more pages."""
        self._monitor.stop()
        await self._endpoint.close()
