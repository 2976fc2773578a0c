"""SASL OAUTHBEARER (RFC 7628): a bearer token proves who the client is.

    client                                          broker
    n,,^Aauth=Bearer <token>^Aname=value^A^A   →
                                               ←    nothing, if the token is valid; else {"status":"invalid_token"}
    ^A                                         →
                                               ←    the failure of the authentication

What makes a token valid is the business of a `TokenValidator`; nothing here looks into one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from tidelog.config.errors import ConfigError
from tidelog.security.errors import SaslMalformed, SaslRejected, TokenRejected
from tidelog.security.mechanism import Work

NAME: Final = "OAUTHBEARER"
_CONTROL_A: Final = "\x01"
_END: Final = _CONTROL_A.encode()
_PAIRS_MAX: Final = 100
"""The token and SASL extensions, of which clients send a few: to read a hundred thousand takes 0.1 s."""
_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authorized>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)", re.ASCII)
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")


@dataclass(frozen=True, slots=True)
class BearerToken:
    """What a valid token says."""

    principal: str
    scopes: frozenset[str]
    expires_ms: int
    """Wall-clock time. The session of its client ends then."""


class TokenValidator(Protocol):
    """Decides which tokens are valid."""

    def due_work(self, token: str) -> Work | None:
        """What may block and has to be done before this token can be validated, such as fetching keys."""

    def validate(self, token: str) -> BearerToken:
        """Raises TokenRejected."""


class OAuthBearerServer:
    """One authentication."""

    __slots__ = ("_error", "_validator", "expires_ms", "user")
    has_token = False

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._error: TokenRejected | None = None
        self.expires_ms: int | None = None
        self.user: str | None = None

    def prepare(self, message: bytes) -> Work | None:
        if self._error is not None:
            return None
        return self._validator.due_work(parse_first(message).token)

    def respond(self, message: bytes) -> bytes:
        if self._error is not None and message == _END:
            raise self._error
        first = parse_first(message)
        try:
            token = self._validator.validate(first.token)
        except TokenRejected as error:
            self._error = error
            return error.reason.encode()
        if first.authorized and first.authorized != token.principal:
            raise SaslRejected(
                f"Authentication failed: Client requested an authorization id ({first.authorized}) that is different "
                f"from the token's principal name ({token.principal})"
            )
        self.expires_ms = token.expires_ms
        self.user = token.principal
        return b""


class OAuthBearerClient:
    """Sends one token."""

    __slots__ = ("_extensions", "_on_rejected", "_token", "is_complete")

    def __init__(
        self, token: str, extensions: Mapping[str, str] | None = None, on_rejected: Callable[[], object] | None = None
    ) -> None:
        """`on_rejected` is called if the broker rejects the token: it should not be used again."""
        self._token = token
        self._extensions = extensions or {}
        self._on_rejected = on_rejected
        self.is_complete = False

    def first(self) -> bytes:
        pairs = {"auth": f"Bearer {self._token}", **self._extensions}
        text = "".join(f"{name}={value}{_CONTROL_A}" for name, value in pairs.items())
        return f"n,,{_CONTROL_A}{text}{_CONTROL_A}".encode()

    def respond(self, message: bytes) -> bytes | None:
        if message:
            # The reason is in the failure that the broker sends next, after this answer (RFC 7628, 3.2.3).
            if self._on_rejected is not None:
                self._on_rejected()
            return _END
        self.is_complete = True
        return None


@dataclass(frozen=True, slots=True)
class FirstMessage:
    """The client's first message."""

    token: str = field(repr=False)
    authorized: str


def parse_first(message: bytes) -> FirstMessage:
    """Raises SaslMalformed."""
    if message.count(_END) > _PAIRS_MAX + 2:
        raise SaslMalformed(f"Invalid OAUTHBEARER client first message: more than {_PAIRS_MAX} extensions")
    match = _FIRST.fullmatch(message.decode("utf-8", "replace"))
    if match is None:
        raise SaslMalformed("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split(_CONTROL_A) if pair)
    if "auth" not in pairs:
        raise SaslMalformed("Invalid OAUTHBEARER client first message: 'auth' not specified")
    auth = _AUTH.fullmatch(pairs["auth"])
    if auth is None:
        raise SaslMalformed("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    if auth["scheme"].lower() != "bearer":
        raise SaslMalformed("Invalid OAUTHBEARER client first message: the scheme of 'auth' is not Bearer")
    return FirstMessage(auth["token"], (match["authorized"] or "").replace("=2C", ",").replace("=3D", "="))


def extensions_of(options: Mapping[str, str], setting: str) -> dict[str, str]:
    """SASL extensions from the options of a login module: `extension_traceId="123"`. Raises ConfigError."""
    found: dict[str, str] = {}
    for option, value in options.items():
        if not option.startswith("extension_"):
            continue
        name = option.removeprefix("extension_")
        if name == "auth" or not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
            raise ConfigError(
                f"{setting}: {option} is not a SASL extension: its name has letters only and is not auth, its value "
                "is printable ASCII",
                setting=setting,
            )
        found[name] = value
    return found
