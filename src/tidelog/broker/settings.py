"""From the configuration to what each room receives, and dynamic settings from the metadata tree.

Called at start-up, and again when a dynamic setting changes.
"""

from __future__ import annotations

from typing import Final

from tidelog.config import BrokerConfig
from tidelog.config.layers import ConfigLayers
from tidelog.metadata.configs import ConfigEntity, read_overrides
from tidelog.metadata.store import Store
from tidelog.network.limits import NetworkLimits

CLUSTER_DEFAULT: Final = "<default>"


def load_dynamic_layers(store: Store, broker_id: int, static: BrokerConfig) -> ConfigLayers:
    """The static settings with what the tree holds for the cluster and for this broker laid over them."""
    return ConfigLayers(
        static.originals,
        cluster=read_overrides(store, ConfigEntity("brokers", CLUSTER_DEFAULT)),
        broker=read_overrides(store, ConfigEntity("brokers", str(broker_id))),
    )


def network_limits(config: BrokerConfig) -> NetworkLimits:
    """What the network room needs to know."""
    return NetworkLimits(
        request_bytes_max=config.socket_request_max_bytes,
        queued_requests_max=config.queued_max_requests,
        queued_request_bytes_max=config.queued_max_request_bytes,
        connections_max=config.max_connections,
        listener_connections_max=_listener_limits(config),
        connections_per_ip_max=config.max_connections_per_ip,
        connections_per_ip_overrides=_per_ip_overrides(config.max_connections_per_ip_overrides),
        connections_idle_ms_max=config.connections_max_idle_ms,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
        listen_backlog=config.socket_listen_backlog_size,
    )


def _listener_limits(config: BrokerConfig) -> dict[str, int]:
    """`listener.name.<listener>.max.connections` of each listener that has one."""
    limits = {}
    for listener in config.parsed_listeners:
        text = config.originals.get(f"listener.name.{listener.name.lower()}.max.connections")
        if text is not None:
            limits[listener.name] = int(text)
    return limits


def _per_ip_overrides(text: str) -> dict[str, int]:
    """`host:count,host:count`; the configuration has checked the form."""
    overrides = {}
    for entry in text.split(","):
        host, _, count = entry.strip().rpartition(":")
        if host:
            overrides[host] = int(count)
    return overrides
