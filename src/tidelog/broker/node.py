"""The parts of one running broker, as handlers see them. `server` puts them together at start-up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tidelog.broker.background import BackgroundPool, Flusher, RecordPreparation
from tidelog.broker.cleaner import CleanerService
from tidelog.broker.client_quotas import ClientQuotaManager
from tidelog.broker.delayed_delivery import DelayedDelivery
from tidelog.broker.dynamic_config import DynamicConfig
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.broker.handlers import cluster_handlers, handlers
from tidelog.broker.listener_security import ListenerSecurity
from tidelog.broker.log_dir_moves import LogDirMoves
from tidelog.broker.request_log import RequestLog
from tidelog.broker.routes import Route
from tidelog.broker.settings import limit_replication, replication_quotas
from tidelog.broker.slices import TimeSlices
from tidelog.broker.surroundings import Surroundings
from tidelog.broker.timer_driver import TimerDriver
from tidelog.broker.topic_service import TopicChanges, TopicService
from tidelog.broker.transaction_coordinator import TransactionCoordinator
from tidelog.config import BrokerConfig
from tidelog.config.layers import ConfigLayers
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.producer_ids import ProducerIdAllocator, take_block
from tidelog.metadata.store_queue import StoreQueue
from tidelog.metadata.tree import ProducerIdBlock
from tidelog.network.socket_server import SocketServer
from tidelog.replication.fetch_session import FetchSessionCache
from tidelog.replication.replica_manager import PurgeIntervals, ReplicaManager
from tidelog.replication.replica_selection import replica_selector
from tidelog.storage.directories.manager import LogManager, LogManagerConfig
from tidelog.storage.errors import LogDirFailure
from tidelog.timing import Scheduler, Timer

if TYPE_CHECKING:
    from tidelog.broker.access import Access
    from tidelog.broker.authentication import Authentication
    from tidelog.broker.cluster import ClusterMember, ClusterView
    from tidelog.broker.delegation_tokens import TokenManager


class Node:
    """A record of what was started; it starts and stops nothing itself.

    The parts that stand by themselves are given; those that need the others are made here. Once made, a node is whole.
    """

    __slots__ = (
        "access",
        "authentication",
        "background",
        "broker_id",
        "cleaning",
        "client_quotas",
        "clock",
        "config",
        "config_layers",
        "delayed",
        "dynamic_config",
        "fetch_sessions",
        "flusher",
        "groups",
        "image",
        "listener_security",
        "log_dir_moves",
        "log_manager",
        "member",
        "metadata",
        "preparation",
        "producer_ids",
        "replica_manager",
        "replication_quotas",
        "request_log",
        "routes",
        "scheduler",
        "slices",
        "socket_server",
        "surroundings",
        "timer",
        "timer_driver",
        "tokens",
        "topics",
        "transactions",
    )

    def __init__(
        self,
        broker_id: int,
        config_layers: ConfigLayers,
        image: ClusterImage,
        metadata: StoreQueue,
        base: NodeBase,
        on_log_dir_failure: Callable[[LogDirFailure], None],
        new_socket_server: Callable[[Node], SocketServer],
        reach: Callable[[str], None],
    ) -> None:
        self.broker_id = broker_id
        self.config_layers = config_layers
        self.config = config = config_layers.config
        self.image = image
        self.listener_security = ListenerSecurity(config, base.surroundings.clock)
        self.authentication = _authentication_of(self, base)
        self.request_log = RequestLog(config.tidelog_slow_request_ms)
        self.metadata = metadata
        """The metadata tree: topics and settings are written here first."""
        self.surroundings = base.surroundings
        self.clock = base.surroundings.clock
        self.timer = base.timer
        self.timer_driver = base.timer_driver
        self.scheduler = base.scheduler
        self.slices = base.slices
        self.background = base.background
        self.preparation = RecordPreparation(base.background, config.background_threads)
        self.flusher = base.flusher
        self.log_manager = base.log_manager
        self.cleaning = base.cleaning
        self.producer_ids = ProducerIdAllocator(self._take_producer_ids)
        self.fetch_sessions = FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots, lambda: base.surroundings.random.randrange(1, 2**31)
        )
        is_clustered = base.surroundings.is_clustered
        self.routes: Mapping[int, Route] = {**handlers(), **cluster_handlers()} if is_clustered else handlers()
        self.client_quotas = ClientQuotaManager(self)
        self.socket_server = new_socket_server(self)
        self.replication_quotas = replication_quotas(broker_id, config)
        limit_replication(self.replication_quotas, config_layers)
        self.replica_manager = ReplicaManager(
            broker_id,
            self.clock,
            base.timer,
            on_log_dir_failure,
            base.flusher.flush,
            self.socket_server.wake,
            PurgeIntervals(
                config.producer_purgatory_purge_interval_requests,
                config.fetch_purgatory_purge_interval_requests,
                config.delete_records_purgatory_purge_interval_requests,
            ),
            _view_of_cluster(self) if is_clustered else None,
            replica_selector(config.replica_selector_class) if is_clustered else None,
            self.replication_quotas.leader,
        )
        self.delayed = DelayedDelivery(self, base.loop)
        self.replica_manager.delayed = self.delayed
        self.topics = TopicService(self)
        self.groups = GroupCoordinator(self, base.timer)
        self.transactions = TransactionCoordinator(self, base.timer, reach)
        self.topics.add_leadership_listener(self.groups)
        self.topics.add_leadership_listener(self.transactions)
        self.topics.add_deletion_listener(self.groups.forget_topics)
        self.log_dir_moves = LogDirMoves(self)
        self.dynamic_config = DynamicConfig(self)
        self.access = _access_of(self) if config.authorizer_class_name else None
        """What clients may do; None where they may do everything."""
        secret_key = config.delegation_token_secret_key or config.delegation_token_master_key
        self.tokens = _tokens_of(self, secret_key) if secret_key else None
        """The delegation tokens; None where there are none."""
        if self.tokens is not None:
            self.listener_security.credentials.find_token = self.tokens.login
        self.member = _member_of_cluster(self) if is_clustered else None

    @property
    def topic_changes(self) -> TopicChanges:
        """Where clients' changes of topics go: to the tree of the cluster, or to this broker alone."""
        return self.topics if self.member is None else self.member.topics

    async def _take_producer_ids(self) -> ProducerIdBlock:
        """The next block: from the controller, or from the tree if this broker is alone."""
        if self.member is not None:
            return await self.member.allocate_producer_ids()
        return await self.metadata.run(take_block, self.broker_id)

    @property
    def in_cluster(self) -> ClusterMember:
        """This broker's part in a cluster, for what happens only there."""
        assert self.member is not None, "this broker is alone"
        return self.member


