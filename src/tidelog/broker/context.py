"""What a handler knows besides its request: the node it serves and who asks.

Made by the dispatcher, one for each request that is decoded into a message; Produce and Fetch do without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.network.connection import Connection, Slot


class Context:
    """One request's surroundings."""

    __slots__ = ("api_version", "client_id", "node", "slot")

    def __init__(self, node: Node, slot: Slot, api_version: int, client_id: str | None) -> None:
        self.node = node
        self.slot = slot
        self.api_version = api_version
        self.client_id = client_id

    @property
    def connection(self) -> Connection:
        return self.slot.connection

    @property
    def listener(self) -> str:
        """The name of the listener the client came in by; it is told addresses of that listener."""
        return self.slot.connection.listener
