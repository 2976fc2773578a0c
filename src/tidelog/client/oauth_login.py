"""Logins with bearer tokens: where tokens come from, and when another is due.

A token comes from a token endpoint (the client credentials grant of OAuth 2), from a file, from a function of the
application, or, for development, from the options of the login module. It is kept until the share of its life that
`sasl.login.refresh.*` names has passed, or until a broker rejects it.
"""

import base64
import json
import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from tidelog.client.endpoint import Endpoint, EndpointError, endpoint_of
from tidelog.config.errors import ConfigError
from tidelog.config.java_classes import UNSECURED_LOGIN
from tidelog.security.bearer_tokens import expiry_of, make_unsecured
from tidelog.security.errors import SaslRejected
from tidelog.security.login import OAUTHBEARER, parse_login
from tidelog.security.oauthbearer import OAuthBearerClient, extensions_of

logger = logging.getLogger(__name__)

_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_CALLBACK: Final = "sasl.oauthbearer.token.callback"


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its life, in wall-clock milliseconds."""

    text: str = field(repr=False)
    expires_ms: int | None
    refresh_ms: int


@dataclass(frozen=True, slots=True)
class RefreshRule:
    """`sasl.login.refresh.*`."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_ms: int = 60_000
    buffer_ms: int = 300_000

    def refresh_ms(self, now_ms: int, expires_ms: int, random_unit: float) -> int:
        """When a token that is issued now should be replaced. Short lives leave no room for period and buffer."""
        life_ms = expires_ms - now_ms
        at_ms = now_ms + int(life_ms * (self.window_factor + self.window_jitter * random_unit))
        if self.min_period_ms + self.buffer_ms > life_ms:
            return at_ms
        return max(min(at_ms, expires_ms - self.buffer_ms), now_ms + self.min_period_ms)


TokenSource = Callable[[], tuple[str, int | None]]
"""A new token and when it expires, if that is known. May block; raises SaslRejected."""


class OAuthLogin:
    """Tokens for the connections of one client."""

    mechanism = OAUTHBEARER
    blocks = True

    def __init__(self, source: TokenSource, extensions: Mapping[str, str], refresh: RefreshRule) -> None:
        self._source = source
        self._extensions = extensions
        self._refresh = refresh
        self._token: Token | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return "OAuthLogin()"

    def begin(self, _host: str) -> OAuthBearerClient:
        """Raises SaslRejected if there is no token."""
        with self._lock:
            token = self._token = self._current()
        return OAuthBearerClient(token.text, self._extensions, partial(self._forget, token))

    def _current(self) -> Token:
        token, now_ms = self._token, _wall_ms()
        if token is not None and now_ms < token.refresh_ms:
            return token
        try:
            text, expires_ms = self._source()
        except SaslRejected as error:
            if token is None or token.expires_ms is None or now_ms >= token.expires_ms:
                raise
            logger.warning("the bearer token could not be replaced, and is used until it expires: %s", error)
            return token
        # A token without a known end is asked for with every connection.
        refresh_ms = now_ms if expires_ms is None else self._refresh.refresh_ms(now_ms, expires_ms, random.random())
        return Token(text, expires_ms, refresh_ms)

    def _forget(self, token: Token) -> None:
        """A broker rejected it."""
        with self._lock:
            if self._token is token:
                self._token = None


def oauth_login(jaas: str | None, settings: Any, jaas_setting: str) -> OAuthLogin:
    """The login that settings describe. Raises ConfigError."""
    options = {} if jaas is None else parse_login(OAUTHBEARER, jaas, jaas_setting).options
    refresh = RefreshRule(
        settings.sasl_login_refresh_window_factor,
        settings.sasl_login_refresh_window_jitter,
        settings.sasl_login_refresh_min_period_seconds * 1000,
        settings.sasl_login_refresh_buffer_seconds * 1000,
    )
    return OAuthLogin(_source(options, settings, jaas_setting), extensions_of(options, jaas_setting), refresh)


def _source(options: Mapping[str, str], settings: Any, jaas_setting: str) -> TokenSource:
    callback = getattr(settings, "sasl_oauthbearer_token_callback", None)
    if callback is not None:
        return partial(_from_callback, callback)
    url = settings.sasl_oauthbearer_token_endpoint_url
    is_unsecured = any(name.startswith("unsecuredLogin") for name in options)
    if url is not None and settings.sasl_login_callback_handler_class != UNSECURED_LOGIN:
        return _endpoint_source(url, options, settings, jaas_setting)
    if is_unsecured:
        return _unsecured_source(options, jaas_setting)
    raise ConfigError(
        f"{OAUTHBEARER} needs tokens: set {_URL} with clientId and clientSecret in {jaas_setting}, or {_CALLBACK} to a "
        'function; for development only, unsecuredLoginStringClaim_sub="name" in '
        f"{jaas_setting} makes tokens without a signature",
        setting=_URL,
    )


