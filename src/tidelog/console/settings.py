"""What the console is started with, and which of it is refused.

Without a login the console serves anyone who can connect, with the rights of its own client. It therefore listens on
loopback addresses only, and `check` refuses any other address with a sentence. Each of several clusters has its own way
to log in, so that the one without a login decides.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

DEFAULT_LISTEN: Final = "127.0.0.1:8080"
SAMPLE_INTERVAL_S: Final = 10.0


class ConsoleError(Exception):
    """A setting of the console that cannot be used; the message names the option to change."""


class Login(Enum):
    """How people log in."""

    NONE = "none"
    TOKEN = "token"  # noqa: S105 - the name of a way to log in
    SASL = "sasl"


class Listen(NamedTuple):
    """An address to listen on."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """One cluster of a console. `client` holds client settings under Kafka's names."""

    client: Mapping[str, Any] = field(repr=False)
    name: str = ""
    """In addresses, where there are several clusters; empty where there is one."""
    schema_registry: str | None = field(default=None, repr=False)

    @property
    def servers(self) -> str:
        """The addresses of its brokers, as text."""
        given = self.client.get("bootstrap.servers")
        return ",".join(map(str, given)) if isinstance(given, list | tuple) else str(given or "")

    @property
    def has_own_users(self) -> bool:
        """Whether people log in to the cluster: the client speaks SASL and has no credentials."""
        is_sasl = str(self.client.get("security.protocol", "")).upper().startswith("SASL_")
        return is_sasl and not self.client.get("sasl.jaas.config")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """How a console runs."""

    clusters: tuple[ClusterSettings, ...]
    listen: Listen
    token: str | None = field(default=None, repr=False)
    allowed_hosts: tuple[str, ...] = ()
    tls_certificate: str | None = None
    tls_key: str | None = None
    sample_interval_s: float = SAMPLE_INTERVAL_S
    session_idle_s: float = 30 * 60
    session_s_max: float = 12 * 3600

    def login(self, cluster: ClusterSettings) -> Login:
        """How people log in to a cluster: by the token if there is one, or as its users if it has its own."""
        if self.token is not None:
            return Login.TOKEN
        return Login.SASL if cluster.has_own_users else Login.NONE

    @property
    def is_tls(self) -> bool:
        """Whether pages are served with TLS."""
        return self.tls_certificate is not None

    def check(self) -> None:
        """Raise ConsoleError for settings that do not fit together."""
        if self.token is not None and len(self.token) < TOKEN_CHARACTERS_MIN:
            raise ConsoleError(f"--token must have at least {TOKEN_CHARACTERS_MIN} characters")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConsoleError("--tls-certificate and --tls-key must be given together")
        names = [each.name for each in self.clusters]
        if len(set(names)) < len(names):
            raise ConsoleError(f"each cluster needs a name of its own, not {', '.join(names)}")
        is_open = any(self.login(each) is Login.NONE for each in self.clusters)
        if is_open and not is_loopback(self.listen.host):
            raise ConsoleError(
                f"--listen {self.listen} needs a login: give --token, or a --command-config with "
                f"security.protocol=SASL_SSL and no sasl.jaas.config, so that the cluster's users log in; "
                f"without a login the console listens on loopback addresses only, such as {DEFAULT_LISTEN}"
            )


TOKEN_CHARACTERS_MIN: Final = 16


def parse_listen(text: str) -> Listen:
    """`HOST:PORT`, `[ADDRESS]:PORT` or `:PORT`. Raises ConsoleError for anything else."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ConsoleError(f"--listen {text!r} is not HOST:PORT, such as {DEFAULT_LISTEN}")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if ":" in host and not is_address(host):
        raise ConsoleError(f"--listen {text!r} is not HOST:PORT, such as {DEFAULT_LISTEN}")
    return Listen(host, int(port))


def is_address(host: str) -> bool:
    """Whether `host` is an IP address rather than a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to `host`."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)
