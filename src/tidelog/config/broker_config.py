"""The settings of a broker: those of a Kafka 3.9 broker in ZooKeeper mode that have a meaning here.

The declarations stand in the `_…_settings` modules, one per area. `load_broker_config` is how a broker gets one; every
other room receives the fields it needs from it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.config import _listeners
from tidelog.config._coordinator_settings import GroupSettings, TransactionSettings
from tidelog.config._listener_settings import ConnectionSettings, ListenerSettings
from tidelog.config._listeners import Listener
from tidelog.config._log_settings import CleanerSettings, LogSettings
from tidelog.config._replication_settings import MetricSettings, QuotaSettings, ReplicationSettings
from tidelog.config._security_settings import AuthorizationSettings, SaslSettings, TlsSettings
from tidelog.config._server_settings import ServerSettings, TopicSettings, ZooKeeperSettings


class BrokerConfig(
    ServerSettings,
    ListenerSettings,
    ConnectionSettings,
    TopicSettings,
    LogSettings,
    CleanerSettings,
    ReplicationSettings,
    GroupSettings,
    TransactionSettings,
    ZooKeeperSettings,
    AuthorizationSettings,
    TlsSettings,
    SaslSettings,
    QuotaSettings,
    MetricSettings,
):
    """All settings of one broker. A field is the setting's name with underscores for dots."""

    originals: Mapping[str, str] = {}
    """The properties this was made from, those without a field of their own (`listener.name.…`) among them."""

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
        """The addresses that clients are told; those of `listeners` when nothing else is set."""
        if not self.advertised_listeners:
            return self.parsed_listeners
        return _listeners.parse_listeners(
            self.advertised_listeners, self.security_protocols, setting="advertised.listeners"
        )
