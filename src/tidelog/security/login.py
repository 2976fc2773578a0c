"""Login modules by mechanism, and logins with a name and a password: PLAIN and SCRAM."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from tidelog.config.errors import ConfigError
from tidelog.security import plain, scram
from tidelog.security.jaas import JaasEntry, parse_jaas
from tidelog.security.mechanism import ClientMechanism

OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
PASSWORD_MECHANISMS: Final = (plain.NAME, *scram.HASHES)

_MODULES: Final[Mapping[str, str]] = {
    plain.NAME: "PlainLoginModule",
    **dict.fromkeys(scram.HASHES, "ScramLoginModule"),
    OAUTHBEARER: "OAuthBearerLoginModule",
    GSSAPI: "Krb5LoginModule",
}
"""The login module of each mechanism that is supported."""

SUPPORTED: Final = tuple(_MODULES)


class Login(Protocol):
    """A client's credentials for one mechanism. Makes the client's side of each authentication."""

    @property
    def mechanism(self) -> str: ...

    @property
    def blocks(self) -> bool:
        """Whether `begin` and the mechanism that it returns may block, and belong on a thread."""

    def begin(self, host: str) -> ClientMechanism:
        """The client's side of a new authentication with the broker at `host`. Raises SaslError."""


def unsupported(mechanism: str, setting: str) -> ConfigError:
    """The refusal of a mechanism."""
    return ConfigError(f"{setting}: {mechanism} is not supported; use one of {', '.join(SUPPORTED)}", setting=setting)


def parse_login(mechanism: str, text: str, setting: str) -> JaasEntry:
    """The JAAS entry of a mechanism. Raises ConfigError if its login module is another's."""
    entry = parse_jaas(text, setting)
    if entry.module_name != _MODULES[mechanism]:
        raise ConfigError(
            f"{setting}: {mechanism} needs the login module {_MODULES[mechanism]}, not {entry.module_name}",
            setting=setting,
        )
    return entry


class PasswordLogin:
    """A name and a password, for PLAIN or SCRAM."""

    __slots__ = ("_is_token", "_password", "_salted", "_user", "mechanism")
    blocks = False

    def __init__(self, mechanism: str, user: str, password: str, *, is_token: bool = False) -> None:
        """With a delegation token, `user` is its id and `password` its HMAC in base64."""
        self._is_token = is_token
        self.mechanism = mechanism
        self._user = user
        self._password = password
        # Reconnecting costs no iterations again. One entry: a user's salt rarely changes.
        self._salted: tuple[tuple[bytes, int], bytes] | None = None

    def __repr__(self) -> str:
        return f"PasswordLogin({self.mechanism}, {self._user!r})"

    def begin(self, _host: str) -> ClientMechanism:
        """The broker's name plays no part in these mechanisms."""
        return _CLIENTS[self.mechanism](self)

    def _plain(self) -> ClientMechanism:
        return plain.PlainClient(self._user, self._password)

    def _scram(self) -> ClientMechanism:
        nonce = secrets.token_urlsafe(24)
        return scram.ScramClient(
            self.mechanism, self._user, self._password, nonce, self._salted_password, is_token=self._is_token
        )

    def _salted_password(self, mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
        key = salt, iterations
        if self._salted is None or self._salted[0] != key:
            self._salted = key, scram.salted_password(mechanism, password, salt, iterations)
        return self._salted[1]


_CLIENTS: Final[Mapping[str, Callable[[PasswordLogin], ClientMechanism]]] = {
    plain.NAME: PasswordLogin._plain,
    **dict.fromkeys(scram.HASHES, PasswordLogin._scram),
}


def needed_options(mechanism: str, jaas: str | None, jaas_setting: str) -> Mapping[str, str]:
    """The options of the login module of a mechanism that cannot be without one. Raises ConfigError."""
    if jaas is None:
        raise ConfigError(f"{jaas_setting} is needed for {mechanism}", setting=jaas_setting)
    return parse_login(mechanism, jaas, jaas_setting).options


def password_login(mechanism: str, jaas: str | None, jaas_setting: str = "sasl.jaas.config") -> PasswordLogin:
    """The login that the options of a login module describe. Raises ConfigError."""
    options = needed_options(mechanism, jaas, jaas_setting)
    if "username" not in options or "password" not in options:
        raise ConfigError(f"{jaas_setting}: the options username and password are needed", setting=jaas_setting)
    is_token = options.get("tokenauth", "false").lower() == "true"
    if is_token and mechanism not in scram.HASHES:
        raise ConfigError(f"{jaas_setting}: tokenauth is an option of SCRAM, not of {mechanism}", setting=jaas_setting)
    return PasswordLogin(mechanism, options["username"], options["password"], is_token=is_token)