def _from_callback(callback: Callable[[], Any]) -> tuple[str, int | None]:
    try:
        found = callback()
    except Exception as error:
        raise SaslRejected(f"{_CALLBACK} raised {error!r}") from error
    text, expires = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    if not isinstance(text, str) or not (expires is None or isinstance(expires, int | float)):
        raise SaslRejected(f"{_CALLBACK} must return a token as text, or the text and the second in which it expires")
    return text, expiry_of(text) if expires is None else int(expires * 1000)


def _endpoint_source(url: str, options: Mapping[str, str], settings: Any, jaas_setting: str) -> TokenSource:
    timeouts = (settings.sasl_login_connect_timeout_ms, settings.sasl_login_read_timeout_ms)
    endpoint = endpoint_of(
        url,
        _URL,
        options,
        retry_backoff_ms=settings.sasl_login_retry_backoff_ms,
        retry_backoff_max_ms=settings.sasl_login_retry_backoff_max_ms,
        **({"timeout_ms": max(each for each in timeouts if each)} if any(timeouts) else {}),
    )
    if url.startswith("file:"):
        return partial(_from_file, endpoint)
    if "clientId" not in options or "clientSecret" not in options:
        raise ConfigError(
            f"{jaas_setting}: the options clientId and clientSecret are needed for {_URL}", setting=jaas_setting
        )
    secret = f"{options['clientId']}:{options['clientSecret']}".encode()
    headers = {
        "Authorization": f"Basic {base64.b64encode(secret).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    scope = options.get("scope", "").strip()
    body = "grant_type=client_credentials" + (f"&scope={quote(scope, safe='')}" if scope else "")
    return partial(_from_endpoint, endpoint, body.encode(), headers)


def _from_endpoint(endpoint: Endpoint, body: bytes, headers: Mapping[str, str]) -> tuple[str, int | None]:
    asked_ms = _wall_ms()
    try:
        reply = json.loads(endpoint.fetch(body, headers))
        text = reply["access_token"]
        life = reply.get("expires_in")
    except EndpointError as error:
        raise SaslRejected(f"no token could be fetched: {error} ({_URL})") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        # The reply may hold a secret: it is not shown.
        raise SaslRejected(f"no token could be fetched: {endpoint.url} answered without an access_token") from None
    if not isinstance(text, str) or not text.strip():
        raise SaslRejected(f"no token could be fetched: {endpoint.url} answered with an empty access_token")
    expires_ms = expiry_of(text)
    if expires_ms is None and isinstance(life, int | float) and not isinstance(life, bool):
        expires_ms = asked_ms + int(life * 1000)
    return text.strip(), expires_ms


def _from_file(endpoint: Endpoint) -> tuple[str, int | None]:
    try:
        text = endpoint.fetch_once().decode("ascii", "replace").strip()
    except EndpointError as error:
        raise SaslRejected(f"no token could be read: {error} ({_URL})") from error
    return text, expiry_of(text)


def _unsecured_source(options: Mapping[str, str], jaas_setting: str) -> TokenSource:
    """For development: whatever the options say."""
    try:
        life_seconds = float(options.get("unsecuredLoginLifetimeSeconds", "3600"))
        claims: dict[str, Any] = {}
        for option, value in options.items():
            for prefix, parse in _UNSECURED_CLAIMS.items():
                if option.startswith(prefix):
                    claims[option.removeprefix(prefix)] = parse(value)
    except ValueError as error:
        raise ConfigError(f"{jaas_setting}: an unsecuredLogin option is not a number", setting=jaas_setting) from error
    principal = options.get("unsecuredLoginPrincipalClaimName", "sub")
    if not isinstance(claims.get(principal), str):
        raise ConfigError(
            f"{jaas_setting}: an unsecured token needs the option unsecuredLoginStringClaim_{principal}",
            setting=jaas_setting,
        )

    def make() -> tuple[str, int | None]:
        issued = _wall_ms() / 1000
        expires = issued + life_seconds
        return make_unsecured({"iat": issued, "exp": expires, **claims}), int(expires * 1000)

    return make


_UNSECURED_CLAIMS: Final[Mapping[str, Callable[[str], Any]]] = {
    "unsecuredLoginStringClaim_": str,
    "unsecuredLoginNumberClaim_": float,
    # The first character is the delimiter.
    "unsecuredLoginListClaim_": lambda text: text[1:].split(text[:1]) if len(text) > 1 else [],
}


def _wall_ms() -> int:
    return int(time.time() * 1000)
