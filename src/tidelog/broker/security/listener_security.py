"""How each listener is secured: what it negotiates TLS with, by which SASL mechanisms its clients authenticate, and how
this broker connects to others.

Made from the settings when a broker starts, and again with every dynamic change of them: files are read again, and a
listener whose settings or files differ gets another context for the connections that come next. `read` may block and
touches nothing that others see; `apply` runs on the loop.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.security.scram_credentials import ScramCredentials
from tidelog.config import BrokerConfig, ConfigError, Listener
from tidelog.metadata.tree import Endpoint

if TYPE_CHECKING:
    from tidelog.broker.security.authentication import Authentication, SaslListener
    from tidelog.broker.security.bearer_validation import BearerValidators
    from tidelog.client.aio.connection import Connector
    from tidelog.network.handshakes import ListenerTls
    from tidelog.network.socket_server import SocketServer
    from tidelog.security.jaas import JaasEntry
    from tidelog.security.login import Login
    from tidelog.security.mechanism import ServerMechanism, Work
    from tidelog.timing import Clock

logger = logging.getLogger(__name__)


class ListenerSecurity:
    """TLS contexts and SASL mechanisms of one broker. Raises ConfigError for settings that cannot be used."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._made = _make(config, {})
        self._read: tuple[dict[str, _ListenerContext], dict[str, SaslListener]] | None = None
        self._inter_broker_name = config.inter_broker_name
        self._connectors: dict[str, Connector] = {}
        self.credentials = ScramCredentials()
        self._secret = os.urandom(32)
        self._clock = clock
        self._validators: BearerValidators | None = None
        self.sasl_listeners(config)  # for its errors
        between_brokers = {config.inter_broker_name, config.control_plane_name}
        self._logins = {
            listener.name: _login(config, listener.name)
            for listener in config.parsed_listeners
            if listener.security_protocol.startswith("SASL_") and listener.name in between_brokers
        }

    def tls_of(self, listener: Listener) -> ListenerTls | None:
        """What clients of a listener negotiate with; None without TLS."""
        made = self._made.get(listener.name)
        return None if made is None else made.server

    def connector_for(self, endpoint: Endpoint) -> Connector:
        """What connects to another broker, by the listener that it is reached at."""
        name = endpoint.listener or self._inter_broker_name
        connector = self._connectors.get(name)
        if connector is None:
            connector = self._connectors[name] = self._make_connector(name)
        return connector

    def _make_connector(self, name: str) -> Connector:
        from tidelog.client.aio.transport import PlainConnector

        login = self._logins.get(name)
        if name not in self._made and login is None:
            return PlainConnector()
        from tidelog.client.aio.secure_transport import SecureConnector

        return SecureConnector(lambda: self._client_context(name), login)

    def _client_context(self, name: str) -> ssl.SSLContext | None:
        made = self._made.get(name)
        return None if made is None else made.client

    def sasl_listeners(self, config: BrokerConfig) -> dict[str, SaslListener]:
        """How the clients of each SASL listener authenticate. Raises ConfigError."""
        return {
            listener.name: self._sasl_listener(config, listener.name)
            for listener in config.parsed_listeners
            if listener.security_protocol.startswith("SASL_")
        }

    def _sasl_listener(self, config: BrokerConfig, name: str) -> SaslListener:
        # Only now, as below: a broker without SASL starts sooner.
        from tidelog.broker.security.authentication import SaslListener

        settings = config.for_listener(name)
        enabled = settings.sasl_enabled_mechanisms
        if not enabled:
            raise ConfigError(f"listener {name}: sasl.enabled.mechanisms is empty", setting="sasl.enabled.mechanisms")
        upkeep: list[Callable[[], Work | None]] = []
        return SaslListener(
            mechanisms={mechanism: self._mechanism(config, name, mechanism, upkeep) for mechanism in enabled},
            frame_bytes_max=settings.sasl_server_max_receive_size,
            failure_delay_ms=settings.connection_failed_authentication_delay_ms,
            session_ms_max={
                mechanism: config.for_mechanism(name, mechanism).connections_max_reauth_ms for mechanism in enabled
            },
            upkeep=upkeep,
        )

    def _mechanism(
        self, config: BrokerConfig, listener: str, mechanism: str, upkeep: list[Callable[[], Work | None]]
    ) -> Callable[[], ServerMechanism]:
        """What makes the broker's side of an exchange. Raises ConfigError."""
        from tidelog.security import plain, scram
        from tidelog.security.login import GSSAPI, OAUTHBEARER, SUPPORTED, parse_login, unsupported

        setting, jaas = config.jaas_of(listener, mechanism)
        entry = parse_login(mechanism, jaas, setting) if mechanism in SUPPORTED and jaas is not None else None
        if mechanism in scram.HASHES:
            return self._scram(mechanism)
        if mechanism == plain.NAME:
            return _plain(entry, listener, setting)
        if mechanism == OAUTHBEARER:
            return self._oauthbearer(config, listener, upkeep)
        if mechanism == GSSAPI:
            return _kerberos(config.for_mechanism(listener, mechanism), jaas, setting)
        raise unsupported(mechanism, "sasl.enabled.mechanisms")

    def _scram(self, mechanism: str) -> Callable[[], ServerMechanism]:
        from secrets import token_urlsafe

        from tidelog.security.scram import ScramServer

        credentials, secret = self.credentials, self._secret
        credential_of = credentials.of_mechanism(mechanism)
        return lambda: ScramServer(
            mechanism,
            credential_of,
            token_urlsafe(24),
            secret,
            credentials.tokens_of_mechanism(mechanism),
        )

    def _oauthbearer(
        self, config: BrokerConfig, listener: str, upkeep: list[Callable[[], Work | None]]
    ) -> Callable[[], ServerMechanism]:
        from tidelog.broker.security.bearer_validation import BearerValidators
        from tidelog.security.oauthbearer import OAuthBearerServer

        if self._validators is None:
            self._validators = BearerValidators(self._clock)
        validator = self._validators.of(config, listener)
        upkeep.append(validator.due_refresh)
        return partial(OAuthBearerServer, validator)

    def check(self, config: BrokerConfig) -> None:
        """Raise ConfigError if `config` cannot be used."""
        _make(config, self._made)
        self.sasl_listeners(config)

    def read(self, config: BrokerConfig) -> None:
        """Settings changed: make what differs. If something cannot be made, everything stays as it is."""
        try:
            self._read = _make(config, self._made), self.sasl_listeners(config)
        except ConfigError as error:
            logger.error("the security of listeners stays as it was: %s", error)
            self._read = None

    def apply(self, socket_server: SocketServer, authentication: Authentication | None) -> None:
        """Use what was read for new connections."""
        if self._read is None:
            return
        (made, sasl_listeners), self._read = self._read, None
        if authentication is not None:
            authentication.listeners = sasl_listeners
        for name, context in made.items():
            if context is not self._made.get(name):
                socket_server.update_tls(name, context.server)
                logger.info("listener %s: new connections use the TLS settings that were changed", name)
        self._made.update(made)


