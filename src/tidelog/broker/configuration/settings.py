"""Derives each package's settings from the configuration, and applies dynamic settings from the metadata tree.

Called at start-up, and again when a dynamic setting changes.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Final

from tidelog.config import BrokerConfig, ConfigError
from tidelog.config.layers import ConfigLayers
from tidelog.config.updates import is_password
from tidelog.metadata.configs import ConfigEntity, read_overrides
from tidelog.metadata.features import SUPPORTED
from tidelog.metadata.store import Store
from tidelog.metadata.tree import BrokerRegistration, Endpoint
from tidelog.network.limits import NetworkLimits
from tidelog.quotas import RateWindows, ReplicationQuota, ReplicationQuotas
from tidelog.security.addresses import canonical_address

logger = logging.getLogger(__name__)

CLUSTER_DEFAULT: Final = "<default>"

_THREADS: Final = ("num.network.threads", "num.io.threads")
"""With these Kafka uses more cores."""


def load_dynamic_layers(store: Store, broker_id: int, static: Mapping[str, str]) -> ConfigLayers:
    """The static settings with what the tree holds for the cluster and for this broker laid over them.

    A dynamic setting that is no longer accepted is logged and left out: it must not keep a broker from starting.
    """
    cluster = read_overrides(store, ConfigEntity("brokers", CLUSTER_DEFAULT))
    own = _clear(read_overrides(store, ConfigEntity("brokers", str(broker_id))), static)
    while True:
        try:
            layers = ConfigLayers(static, cluster=cluster, broker=own)
            layers.dynamic_only()  # for its errors
            return layers
        except ConfigError as error:
            if error.setting not in cluster.keys() | own.keys():
                logger.error("all dynamic settings of broker %d are ignored: %s", broker_id, error)
                return ConfigLayers(static)
            logger.error("the dynamic setting %s is ignored: %s", error.setting, error)
            cluster.pop(error.setting, None)
            own.pop(error.setting, None)


def _clear(overrides: dict[str, str], static: Mapping[str, str]) -> dict[str, str]:
    """The overrides of a broker with their passwords in clear."""
    if not any(map(is_password, overrides)):
        return overrides
    from tidelog.broker.configuration.dynamic_passwords import DynamicPasswords

    return DynamicPasswords(ConfigLayers(static).config).decode(overrides)


def replication_quotas(broker_id: int, config: BrokerConfig) -> ReplicationQuotas:
    """The quotas of a broker, without limits yet."""
    windows = RateWindows(config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000)
    moves = RateWindows(
        config.alter_log_dirs_replication_quota_window_num,
        config.alter_log_dirs_replication_quota_window_size_seconds * 1000,
    )
    return ReplicationQuotas(
        ReplicationQuota(broker_id, windows), ReplicationQuota(broker_id, windows), ReplicationQuota(broker_id, moves)
    )


def quota_burst_ms(config: BrokerConfig) -> int:
    """How much a client that was idle may spend at once, as the time in which its quota lets it through.

    All windows but the current one, as in Kafka.
    """
    return max(config.quota_window_num - 1, 1) * config.quota_window_size_seconds * 1000


def limit_replication(quotas: ReplicationQuotas, layers: ConfigLayers) -> None:
    """Set the limits of replication, which are dynamic settings alone."""
    settings = layers.dynamic_only()
    quotas.set_rates(
        leader=settings.leader_replication_throttled_rate,
        follower=settings.follower_replication_throttled_rate,
        alter_log_dirs=settings.replica_alter_log_dirs_io_max_bytes_per_second,
    )


def warn_of_idle_settings(names: Collection[str], owner: str = "the broker") -> None:
    """Log, in one line, the settings that were accepted and that nothing reads."""
    if names:
        threads = [name for name in names if name.endswith(_THREADS)]
        instead = f"set tidelog.cores instead of {' and '.join(threads)}; " if threads else ""
        logger.warning("%ssettings of %s that have no effect in Tidelog: %s", instead, owner, ", ".join(names))


def network_limits(config: BrokerConfig, socket_descriptors_max: int) -> NetworkLimits:
    """The settings of `tidelog.network`."""
    return NetworkLimits(
        request_bytes_max=config.socket_request_max_bytes,
        queued_requests_max=config.queued_max_requests,
        queued_request_bytes_max=config.queued_max_request_bytes,
        connections_max=config.max_connections,
        listener_connections_max=_by_listener(config, "max.connections"),
        connections_per_second_max=config.max_connection_creation_rate,
        listener_connections_per_second_max=_by_listener(config, "max.connection.creation.rate"),
        connections_burst_ms=quota_burst_ms(config),
        connection_wait_ms_max=config.quota_window_size_seconds * 1000,
        control_listener=None if config.control_plane_listener_name is None else config.control_plane_name,
        protected_listener=config.inter_broker_name if len(config.parsed_listeners) > 1 else None,
        connections_per_ip_max=config.max_connections_per_ip,
        connections_per_ip_overrides={
            canonical_address(host): limit for host, limit in config.connections_per_ip_overrides.items()
        },
        connections_idle_ms_max=config.connections_max_idle_ms,
        send_buffer_bytes=_if_set(config, "socket.send.buffer.bytes", config.socket_send_buffer_bytes),
        receive_buffer_bytes=_if_set(config, "socket.receive.buffer.bytes", config.socket_receive_buffer_bytes),
        listen_backlog=config.socket_listen_backlog_size,
        socket_descriptors_max=socket_descriptors_max,
    )


def registration_of(config: BrokerConfig, broker_id: int, ports: Mapping[str, int], wall_ms: int) -> BrokerRegistration:
    """What the tree says about a broker: its advertised addresses, with the real port where a listener has any port."""
    endpoints = tuple(
        Endpoint(
            listener.name,
            listener.host or "127.0.0.1",
            listener.port or ports[listener.name],
            listener.security_protocol,
        )
        for listener in config.parsed_advertised_listeners
    )
    return BrokerRegistration(broker_id, endpoints, config.broker_rack, wall_ms, features=SUPPORTED)


def _if_set(config: BrokerConfig, name: str, size: int) -> int:
    """A buffer size that was configured. Kafka's default of 100 KiB is not forced on the kernel:

    left alone it grows a buffer with the speed of the peer, and a fetch of a megabyte takes half the time.
    """
    return size if name in config.originals else -1


def _by_listener(config: BrokerConfig, name: str) -> dict[str, int]:
    """`listener.name.<listener>.<name>` of each listener that has it."""
    field = BrokerConfig.settings[name].field
    return {
        listener.name: getattr(config.for_listener(listener.name), field)
        for listener in config.parsed_listeners
        if f"listener.name.{listener.name.lower()}.{name}" in config.originals
    }
