"""What happens to every request before its handler is called, in one place for all routes, the fast paths included.

Quotas and metrics plug in here. While none is set, a request pays for one attribute look-up. Permissions are checked
later: by the dispatcher for a whole request (`broker.demands`), by the handlers for single topics or groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.broker.routes import Route
    from tidelog.network.connection import Connection, Slot

Count = Callable[["Slot", "Route", int], None]
"""`(slot, route, api version)`"""
Throttle = Callable[["Connection", "Route", int, int], None]
"""`(connection, route, api version, size of the request in bytes)`"""


@dataclass(frozen=True, slots=True)
class RequestHooks:
    """The hooks of one broker, in the order in which they are called."""

    count: Count | None = None
    """Counts the request, whatever becomes of it."""
    throttle: Throttle | None = None
    """Charges the request to the quotas of its client, whose id is in the session."""
    is_logged: bool = False
    """Whether the log names the client, whose id the session then has."""
