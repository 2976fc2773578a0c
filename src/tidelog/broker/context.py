"""The context of a request: the node that serves it and the client's session.

One is made for each request that is decoded into a message; Produce and Fetch do without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.broker.routes import Route
    from tidelog.network.connection import Slot
    from tidelog.network.session import Session


class ClientLeft(Exception):  # noqa: N818 -- an event, not an error of the broker
    """The client closed its connection, so the rest of the work on its request is not needed."""


class Context:
    """The context of one request."""

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

        Raises `ClientLeft` when the connection was closed. Requests that change something, and must not stop
        half-way, await `node.slices.pause()` instead.
        """
        await self.node.slices.pause()
        if self.slot.connection.is_closed:
            raise ClientLeft

    @property
    def session(self) -> Session:
        """The client's session. Produce and Fetch find it at `slot.connection.session`."""
        return self.slot.connection.session
