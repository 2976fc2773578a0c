"""Puts the parts of a broker together: which of them has which others is decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.broker.client_quotas import ClientQuotaManager
from tidelog.broker.configuration.current import CurrentSettings
from tidelog.broker.configuration.entity_settings import EntitySettings
from tidelog.broker.configuration.features import ClusterFeatures
from tidelog.broker.configuration.settings import limit_replication, network_limits, replication_quotas
from tidelog.broker.coordinators.edge import EdgeParts
from tidelog.broker.coordinators.groups import group_coordinator
from tidelog.broker.coordinators.markers import MarkerWriter
from tidelog.broker.coordinators.shares import Shares
from tidelog.broker.coordinators.transactions import TransactionCoordinator
from tidelog.broker.delayed_delivery import DelayedDelivery
from tidelog.broker.dynamic_config import follow_settings
from tidelog.broker.foundation import Foundation
from tidelog.broker.handlers import TELEMETRY, broker_handlers, forwarded_handlers, handlers, own_handlers
from tidelog.broker.hosting.hosted_topics import HostedTopics
from tidelog.broker.hosting.log_dir_moves import LogDirMoves
from tidelog.broker.requests.request_log import RequestLog
from tidelog.broker.runtime.background import RecordPreparation
from tidelog.broker.security.listener_security import ListenerSecurity
from tidelog.broker.serving.dispatcher import Dispatcher
from tidelog.broker.serving.node import Node
from tidelog.broker.topology.topology import BrokerParts
from tidelog.metadata.configs import ConfigEntity, read_overrides
from tidelog.metadata.entities import GROUPS
from tidelog.network.socket_server import SocketServer
from tidelog.replication.fetch_session import FetchSessionCache
from tidelog.replication.replica_manager import PurgeIntervals, ReplicaManager

if TYPE_CHECKING:
    from tidelog.broker.security.access import Access
    from tidelog.broker.security.authentication import Authentication
    from tidelog.broker.security.delegation_tokens import TokenManager
    from tidelog.broker.telemetry.client_metrics import ClientMetrics
    from tidelog.broker.topology.topology import TopologyPlan
    from tidelog.config import BrokerConfig
    from tidelog.config.layers import ConfigLayers
    from tidelog.metadata.image import ClusterImage
    from tidelog.metadata.store_queue import StoreQueue
    from tidelog.network.connection import Connection
    from tidelog.storage.errors import LogDirFailure


def assemble(
    broker_id: int,
    layers: ConfigLayers,
    plan: TopologyPlan,
    loaded: ClusterImage,
    image: ClusterImage,
    metadata: StoreQueue,
    base: Foundation,
    on_log_dir_failure: Callable[[LogDirFailure], None],
    on_turn_end: Callable[[], None],
    reach: Callable[[str], None],
) -> Node:
    """Make a broker of its foundation, its metadata and its settings. `loaded` is what the tree says.

    `on_turn_end` is called at the end of every turn of the loop in which something was done; `reach` with the names of
    places at which a crash can be asked for.
    """
    settings = CurrentSettings(layers)
    config, clock = settings.config, base.clock
    listener_security = ListenerSecurity(config, clock)
    authentication = _authentication_of(config, base, listener_security)
    routes = {**handlers(), **broker_handlers(plan.apis), **forwarded_handlers(plan.forwarded)}
    if not config.metrics_listeners:
        # As Kafka without a plug-in that takes the metrics of clients.
        routes = {key: route for key, route in routes.items() if key not in TELEMETRY}
    dispatcher = Dispatcher({**routes, **own_handlers()})
    request_log = RequestLog(config.tidelog_slow_request_ms)
    request_log.use(dispatcher, has_metrics=bool(config.metrics_listeners))
    network = SocketServer(
        base.loop,
        network_limits(config, base.surroundings.socket_descriptors_max()),
        dispatcher.dispatch,
        on_turn_end,
        clock.wall_ms,
        dispatcher.request_limit,
        base.surroundings.listen,
        _accept_connection if authentication is None else authentication.on_open,
    )
    quotas = replication_quotas(broker_id, config)
    limit_replication(quotas, layers)
    replica_manager = ReplicaManager(
        broker_id,
        clock,
        base.timer,
        on_log_dir_failure,
        base.flusher.flush,
        network.wake,
        PurgeIntervals(
            config.producer_purgatory_purge_interval_requests,
            config.fetch_purgatory_purge_interval_requests,
            config.delete_records_purgatory_purge_interval_requests,
        ),
        plan.view(settings, image),
        plan.replica_selector(config),
        quotas.leader,
    )
    delayed = DelayedDelivery(
        replica_manager,
        settings,
        clock,
        base.timer,
        base.timer_driver,
        base.scheduler,
        base.slices,
        base.background,
        network.wake,
        base.loop,
    )
    replica_manager.delayed = delayed
    hosted_topics = HostedTopics(
        settings, image, base.log_manager, replica_manager, delayed, base.flusher, base.background, base.slices
    )
    log_dir_moves = LogDirMoves(
        settings,
        base.log_manager,
        replica_manager,
        base.cleaning,
        base.flusher,
        base.background,
        base.slices,
        clock,
        quotas.alter_log_dirs,
    )
    parts = BrokerParts(
        broker_id=broker_id,
        settings=settings,
        image=image,
        metadata=metadata,
        base=base,
        network=network,
        listener_security=listener_security,
        replication_quotas=quotas,
        replica_manager=replica_manager,
        topics=hosted_topics,
        log_dir_moves=log_dir_moves,
    )
    topology = plan.build(parts, loaded)
    client_quotas = ClientQuotaManager(config, metadata, clock, base.scheduler, base.slices, network, dispatcher.charge)
    entities = EntitySettings(metadata)
    dynamic_config = follow_settings(parts, topology, client_quotas, authentication, entities)
    topology.on_new_session(dynamic_config.look)
    features = ClusterFeatures(metadata)
    topology.on_new_session(features.look)
    access = _access_of(parts)
    if access is not None:
        topology.on_new_session(access.look)
    tokens = _tokens_of(parts)
    if tokens is not None:
        listener_security.credentials.find_token = tokens.login
        topology.on_new_session(tokens.look)
    edge_parts = EdgeParts(
        settings=settings,
        image=image,
        replica_manager=replica_manager,
        clock=clock,
        timer=base.timer,
        slices=base.slices,
        background=base.background,
        wake=network.wake,
    )
    groups = group_coordinator(edge_parts, None if access is None else access.authorizer, entities)
    markers = MarkerWriter(groups, replica_manager, clock, settings)
    transactions = TransactionCoordinator(edge_parts, topology, markers, features, reach)
    shares = Shares(
        broker_id,
        edge_parts,
        topology,
        features,
        lambda group_id: entities.overrides(GROUPS, group_id),
        lambda topic: metadata.run(read_overrides, ConfigEntity("topics", topic)),
    )
    network.on_forgotten = shares.connection_closed
    hosted_topics.add_leadership_listener(groups)
    hosted_topics.add_leadership_listener(shares)
    hosted_topics.add_leadership_listener(transactions.edge)
    hosted_topics.add_deletion_listener(
        lambda names: groups.execute_in_all(lambda shard, now_ms: shard.forget_topics(names, now_ms))
    )
    node = Node(
        broker_id=broker_id,
        settings=settings,
        image=image,
        metadata=metadata,
        topology=topology,
        clock=clock,
        scheduler=base.scheduler,
        timer_driver=base.timer_driver,
        slices=base.slices,
        background=base.background,
        preparation=RecordPreparation(base.background, config.background_threads),
        flusher=base.flusher,
        log_manager=base.log_manager,
        cleaning=base.cleaning,
        replica_manager=replica_manager,
        hosted_topics=hosted_topics,
        log_dir_moves=log_dir_moves,
        replication_quotas=quotas,
        delayed=delayed,
        fetch_sessions=FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots, lambda: base.surroundings.random.randrange(1, 2**31)
        ),
        groups=groups,
        shares=shares,
        transactions=transactions,
        markers=markers,
        routes=routes,
        socket_server=network,
        request_log=request_log,
        client_quotas=client_quotas,
        dynamic_config=dynamic_config,
        features=features,
        entity_settings=entities,
        client_metrics=_client_metrics_of(config, entities),
        listener_security=listener_security,
        authentication=authentication,
        access=access,
        tokens=tokens,
    )
    dispatcher.attach(node)
    return node


def _authentication_of(
    config: BrokerConfig, base: Foundation, listener_security: ListenerSecurity
) -> Authentication | None:
    """Imported only where a listener has SASL, like everything below that few brokers have."""
    listeners = listener_security.sasl_listeners(config)
    if not listeners:
        return None
    from tidelog.broker.security.authentication import Authentication

    return Authentication(base.loop, base.clock, listeners)


def _client_metrics_of(config: BrokerConfig, entities: EntitySettings) -> ClientMetrics | None:
    if not config.metrics_listeners:
        return None
    from tidelog.broker.telemetry.client_metrics import ClientMetrics

    return ClientMetrics(entities)


def _access_of(parts: BrokerParts) -> Access | None:
    config = parts.settings.config
    if not config.authorizer_class_name:
        return None
    from tidelog.broker.security.access import Access

    return Access(config, parts.metadata, parts.base.clock.wall_ms)


def _tokens_of(parts: BrokerParts) -> TokenManager | None:
    config, base = parts.settings.config, parts.base
    secret_key = config.delegation_token_secret_key or config.delegation_token_master_key
    if not secret_key:
        return None
    from tidelog.broker.security.delegation_tokens import TokenManager

    return TokenManager(secret_key, parts.settings, parts.metadata, base.clock, base.scheduler)


def _accept_connection(connection: Connection) -> None:
    """For a broker without SASL: a listener that had it would have to have somewhere to authenticate."""
    assert not connection.session.security_protocol.startswith("SASL"), "a SASL listener authenticates its clients"
