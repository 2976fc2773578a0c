"""What a handler knows besides its request: the node it serves and who asks.

One is made for each request that is decoded into a message; Produce and Fetch do without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.broker.routes import Route
    from tidelog.network.connection import Slot
    from tidelog.network.session import Session


class ClientLeft(Exception):  # noqa: N818 -- what happened, and no error of ours
    """The client closed its connection, so the rest of the work on its request is not needed."""


class Context:
    """One request's surroundings."""

    __slots__ = ("api_version", "client_id", "correlation_id", "node", "route", "slot")

    def __init__(
        self, node: Node, slot: Slot, route: Route, api_version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.node = node
        self.slot = slot
        self.route = route
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    async def pause(self) -> None:
        """Let others be served if this request has used up its slice of the loop's turn (`tidelog.broker.slices`).

        Raises `ClientLeft` when the answer is no longer wanted. Requests that change something, and must not stop
        half-way, await `node.slices.pause()` instead.
        """
        await self.node.slices.pause()
        if self.slot.connection.is_closed:
            raise ClientLeft

    @property
    def session(self) -> Session:
        """Who asks. Produce and Fetch find it at `slot.connection.session`."""
        return self.slot.connection.session
