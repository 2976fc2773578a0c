"""How each listener is secured: what it negotiates TLS with, and what this broker negotiates with others.

Made from the settings when a broker starts, and again with every dynamic change of them: files are read again, and a
listener whose settings or files differ gets another context for the connections that come next. `read` may block and
touches nothing that others see; `apply` runs on the loop.
"""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING

from tidelog.config import BrokerConfig, ConfigError, Listener

if TYPE_CHECKING:
    from tidelog.network.handshakes import ListenerTls
    from tidelog.network.socket_server import SocketServer

logger = logging.getLogger(__name__)


class ListenerSecurity:
    """The TLS contexts of one broker. Raises ConfigError when it is made with settings that cannot be used."""

    def __init__(self, config: BrokerConfig) -> None:
        self._made = _make(config, {})
        self._read: dict[str, _ListenerContext] = {}
        self.is_inter_broker_secure = config.inter_broker_security_protocol != "PLAINTEXT"
        """Whether brokers connect to each other with TLS or SASL."""
        self._inter_broker_name = config.inter_broker_name

    def tls_of(self, listener: Listener) -> ListenerTls | None:
        """What clients of a listener negotiate with; None without TLS."""
        made = self._made.get(listener.name)
        return None if made is None else made.server

    def inter_broker_tls(self) -> ssl.SSLContext | None:
        """What connections to other brokers negotiate with; None without TLS."""
        made = self._made.get(self._inter_broker_name)
        return None if made is None else made.client

    def check(self, config: BrokerConfig) -> None:
        """Raise ConfigError if `config` cannot be used."""
        _make(config, self._made)

    def read(self, config: BrokerConfig) -> None:
        """Settings changed: make what differs. What cannot be made stays as it is."""
        try:
            self._read = _make(config, self._made)
        except ConfigError as error:
            logger.error("TLS stays as it was: %s", error)
            self._read = {}

    def apply(self, socket_server: SocketServer) -> None:
        """Use what was read for new connections."""
        made, self._read = self._read, {}
        for name, context in made.items():
            if context is not self._made.get(name):
                socket_server.update_tls(name, context.server)
                logger.info("listener %s: new connections use the TLS settings that were changed", name)
        self._made.update(made)


class _ListenerContext:
    """The contexts of one listener, and by what they were made."""

    __slots__ = ("client", "made_by", "server")

    def __init__(self, made_by: tuple[bytes, str, bool], server: ListenerTls, client: ssl.SSLContext | None) -> None:
        self.made_by = made_by
        self.server = server
        self.client = client


def _make(config: BrokerConfig, before: dict[str, _ListenerContext]) -> dict[str, _ListenerContext]:
    """The contexts of all listeners with TLS; those of `before` whose settings and files have not changed."""
    return {
        listener.name: _make_one(config, listener, before.get(listener.name))
        for listener in config.parsed_listeners
        if listener.security_protocol.endswith("SSL")
    }


def _make_one(config: BrokerConfig, listener: Listener, before: _ListenerContext | None) -> _ListenerContext:
    from tidelog.network.handshakes import ListenerTls
    from tidelog.security.principal_mapping import PrincipalMapping
    from tidelog.security.tls import client_context, read_tls_options, server_context

    settings = config.for_listener(listener.name)
    try:
        options = read_tls_options(settings)
        made_by = options.fingerprint(), settings.ssl_principal_mapping_rules, options.checks_host_name
        if before is not None and before.made_by == made_by:
            return before
        is_inter_broker = listener.name == config.inter_broker_name
        return _ListenerContext(
            made_by,
            ListenerTls(server_context(options), PrincipalMapping(settings.ssl_principal_mapping_rules)),
            client_context(options) if is_inter_broker else None,
        )
    except ConfigError as error:
        raise ConfigError(f"listener {listener.name}: {error}", setting=error.setting) from error
