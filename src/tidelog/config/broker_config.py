"""The settings of a broker: those of a Kafka 3.9 broker in ZooKeeper mode that have a meaning here.

The declarations stand in the `_…_settings` modules, one per area. `load_broker_config` is how a broker gets one; every
other room receives the fields it needs from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

from tidelog.config import _listeners
from tidelog.config._coordinator_settings import GroupSettings, TransactionSettings
from tidelog.config._listener_settings import ConnectionSettings, ListenerSettings
from tidelog.config._listeners import Listener
from tidelog.config._log_settings import CleanerSettings, LogSettings
from tidelog.config._quorum_settings import QuorumSettings
from tidelog.config._replication_settings import (
    MetricReporterSettings,
    MetricSettings,
    QuotaSettings,
    ReplicationSettings,
    RequestLogSettings,
)
from tidelog.config._security_settings import (
    AuthorizationSettings,
    BearerTokenSettings,
    KerberosSettings,
    SaslSettings,
    TlsSettings,
)
from tidelog.config._server_settings import ServerSettings, TopicSettings, ZooKeeperSecuritySettings, ZooKeeperSettings
from tidelog.config._share_settings import ShareGroupSettings
from tidelog.config._streams_settings import StreamsGroupSettings
from tidelog.config.declaration import Setting, parse_settings
from tidelog.config.errors import ConfigError
from tidelog.config.kinds import parse_items


class BrokerConfig(
    ServerSettings,
    ListenerSettings,
    ConnectionSettings,
    TopicSettings,
    LogSettings,
    CleanerSettings,
    ReplicationSettings,
    GroupSettings,
    ShareGroupSettings,
    StreamsGroupSettings,
    TransactionSettings,
    ZooKeeperSettings,
    ZooKeeperSecuritySettings,
    QuorumSettings,
    AuthorizationSettings,
    TlsSettings,
    SaslSettings,
    KerberosSettings,
    BearerTokenSettings,
    QuotaSettings,
    MetricSettings,
    RequestLogSettings,
    MetricReporterSettings,
):
    """All settings of one broker. A field is the setting's name with underscores for dots."""

    originals: Mapping[str, str] = {}
    """The properties this was made from, those without a field of their own (`listener.name.…`) among them."""

    @property
    def is_alone(self) -> bool:
        """Whether no other broker can use the same metadata."""
        return self.zookeeper_connect is None and self.metadata_socket is None and not self.process_roles

    @property
    def controller_listener_name(self) -> str:
        """Name of the listener of the controllers of a KRaft cluster; empty outside of one."""
        names = parse_items(self.controller_listener_names or "")
        return names[0].upper() if names else ""

    @property
    def parsed_bootstrap_controllers(self) -> tuple[tuple[str, int], ...]:
        """Where controllers of a KRaft cluster may be asked for the others. Raises ConfigError."""
        voters = tuple(self.parsed_voters.values())
        return voters or tuple(
            _listeners.parse_address(each, "controller.quorum.bootstrap.servers")
            for each in self.controller_quorum_bootstrap_servers
        )

    @property
    def parsed_voters(self) -> dict[int, tuple[str, int]]:
        """The controllers that are named with their ids. Raises ConfigError."""
        return _listeners.parse_voters(self.controller_quorum_voters)

    @property
    def security_protocols(self) -> dict[str, str]:
        """Security protocol by listener name."""
        return _listeners.parse_protocol_map(self.listener_security_protocol_map)

    @property
    def parsed_listeners(self) -> tuple[Listener, ...]:
        """The addresses to listen on."""
        return _listeners.parse_listeners(self.listeners, self.security_protocols, setting="listeners")

    @property
    def parsed_advertised_listeners(self) -> tuple[Listener, ...]:
        """The addresses given to clients; those of `listeners` when nothing else is set."""
        if self.advertised_listeners is None:
            return self.parsed_listeners
        return _listeners.parse_listeners(
            self.advertised_listeners, self.security_protocols, setting="advertised.listeners"
        )

    @property
    def parsed_metrics_listeners(self) -> tuple[Listener, ...]:
        """The addresses at which metrics are read. Raises ConfigError."""
        return _listeners.parse_metrics_listeners(self.metrics_listeners)

    @property
    def inter_broker_name(self) -> str:
        """Name of the listener for connections between brokers."""
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    @property
    def control_plane_name(self) -> str:
        """Name of the listener for connections between brokers and the controller."""
        return (self.control_plane_listener_name or self.inter_broker_name).upper()

    @property
    def connections_per_ip_overrides(self) -> dict[str, int]:
        """Most connections of an address, where `max.connections.per.ip` is overridden. Raises ConfigError."""
        overrides: dict[str, int] = {}
        for item in parse_items(self.max_connections_per_ip_overrides):
            host, _, digits = (part.strip() for part in item.rpartition(":"))
            if not host or not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
                name = "max.connections.per.ip.overrides"
                raise ConfigError(f"{name}: {item!r} is not of the form address:count", setting=name)
            overrides[_checked_address(host.strip("[]"))] = int(digits)
        return overrides

    def for_listener(self, name: str) -> Self:
        """These settings as one listener sees them, its own `listener.name.<name>.…` settings applied."""
        prefix = f"{_LISTENER_PREFIX}{name.lower()}."
        own = {key[len(prefix) :]: text for key, text in self.originals.items() if key.startswith(prefix)}
        return self.replace(**parse_settings(type(self), own)) if own else self

    def for_mechanism(self, listener: str, mechanism: str) -> Self:
        """As one SASL mechanism of one listener sees them: `listener.name.<name>.<mechanism>.…` applied as well."""
        prefix = f"{_LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}."
        own = {key[len(prefix) :]: text for key, text in self.originals.items() if key.startswith(prefix)}
        config = self.for_listener(listener)
        return config.replace(**parse_settings(type(self), own)) if own else config

    def jaas_of(self, listener: str, mechanism: str) -> tuple[str, str | None]:
        """`listener.name.<listener>.<mechanism>.sasl.jaas.config`: the name of that setting, and its value."""
        name = f"{_LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
        return name, self.originals.get(name, self.sasl_jaas_config)


_LISTENER_PREFIX: Final = "listener.name."

_LISTENER_SETTINGS: Final = ("max.connections", "max.connection.creation.rate", "connections.max.reauth.ms")
_LISTENER_AREAS: Final = ("TLS", "SASL")


def _checked_address(text: str) -> str:
    from ipaddress import ip_address

    try:
        ip_address(text)
    except ValueError:
        name = "max.connections.per.ip.overrides"
        reason = f"{text!r} is not an IP address; host names are not looked up"
        raise ConfigError(f"{name}: {reason}", setting=name) from None
    return text


def takes_effect_per_listener(declared: Setting) -> bool:
    """Whether `listener.name.<listener>.<setting>` takes effect for that listener alone."""
    return declared.name in _LISTENER_SETTINGS or (declared.area in _LISTENER_AREAS and declared.has_effect)


def listener_of(name: str) -> str:
    """The listener that `listener.name.<listener>.…` is about, as it is written there."""
    return name.removeprefix(_LISTENER_PREFIX).partition(".")[0]


def listener_setting(name: str) -> Setting | None:
    """The setting that `listener.name.<listener>.<setting>` or `….<mechanism>.<setting>` is about, if there is one."""
    if not name.startswith(_LISTENER_PREFIX):
        return None
    _, _, base = name.removeprefix(_LISTENER_PREFIX).partition(".")
    return BrokerConfig.settings.get(base) or BrokerConfig.settings.get(base.partition(".")[2])
