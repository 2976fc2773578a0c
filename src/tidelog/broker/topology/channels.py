"""Connections from this broker to others: one for each broker and purpose, made when the first request needs it.

Purposes keep requests apart that must not wait for each other: replies on one connection come in order, so a Fetch that
waits half a second would hold up an AlterPartition behind it. A request goes out in the highest version that both
brokers serve. Nothing is retried here: every way in which a request can end without a reply raises `BrokerUnreachable`,
and the caller knows whether it may send the request again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Final

from tidelog.client.aio.connection import BrokerConnection, Connector
from tidelog.client.errors import ClientError
from tidelog.metadata.tree import Endpoint
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.schema import Message

Resolve = Callable[[int], Endpoint | None]
"""Where a broker listens for other brokers; None if it is not known or not alive."""

_MESSAGES: Final = "tidelog.wire.messages"


class BrokerUnreachable(Exception):  # noqa: N818 - what happened; it reads better in an `except` without a suffix
    """A request to another broker got no reply. Whether the broker carried it out is not known."""

    def __init__(self, broker_id: int, reason: str) -> None:
        super().__init__(f"broker {broker_id} cannot be reached: {reason}")
        self.broker_id = broker_id
        self.reason = reason


class BrokerChannels:
    """Sends requests to brokers by their ids."""

    def __init__(
        self,
        resolve: Resolve,
        connector_for: Callable[[Endpoint], Connector],
        *,
        client_id: str,
        request_timeout_ms: int,
        setup_timeout_ms: int,
    ) -> None:
        """`connector_for` gives what connects to an endpoint.

        `request_timeout_ms` applies where a request names no timeout, `setup_timeout_ms` to each new connection.
        """
        self._resolve = resolve
        self._connector_for = connector_for
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._setup_timeout_ms = setup_timeout_ms
        self._channels: dict[tuple[int, str], _Channel] = {}
        self._is_closed = False

    async def send(
        self,
        broker_id: int,
        request: Message,
        *,
        purpose: str,
        timeout_ms: int | None = None,
    ) -> Message:
        """Send a request and return its response; raises `BrokerUnreachable`."""
        try:
            connection = await self._connect(broker_id, purpose)
            return await connection.send(request, response_class(type(request)), timeout_ms=timeout_ms)
        except ClientError as error:
            raise BrokerUnreachable(broker_id, str(error)) from error

    async def ask(self, broker_id: int, request: Message) -> Message:
        """What a coordinator on another broker answers. Raises ApiError where there is no answer.

        On a connection of its own: replies come in order, and others may wait for long.
        """
        try:
            return await self.send(broker_id, request, purpose=type(request).__name__)
        except BrokerUnreachable as error:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error

    def disconnect(self, broker_id: int, purpose: str | None = None) -> None:
        """Close the connections to a broker (those of one purpose); their open requests fail."""
        for key, channel in list(self._channels.items()):
            if key[0] == broker_id and purpose in (None, key[1]):
                del self._channels[key]
                channel.close()

    async def close(self) -> None:
        """Close every connection and make no other; open requests fail."""
        self._is_closed = True
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()
        for channel in channels.values():
            await channel.wait_closed()

    async def _connect(self, broker_id: int, purpose: str) -> BrokerConnection:
        if self._is_closed:
            raise BrokerUnreachable(broker_id, "this broker is stopping")
        endpoint = self._resolve(broker_id)
        if endpoint is None:
            raise BrokerUnreachable(broker_id, "its address is not known")
        key = broker_id, purpose
        channel = self._channels.get(key)
        if channel is None or not channel.is_usable(endpoint):
            if channel is not None:
                channel.close()
            connection = BrokerConnection(
                endpoint.host, endpoint.port, client_id=self._client_id, request_timeout_ms=self._request_timeout_ms
            )
            channel = self._channels[key] = _Channel(connection, self._connector_for(endpoint), self._setup_timeout_ms)
        return await channel.connection()


class _Channel:
    """One connection and the attempt to open it, which all requests of the channel share."""

    __slots__ = ("_connection", "_opening")

    def __init__(self, connection: BrokerConnection, connector: Connector, setup_timeout_ms: int) -> None:
        self._connection = connection
        self._opening = asyncio.get_running_loop().create_task(connection.open(connector, setup_timeout_ms))
        self._opening.add_done_callback(_retrieve)

    def is_usable(self, endpoint: Endpoint) -> bool:
        """Whether the connection leads to `endpoint`, and is open or being opened."""
        connection = self._connection
        is_there = connection.is_open and not connection.is_expiring if self._opening.done() else True
        return is_there and (connection.host, connection.port) == (endpoint.host, endpoint.port)

    async def connection(self) -> BrokerConnection:
        if not self._opening.done():
            # Shielded: another request may wait for the same connection after this caller was cancelled.
            await asyncio.shield(self._opening)
        elif not self._connection.is_open:
            self._opening.result()
        return self._connection

    def close(self) -> None:
        self._connection.abort(None)

    async def wait_closed(self) -> None:
        await asyncio.wait((self._opening,))
        await self._connection.wait_closed()


def _retrieve(opening: asyncio.Task[None]) -> None:
    """Requests that wait for the connection raise its error; without any, it is dropped."""
    if not opening.cancelled():
        opening.exception()


@cache
def response_class(request: type[Message]) -> type[Message]:
    """The class of the responses to a class of requests."""
    name = request.__name__.removesuffix("Request") + "Response"
    found: type[Message] = getattr(import_module(_MESSAGES), name)
    return found
