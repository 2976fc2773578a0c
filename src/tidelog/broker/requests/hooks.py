"""What happens to every request before its handler is called, whatever handles it: timing, charging, logging."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tidelog.broker.requests.routes import Route
    from tidelog.network.connection import Connection, Slot

Time = Callable[["Slot", "Route", int], None]
"""`(slot, route, api version)`"""
Countdowns = Mapping[int, list[int]]
"""By API key, for each version: how many requests are to come until the next one that is timed, that one included."""
Throttle = Callable[["Connection", int, int], None]
"""`(connection, api key, size of the request in bytes)`"""


@dataclass(frozen=True, slots=True)
class RequestHooks:
    """What happens to every request before its handler is called, fast paths included, in the order of the calls.

    Quotas and metrics plug in here. While none is set, a request pays for one attribute look-up. Permissions are
    checked later: by the dispatcher for a whole request (`broker.security.demands`), by the handlers for single topics
    or groups.
    """

    countdowns: Countdowns | None = None
    """Counted down for each request, whatever becomes of it: that costs a fraction of a call."""
    time: Time | None = None
    """Called when a countdown is at 0, to set it again and to time the request."""
    throttle: Throttle | None = None
    """Charges the request to the quotas of its client, whose id is in the session."""
    is_logged: bool = False
    """Whether the log names the client, whose id the session then has."""


class Hooked(Protocol):
    """Calls the hooks for every request."""

    @property
    def routes(self) -> Mapping[int, Route]: ...

    hooks: RequestHooks

    def set_hooks(self, hooks: RequestHooks) -> None:
        """Call these for every request from now on."""
