"""How to connect to a ZooKeeper: Kafka's settings `zookeeper.*`, read into what the store needs."""

import ssl
from dataclasses import dataclass
from typing import Final

from tidelog.config import BrokerConfig
from tidelog.config.errors import ConfigError
from tidelog.security.tls_versions import VERSIONS, usable_versions

REQUEST_BYTES_MAX: Final = 0xFFFFF
"""ZooKeeper's `jute.maxbuffer`: it closes the connection of a client that sends more at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperTls:
    """Certificates, as PEM files."""

    ca_file: str | None = None
    """The only certificates that are trusted; None trusts those of the system."""
    certificate_file: str | None = None
    """The client's certificate and its key."""
    key_password: str | None = None
    checks_host_name: bool = True
    version_min: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    version_max: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3

    def context(self) -> ssl.SSLContext:
        """Raises `ConfigError` for files that cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.checks_host_name
        context.minimum_version, context.maximum_version = self.version_min, self.version_max
        try:
            if self.ca_file is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"zookeeper.ssl.truststore.location: {self.ca_file} cannot be read: {error}") from error
        try:
            if self.certificate_file is not None:
                context.load_cert_chain(self.certificate_file, password=self.key_password or "")
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"zookeeper.ssl.keystore.location: {self.certificate_file} cannot be read: {error}; it must hold the "
                "certificate and its key, and zookeeper.ssl.keystore.password must be the key's"
            ) from error
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperOptions:
    """The defaults are Kafka's."""

    session_timeout_ms: int = 18_000
    connection_timeout_ms: int | None = None
    """How long the first connection may take; None is the session timeout."""
    max_in_flight_requests: int = 10
    set_acl: bool = False
    """Whether nodes may be changed by their creator alone, and sensitive ones be read by it alone."""
    credentials: tuple[tuple[str, str], ...] = ()
    """Schemes and what they take: `("digest", "user:password")`."""
    tls: ZooKeeperTls | None = None
    request_bytes_max: int = REQUEST_BYTES_MAX


def zookeeper_options(settings: BrokerConfig) -> ZooKeeperOptions:
    """The options of a broker's settings. A setting that cannot be honoured raises `ConfigError`."""
    tls = _tls(settings) if settings.zookeeper_ssl_client_enable else None
    if settings.zookeeper_set_acl and (tls is None or tls.certificate_file is None):
        raise ConfigError(
            "zookeeper.set.acl needs a name under which ZooKeeper knows the brokers: set zookeeper.ssl.client.enable "
            "and zookeeper.ssl.keystore.location"
        )
    return ZooKeeperOptions(
        session_timeout_ms=settings.zookeeper_session_timeout_ms,
        connection_timeout_ms=settings.zookeeper_connection_timeout_ms,
        max_in_flight_requests=settings.zookeeper_max_in_flight_requests,
        set_acl=settings.zookeeper_set_acl,
        tls=tls,
    )


def _tls(settings: BrokerConfig) -> ZooKeeperTls:
    _check_type("keystore", settings.zookeeper_ssl_keystore_location, settings.zookeeper_ssl_keystore_type)
    _check_type("truststore", settings.zookeeper_ssl_truststore_location, settings.zookeeper_ssl_truststore_type)
    names = settings.zookeeper_ssl_enabled_protocols or (settings.zookeeper_ssl_protocol,)
    versions = [VERSIONS[name] for name in usable_versions(names, "zookeeper.ssl.enabled.protocols")]
    return ZooKeeperTls(
        ca_file=settings.zookeeper_ssl_truststore_location,
        certificate_file=settings.zookeeper_ssl_keystore_location,
        key_password=settings.zookeeper_ssl_keystore_password,
        checks_host_name=_checks_host_name(settings.zookeeper_ssl_endpoint_identification_algorithm),
        version_min=min(versions),
        version_max=max(versions),
    )


def _checks_host_name(algorithm: str) -> bool:
    if algorithm.strip().upper() not in ("", "HTTPS"):
        raise ConfigError(f"zookeeper.ssl.endpoint.identification.algorithm={algorithm} is neither https nor empty")
    return bool(algorithm.strip())


def _check_type(store: str, location: str | None, kind: str | None) -> None:
    if location is not None and (kind or location.rpartition(".")[2]).upper() != "PEM":
        raise ConfigError(
            f"zookeeper.ssl.{store}.location: {location} is not a PEM file; convert it, and if its name does not end "
            f"in .pem, set zookeeper.ssl.{store}.type=PEM"
        )
