"""The parts of one running broker, as handlers see them. `server` puts them together at start-up."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.broker.background import BackgroundPool, Flusher, RecordPreparation
from tidelog.broker.cleaner import CleanerService
from tidelog.broker.dynamic_config import DynamicConfig
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.broker.routes import Route
from tidelog.broker.slices import TimeSlices
from tidelog.broker.topic_service import TopicService
from tidelog.broker.transaction_coordinator import TransactionCoordinator
from tidelog.config import BrokerConfig
from tidelog.config.layers import ConfigLayers
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.producer_ids import ProducerIdAllocator
from tidelog.metadata.store_queue import StoreQueue
from tidelog.network.socket_server import SocketServer
from tidelog.replication.fetch_session import FetchSessionCache
from tidelog.replication.replica_manager import ReplicaManager
from tidelog.storage.log_manager import LogManager
from tidelog.timing import Clock, Scheduler


class Node:
    """A record of what was started; it starts and stops nothing itself."""

    __slots__ = (
        "background",
        "broker_id",
        "cleaning",
        "clock",
        "config",
        "config_layers",
        "dynamic_config",
        "fetch_sessions",
        "flusher",
        "groups",
        "image",
        "log_manager",
        "metadata",
        "preparation",
        "producer_ids",
        "replica_manager",
        "routes",
        "scheduler",
        "slices",
        "socket_server",
        "topics",
        "transactions",
    )

    background: BackgroundPool
    broker_id: int
    cleaning: CleanerService
    clock: Clock
    config: BrokerConfig
    config_layers: ConfigLayers
    dynamic_config: DynamicConfig
    fetch_sessions: FetchSessionCache
    flusher: Flusher
    groups: GroupCoordinator
    image: ClusterImage
    log_manager: LogManager
    metadata: StoreQueue
    """The metadata tree: where everything that must outlast the broker is written first."""
    preparation: RecordPreparation
    producer_ids: ProducerIdAllocator
    replica_manager: ReplicaManager
    routes: Mapping[int, Route]
    scheduler: Scheduler
    slices: TimeSlices
    socket_server: SocketServer
    topics: TopicService
    transactions: TransactionCoordinator