def _authentication_of(node: Node, base: NodeBase) -> Authentication | None:
    """What authenticates the clients of listeners with SASL; None without such listeners, which are never added."""
    listeners = node.listener_security.sasl_listeners(node.config)
    if not listeners:
        return None
    from tidelog.broker.authentication import Authentication

    return Authentication(base.loop, base.surroundings.clock, listeners)


def _view_of_cluster(node: Node) -> ClusterView:
    """Imported only here: a broker without a cluster starts sooner."""
    from tidelog.broker.cluster import ClusterView

    return ClusterView(node)


def _member_of_cluster(node: Node) -> ClusterMember:
    from tidelog.broker.cluster import ClusterMember

    return ClusterMember(node)


def _tokens_of(node: Node, secret_key: str) -> TokenManager:
    from tidelog.broker.delegation_tokens import TokenManager

    return TokenManager(node, secret_key)


def _access_of(node: Node) -> Access:
    from tidelog.broker.access import Access

    return Access(node)


class NodeBase:
    """The parts of a node that need neither metadata nor an identity: time, threads, logs."""

    __slots__ = (
        "background",
        "cleaning",
        "flusher",
        "log_manager",
        "loop",
        "scheduler",
        "slices",
        "surroundings",
        "timer",
        "timer_driver",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: BrokerConfig,
        surroundings: Surroundings,
        on_log_dir_failure: Callable[[LogDirFailure], None],
        on_timer_failure: Callable[[object, Exception], None],
    ) -> None:
        self.loop = loop
        self.surroundings = surroundings
        clock = surroundings.clock
        self.timer = Timer(clock.monotonic_ms(), on_error=on_timer_failure)
        self.timer_driver = TimerDriver(loop, self.timer, clock)
        self.scheduler = Scheduler(self.timer, clock)
        self.slices = TimeSlices(loop, surroundings.processor_seconds)
        self.background = BackgroundPool(loop, config.background_threads)
        self.flusher = Flusher(self.background, clock, on_log_dir_failure)
        self.log_manager = LogManager(
            LogManagerConfig.of(config),
            clock,
            self.scheduler,
            background=self.background,
            flush=self.flusher.flush,
            on_failure=on_log_dir_failure,
        )
        self.cleaning = CleanerService(
            config,
            self.log_manager,
            clock,
            self.scheduler,
            self.background,
            on_log_dir_failure,
            surroundings.new_cleaner_worker,
        )
