"""What every request passes before a page sees it, and the headers that every response carries.

- The Host header must be an IP address, localhost, the address listened on, or a host of `--allowed-host`. Otherwise a
  web page of another site could reach a console on loopback by a name that it resolves to 127.0.0.1.
- A request that changes something must come from the console's own pages: its Origin, where the browser sends one, is
  the console's own, and its form carries the session's secret (`forms`).
- Pages load nothing from elsewhere and run no inline script.
"""

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidelog.console.settings import is_address

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: browsers would then send `Origin: null` with the console's own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """Rejects requests for other hosts and from other origins; adds the security headers to all responses."""

    def __init__(self, app: ASGIApp, allowed_hosts: Collection[str]) -> None:
        self._app = app
        self._allowed = frozenset(host.lower() for host in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                made = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    made[name] = value
                if "cache-control" not in made:
                    made["Cache-Control"] = "no-store"
            await send(message)

        problem = self._problem(scope, headers)
        if problem is None:
            await self._app(scope, receive, send_guarded)
        else:
            await PlainTextResponse(problem + "\n", status_code=403)(scope, receive, send_guarded)

    def _problem(self, scope: Scope, headers: Headers) -> str | None:
        host = headers.get("host", "")
        if not self.is_allowed_host(host):
            return f"The console does not serve the host {host!r}. Start it with --allowed-host to allow the name."
        if scope["method"] not in _SAFE:
            origin = headers.get("origin")
            if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
                return f"This request comes from a page of {origin}, not from the console."
            if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
                return "This request comes from a page of another site, not from the console."
        return None

    def is_allowed_host(self, host: str) -> bool:
        """Whether a Host header names this console. An attacker controls names, but not addresses."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name == "localhost" or name in self._allowed or is_address(name)