class _ListenerContext:
    """The contexts of one listener, and by what they were made."""

    __slots__ = ("certificate", "client", "made_by", "server")

    def __init__(
        self,
        made_by: tuple[bytes, str, bool],
        certificate: bytes | None,
        server: ListenerTls,
        client: ssl.SSLContext | None,
    ) -> None:
        self.made_by = made_by
        self.certificate = certificate
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
        is_inter_broker = listener.name in (config.inter_broker_name, config.control_plane_name)
        certificate = options.certificate()
        if before is not None and before.certificate is not None and certificate is not None:
            _check_names(settings, before.certificate, certificate)
        return _ListenerContext(
            made_by,
            certificate,
            ListenerTls(server_context(options), PrincipalMapping(settings.ssl_principal_mapping_rules)),
            client_context(options) if is_inter_broker else None,
        )
    except ConfigError as error:
        raise ConfigError(f"listener {listener.name}: {error}", setting=error.setting) from error


def _check_names(settings: BrokerConfig, before: bytes, after: bytes) -> None:
    """A certificate that replaces another names the same subject and hosts, unless settings allow others."""
    from tidelog.security.distinguished_name import alternative_names_of, subject_of

    old, new = subject_of(before), subject_of(after)
    if old != new and not settings.ssl_allow_dn_changes:
        raise ConfigError(
            f"Keystore DistinguishedName does not match: existing={old}, new={new} (ssl.allow.dn.changes)",
            setting="ssl.keystore.location",
        )
    missing = alternative_names_of(before) - alternative_names_of(after)
    if missing and not settings.ssl_allow_san_changes:
        names = sorted(name.decode("ascii", "backslashreplace") for _, name in missing)
        raise ConfigError(
            f"Keystore SubjectAltNames do not match: the new certificate lacks {names} (ssl.allow.san.changes)",
            setting="ssl.keystore.location",
        )


def _plain(entry: JaasEntry | None, listener: str, setting: str) -> Callable[[], ServerMechanism]:
    from tidelog.security import plain

    if entry is None:
        raise ConfigError(
            f'{setting}: PLAIN needs the users of listener {listener}, as user_<name>="password" options of '
            "org.apache.kafka.common.security.plain.PlainLoginModule",
            setting=setting,
        )
    return partial(plain.PlainServer, plain.server_passwords(entry.options))


def _kerberos(settings: BrokerConfig, jaas: str | None, setting: str) -> Callable[[], ServerMechanism]:
    from tidelog.security.kerberos import KerberosServer, broker_credentials, default_realm
    from tidelog.security.kerberos_names import LocalNames
    from tidelog.security.login import GSSAPI, needed_options

    credentials = broker_credentials(needed_options(GSSAPI, jaas, setting), setting)
    names = LocalNames(settings.sasl_kerberos_principal_to_local_rules, default_realm())
    return partial(KerberosServer, credentials, names)


def _login(config: BrokerConfig, listener: str) -> Login:
    """What this broker shows to other brokers. Raises ConfigError."""
    from tidelog.client.logins import login_of

    mechanism = config.for_listener(listener).sasl_mechanism_inter_broker_protocol
    setting, jaas = config.jaas_of(listener, mechanism)
    return login_of(
        mechanism,
        jaas,
        config.for_mechanism(listener, mechanism),
        mechanism_setting="sasl.mechanism.inter.broker.protocol",
        jaas_setting=setting,
    )
