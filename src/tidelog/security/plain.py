"""SASL PLAIN (RFC 4616): a name and a password in clear. Only for listeners with TLS, or for development."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from tidelog.security.errors import SaslMalformed, SaslRejected
from tidelog.security.mechanism import nothing_to_prepare

NAME: Final = "PLAIN"
_UNKNOWN: Final = "\0"
"""Compared with instead of a password that does not exist. No message can contain it."""


class PlainServer:
    """Checks one name and password against `passwords`."""

    __slots__ = ("_passwords", "user")
    has_token = False
    expires_ms = None
    prepare = nothing_to_prepare

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.user: str | None = None

    def respond(self, message: bytes) -> bytes:
        try:
            parts = message.decode().split("\0")
        except UnicodeDecodeError as error:
            raise SaslMalformed("Invalid SASL/PLAIN response: not UTF-8") from error
        if len(parts) != 3:
            raise SaslMalformed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorized, user, password = parts
        if not user:
            raise SaslRejected("Authentication failed: username not specified")
        if not password:
            raise SaslRejected("Authentication failed: password not specified")
        # The comparison takes as long for a user that does not exist.
        expected = self._passwords.get(user, _UNKNOWN)
        if not hmac.compare_digest(expected.encode(), password.encode()):
            raise SaslRejected("Authentication failed: Invalid username or password")
        if authorized and authorized != user:
            raise SaslRejected(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        return b""


class PlainClient:
    """Sends one name and password."""

    __slots__ = ("_password", "_user", "is_complete")

    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password
        self.is_complete = False

    def first(self) -> bytes:
        return b"\0".join((b"", self._user.encode(), self._password.encode()))

    def respond(self, message: bytes) -> bytes | None:
        if message:
            raise SaslMalformed("the broker answered PLAIN with a challenge, which the mechanism does not have")
        self.is_complete = True
        return None


def server_passwords(options: Mapping[str, str]) -> dict[str, str]:
    """Passwords by user from the options of a broker's login module: `user_alice="alice-secret"`."""
    return {name.removeprefix("user_"): value for name, value in options.items() if name.startswith("user_")}
