"""The way to a group's coordinator: found when needed, forgotten when it fails."""

from tidelog.client.aio.connection import Response
from tidelog.client.aio.coordinators import CoordinatorType
from tidelog.client.aio.network import COORDINATOR_CHANNEL, NetworkClient
from tidelog.client.errors import BrokerUnavailable
from tidelog.wire.schema import Message


class GroupLink:
    """Asks whoever coordinates one group. Its connection is apart from that of fetches, which may wait long."""

    __slots__ = ("_client", "group_id")

    def __init__(self, client: NetworkClient, group_id: str) -> None:
        self._client = client
        self.group_id = group_id

    async def ask(
        self,
        request: Message,
        response: type[Response],
        *,
        timeout_ms: int | None = None,
        at_most: int | None = None,
    ) -> Response:
        """One request to the coordinator. An answer that says it is not the one does not reach this class: `forget`."""
        node = await self._client.find_coordinator(CoordinatorType.GROUP, self.group_id)
        try:
            return await self._client.send(
                node.node_id, request, response, timeout_ms=timeout_ms, at_most=at_most, channel=COORDINATOR_CHANNEL
            )
        except BrokerUnavailable:
            self.forget()
            raise

    def forget(self) -> None:
        """Find the coordinator again next time."""
        self._client.forget_coordinator(CoordinatorType.GROUP, self.group_id)
