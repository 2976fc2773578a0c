"""The parts of one running broker, as handlers and metrics see them. `broker.assembly` puts them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.broker.client_quotas import ClientQuotaManager
    from tidelog.broker.configuration.announced_changes import AnnouncedChanges
    from tidelog.broker.configuration.current import CurrentSettings
    from tidelog.broker.configuration.entity_settings import EntitySettings
    from tidelog.broker.configuration.features import ClusterFeatures
    from tidelog.broker.coordinators.edge import CoordinatorEdge
    from tidelog.broker.coordinators.markers import MarkerWriter
    from tidelog.broker.coordinators.shares import Shares
    from tidelog.broker.coordinators.transactions import TransactionCoordinator
    from tidelog.broker.delayed_delivery import DelayedDelivery
    from tidelog.broker.hosting.cleaner import CleanerService
    from tidelog.broker.hosting.hosted_topics import HostedTopics
    from tidelog.broker.hosting.log_dir_moves import LogDirMoves
    from tidelog.broker.requests.request_log import RequestLog
    from tidelog.broker.requests.routes import Route
    from tidelog.broker.runtime.background import BackgroundPool, Flusher, RecordPreparation
    from tidelog.broker.runtime.slices import TimeSlices
    from tidelog.broker.runtime.timer_driver import TimerDriver
    from tidelog.broker.security.access import Access
    from tidelog.broker.security.authentication import Authentication
    from tidelog.broker.security.delegation_tokens import TokenManager
    from tidelog.broker.security.listener_security import ListenerSecurity
    from tidelog.broker.telemetry.client_metrics import ClientMetrics
    from tidelog.broker.topology.topology import Topology
    from tidelog.config import BrokerConfig
    from tidelog.config.layers import ConfigLayers
    from tidelog.groups import GroupShard
    from tidelog.metadata.image import ClusterImage
    from tidelog.metadata.store_queue import StoreQueue
    from tidelog.network.socket_server import SocketServer
    from tidelog.quotas import ReplicationQuotas
    from tidelog.replication.fetch_session import FetchSessionCache
    from tidelog.replication.replica_manager import ReplicaManager
    from tidelog.storage.directories.manager import LogManager
    from tidelog.timing import Clock, Scheduler


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """A record of what was started; it starts and stops nothing itself. No part has it: each takes what it uses."""

    broker_id: int
    settings: CurrentSettings
    image: ClusterImage
    """What is known of the cluster. Handlers read nothing else about topics and brokers."""
    metadata: StoreQueue
    """The metadata tree: topics and settings are written here first."""
    topology: Topology
    clock: Clock
    scheduler: Scheduler
    timer_driver: TimerDriver
    slices: TimeSlices
    background: BackgroundPool
    preparation: RecordPreparation
    flusher: Flusher
    log_manager: LogManager
    cleaning: CleanerService
    replica_manager: ReplicaManager
    hosted_topics: HostedTopics
    log_dir_moves: LogDirMoves
    replication_quotas: ReplicationQuotas
    delayed: DelayedDelivery
    fetch_sessions: FetchSessionCache
    groups: CoordinatorEdge[GroupShard]
    shares: Shares
    transactions: TransactionCoordinator
    markers: MarkerWriter
    routes: Mapping[int, Route]
    """What ApiVersions names."""
    socket_server: SocketServer
    request_log: RequestLog
    client_quotas: ClientQuotaManager
    dynamic_config: AnnouncedChanges[str]
    """Settings of topics, brokers, users and clients as they change in the tree."""
    features: ClusterFeatures
    """Which level of each feature is in effect in the cluster."""
    client_metrics: ClientMetrics | None
    """What clients push; None where no page would show it."""
    entity_settings: EntitySettings
    """What groups and subscriptions to clients' metrics have for themselves."""
    listener_security: ListenerSecurity
    authentication: Authentication | None
    """What authenticates the clients of listeners with SASL; None without such listeners, which are never added."""
    access: Access | None
    """What clients may do; None where they may do everything."""
    tokens: TokenManager | None
    """The delegation tokens; None where there are none."""

    @property
    def config(self) -> BrokerConfig:
        """The settings as they are now."""
        return self.settings.config

    @property
    def config_layers(self) -> ConfigLayers:
        """The settings as they are now, by where each comes from."""
        return self.settings.layers
