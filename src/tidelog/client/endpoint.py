"""Bytes from a URL that a setting names: `https`, `http` or `file`.

Blocks; a caller with an event loop runs it on a thread. Redirects are not followed: a token endpoint gets a secret, and
keys must come from the address that was configured.
"""

import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final, TypeVar
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from tidelog.client.backoff import Backoff
from tidelog.client.security_settings import SecuritySettings
from tidelog.config.declaration import parse_settings
from tidelog.config.errors import ConfigError

T = TypeVar("T")

_TIMEOUT_MS: Final = 10_000
_BYTES_MAX: Final = 1 << 20
_FINAL_STATUSES: Final = frozenset((400, 401, 402, 403, 404, 405, 406, 410, 411, 413, 414, 415, 426, 431))
"""Answers that another attempt would not change."""


class EndpointError(Exception):
    """The bytes could not be had."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


class _EndpointSettings(SecuritySettings):
    """`ssl.*` of an endpoint."""


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One URL and how it is reached."""

    url: str
    timeout_ms: int = _TIMEOUT_MS
    context: ssl.SSLContext | None = field(default=None, repr=False)
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000
    """Retries go on for this long in all, as in Kafka."""

    def fetch(self, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> bytes:
        """GET, or POST if there is a body; tried again while it may help. Raises EndpointError."""
        return self._retrying(lambda: self.fetch_once(body, headers))

    def _retrying(self, attempt: Callable[[], T]) -> T:
        ends = time.monotonic() + self.retry_backoff_max_ms / 1000
        backoff = Backoff(self.retry_backoff_ms, self.retry_backoff_max_ms)
        failures = 0
        while True:
            try:
                return attempt()
            except EndpointError as error:
                failures += 1
                wait = backoff.after(failures) / 1000
                if error.is_final or time.monotonic() + wait >= ends:
                    raise
            time.sleep(wait)

    def fetch_once(self, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> bytes:
        """The same in one attempt."""
        parts = urlsplit(self.url)
        if parts.scheme == "file":
            return _read(unquote(parts.path), self.url)
        request = Request(self.url, body, {"Accept": "application/json", **(headers or {})})  # noqa: S310 - _checked_url
        opener = build_opener(_NoRedirect, HTTPSHandler(context=self.context))
        try:
            with opener.open(request, timeout=self.timeout_ms / 1000) as reply:
                data: bytes = reply.read(_BYTES_MAX + 1)
        except HTTPError as error:
            with error:
                raise EndpointError(
                    f"{self.url} answered {error.code} {error.reason}", is_final=error.code in _FINAL_STATUSES
                ) from None
        except (OSError, HTTPException, ValueError) as error:
            raise EndpointError(f"{self.url} cannot be reached: {getattr(error, 'reason', error)}") from error
        if len(data) > _BYTES_MAX:
            raise EndpointError(f"{self.url} answered more than {_BYTES_MAX} bytes", is_final=True)
        return data


def endpoint_of(url: str, setting: str, options: Mapping[str, str], **how: int) -> Endpoint:
    """The endpoint that `setting` names. `ssl.*` among the options of a login module are for it. Raises ConfigError."""
    return Endpoint(_checked_url(url, setting), context=_context(options), **how)


def _context(options: Mapping[str, str]) -> ssl.SSLContext | None:
    """None for the authorities of the system."""
    own = {name: text for name, text in options.items() if name.startswith("ssl.")}
    if not own:
        return None
    from tidelog.security.tls import client_context, read_tls_options

    return client_context(read_tls_options(_EndpointSettings(**parse_settings(_EndpointSettings, own))))


def _checked_url(url: str, setting: str) -> str:
    """The URL, if it is one that can be fetched. Raises ConfigError."""
    parts = urlsplit(url)
    is_file = parts.scheme == "file" and bool(parts.path) and parts.netloc in ("", "localhost")
    if not is_file and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ConfigError(
            f"{setting}={url} is not a URL that begins with https://, http:// or file:///", setting=setting
        )
    return url


def _read(path: str, url: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_BYTES_MAX)
    except OSError as error:
        raise EndpointError(f"{url} cannot be read: {error.strerror or error}") from error
