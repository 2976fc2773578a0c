"""The connection to a group's coordinator: looked up when needed, and again after a failure.

Requests leave in the order of the calls, also when they all had to wait until the coordinator was found: a
commit must never overtake an earlier one.
"""

import asyncio

from tidelog.client.aio.connection import Response
from tidelog.client.aio.coordinators import CoordinatorType
from tidelog.client.aio.network import COORDINATOR_CHANNEL, NetworkClient
from tidelog.client.errors import BrokerUnavailable
from tidelog.wire.schema import Message


class GroupLink:
    """Sends requests to the coordinator of one group, on its own connection, because fetches may wait long."""

    __slots__ = ("_client", "_turn", "group_id")

    def __init__(self, client: NetworkClient, group_id: str) -> None:
        self._client = client
        self._turn = asyncio.Lock()
        self.group_id = group_id

    async def ask(
        self,
        request: Message,
        response: type[Response],
        *,
        timeout_ms: int | None = None,
        at_most: int | None = None,
    ) -> Response:
        """One request to the coordinator. The caller handles NOT_COORDINATOR and calls `forget`."""
        try:
            async with self._turn:
                node = await self._client.find_coordinator(CoordinatorType.GROUP, self.group_id)
                link = self._client.link(node.node_id, COORDINATOR_CHANNEL)
                reply = await link.write(request, response, timeout_ms=timeout_ms, at_most=at_most)
            return await reply
        except BrokerUnavailable:
            self.forget()
            raise

    def forget(self) -> None:
        """Find the coordinator again next time."""
        self._client.forget_coordinator(CoordinatorType.GROUP, self.group_id)
