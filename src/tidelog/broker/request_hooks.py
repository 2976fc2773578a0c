"""What happens to every request before its handler is called, in one place for all routes, the fast paths included.

Authorization, quotas and metrics plug in here. While none is set, a request pays for one attribute look-up. A hook that
raises `ApiError` closes the connection. Permissions for single topics or groups are checked by the handlers, which put
the error into the response.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.broker.routes import Route
    from tidelog.network.session import Session

Hook = Callable[["Session", "Route", int, int], None]
"""`(session, route, api version, size of the request in bytes)`"""


@dataclass(frozen=True, slots=True)
class RequestHooks:
    """The hooks of one broker, in the order in which they are called."""

    count: Hook | None = None
    """Counts the request, whatever becomes of it."""
    authorize: Hook | None = None
    """Raises ApiError for a request that the session's principal may not make at all."""
    throttle: Hook | None = None
    """Charges the request to the session's quotas."""

    def call(self, session: Session, route: Route, version: int, request_bytes: int) -> None:
        for hook in (self.count, self.authorize, self.throttle):
            if hook is not None:
                hook(session, route, version, request_bytes)
