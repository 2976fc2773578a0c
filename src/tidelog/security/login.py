"""What a client authenticates with, from `sasl.mechanism` and `sasl.jaas.config`."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Final

from tidelog.config.errors import ConfigError
from tidelog.security import plain, scram
from tidelog.security.jaas import JaasEntry, parse_jaas
from tidelog.security.mechanism import ClientMechanism

_MODULES: Final[Mapping[str, str]] = {
    plain.NAME: "PlainLoginModule",
    **dict.fromkeys(scram.HASHES, "ScramLoginModule"),
}
"""The login module of each mechanism that is supported."""

SUPPORTED: Final = tuple(_MODULES)


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


class Login:
    """A client's credentials for one mechanism. Makes the client's side of each authentication."""

    __slots__ = ("_is_token", "_password", "_salted", "_user", "mechanism")

    def __init__(self, mechanism: str, user: str, password: str, *, is_token: bool = False) -> None:
        """With a delegation token, `user` is its id and `password` its HMAC in base64."""
        self._is_token = is_token
        self.mechanism = mechanism
        self._user = user
        self._password = password
        # Reconnecting costs no iterations again. One entry: a user's salt rarely changes.
        self._salted: tuple[tuple[bytes, int], bytes] | None = None

    def __repr__(self) -> str:
        return f"Login({self.mechanism}, {self._user!r})"

    def begin(self) -> ClientMechanism:
        """The client's side of a new authentication."""
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


_CLIENTS: Final[Mapping[str, Callable[[Login], ClientMechanism]]] = {
    plain.NAME: Login._plain,
    **dict.fromkeys(scram.HASHES, Login._scram),
}


def login_of(
    mechanism: str,
    jaas: str | None,
    *,
    mechanism_setting: str = "sasl.mechanism",
    jaas_setting: str = "sasl.jaas.config",
) -> Login:
    """The credentials that settings describe. Raises ConfigError."""
    if mechanism not in SUPPORTED:
        raise unsupported(mechanism, mechanism_setting)
    if jaas is None:
        raise ConfigError(f"{jaas_setting} is needed for {mechanism}", setting=jaas_setting)
    options = parse_login(mechanism, jaas, jaas_setting).options
    if "username" not in options or "password" not in options:
        raise ConfigError(f"{jaas_setting}: the options username and password are needed", setting=jaas_setting)
    is_token = options.get("tokenauth", "false").lower() == "true"
    if is_token and mechanism not in scram.HASHES:
        raise ConfigError(f"{jaas_setting}: tokenauth is an option of SCRAM, not of {mechanism}", setting=jaas_setting)
    return Login(mechanism, options["username"], options["password"], is_token=is_token)
