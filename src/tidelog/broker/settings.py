"""From the configuration to what each room receives, and dynamic settings from the metadata tree.

Called at start-up, and again when a dynamic setting changes.
"""

from __future__ import annotations

import logging
from typing import Final

from tidelog.config import BrokerConfig, ConfigError
from tidelog.config.layers import ConfigLayers
from tidelog.metadata.configs import ConfigEntity, read_overrides
from tidelog.metadata.store import Store
from tidelog.network.limits import NetworkLimits

logger = logging.getLogger(__name__)

CLUSTER_DEFAULT: Final = "<default>"


def load_dynamic_layers(store: Store, broker_id: int, static: BrokerConfig) -> ConfigLayers:
    """The static settings with what the tree holds for the cluster and for this broker laid over them.

    Dynamic settings that no longer add up are said and left out: they must not keep a broker from starting.
    """
    given = static.originals
    cluster = read_overrides(store, ConfigEntity("brokers", CLUSTER_DEFAULT))
    own = read_overrides(store, ConfigEntity("brokers", str(broker_id)))
    try:
        return ConfigLayers(given, cluster=cluster, broker=own)
    except ConfigError as error:
        logger.error("dynamic settings of broker %d are ignored: %s", broker_id, error)
        return ConfigLayers(given)


def network_limits(config: BrokerConfig) -> NetworkLimits:
    """What the network room needs to know."""
    return NetworkLimits(
        request_bytes_max=config.socket_request_max_bytes,
        queued_requests_max=config.queued_max_requests,
        queued_request_bytes_max=config.queued_max_request_bytes,
        connections_max=config.max_connections,
        listener_connections_max=_listener_limits(config),
        connections_per_ip_max=config.max_connections_per_ip,
        connections_per_ip_overrides=config.connections_per_ip_overrides,
        connections_idle_ms_max=config.connections_max_idle_ms,
        send_buffer_bytes=_if_set(config, "socket.send.buffer.bytes", config.socket_send_buffer_bytes),
        receive_buffer_bytes=_if_set(config, "socket.receive.buffer.bytes", config.socket_receive_buffer_bytes),
        listen_backlog=config.socket_listen_backlog_size,
    )


def _if_set(config: BrokerConfig, name: str, size: int) -> int:
    """A buffer size that was asked for. Kafka's default of 100 KiB is not forced on the kernel, which knows better:

    left alone it grows a buffer with the speed of the peer, and a fetch of a megabyte takes half the time.
    """
    return size if name in config.originals else -1


def _listener_limits(config: BrokerConfig) -> dict[str, int]:
    """`listener.name.<listener>.max.connections` of each listener that has one."""
    return {
        listener.name: config.for_listener(listener.name).max_connections
        for listener in config.parsed_listeners
        if f"listener.name.{listener.name.lower()}.max.connections" in config.originals
    }
