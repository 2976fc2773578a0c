"""One broker: its connection, opened when needed, the back-off between attempts and the requests in flight.

`NetworkClient` keeps one per broker and channel. A broker that refuses connections is not tried again before its
back-off has passed; callers that can wait do so in `send`, those that cannot ask `ready`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from tidelog.client.aio.connection import NO_FEATURES, BrokerConnection, Connector, FinalisedFeatures, Response
from tidelog.client.aio.counters import BrokerCounters
from tidelog.client.aio.reachability import Reachability
from tidelog.client.aio.settings import CommonSettings
from tidelog.client.backoff import Backoff
from tidelog.client.errors import AuthenticationFailed, BrokerUnavailable, ClientError, ConnectionLost
from tidelog.client.types import BrokerNode
from tidelog.wire.schema import Message


class Spawn(Protocol):
    """Runs a coroutine beside the caller."""

    def __call__(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]": ...


class Link:
    """At most one connection to `node`."""

    def __init__(
        self,
        node: BrokerNode,
        settings: CommonSettings,
        connector: Connector,
        in_flight_max: int,
        spawn: Spawn,
        reachability: Reachability,
        counters: BrokerCounters,
        on_unreachable: Callable[[], None],
    ) -> None:
        """`on_unreachable` is called when the broker cannot be reached, or not any more: it may lead nothing now."""
        self.node = node
        self._settings = settings
        self._connector = connector
        self._in_flight_max = in_flight_max
        self._spawn = spawn
        self._reachability = reachability
        self._counters = counters
        self._on_unreachable = on_unreachable
        self._loop = asyncio.get_running_loop()
        self._connection: BrokerConnection | None = None
        self._connecting: asyncio.Task[BrokerConnection] | None = None
        self._failures = 0
        self._next_attempt = 0.0
        self._reconnect = Backoff(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms)
        self._setup = Backoff(
            settings.socket_connection_setup_timeout_ms, settings.socket_connection_setup_timeout_max_ms
        )
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._on_change: Callable[[], None] | None = None
        self._closed: ClientError | None = None

    def load(self) -> tuple[int, int]:
        """For choosing among brokers: connected before unknown before failed, then by requests in flight."""
        if self._connection is not None:
            return 0, self._connection.in_flight
        return (2, self._failures) if self.is_failing else (1, 0)

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt to connect has failed."""
        return self._connection is None and self._failures > 0

    @property
    def in_flight(self) -> int | None:
        """Requests whose replies are due; None while there is no connection."""
        return None if self._connection is None else self._connection.in_flight

    @property
    def features(self) -> FinalisedFeatures:
        """The features that the broker named; none while there is no connection."""
        return NO_FEATURES if self._connection is None else self._connection.features

    def is_idle_since(self, horizon: float) -> bool:
        """Whether the connection was not used since the loop's time `horizon`."""
        connection = self._connection
        return connection is not None and not connection.in_flight and connection.last_used < horizon

    async def acquire(self) -> BrokerConnection:
        """A connection with a free place in flight, connecting and waiting as needed."""
        while True:
            connection = self._connection
            if connection is None:
                # Shielded, because others may wait for the same attempt after this caller gave up.
                await asyncio.shield(self._connect())
                continue
            throttled_s = connection.throttled_until - self._loop.time()
            if connection.is_expiring:
                await self._wait_for_replacement(connection)
            elif throttled_s > 0:
                await asyncio.sleep(throttled_s)
            elif connection.in_flight < self._in_flight_max:
                return connection
            else:
                await self._wait_for_place()

    async def send(
        self,
        request: Message,
        response: type[Response],
        *,
        timeout_ms: int | None = None,
        at_most: int | None = None,
    ) -> Response:
        """Wait for a place, write `request`, and wait for its reply."""
        return await (await self.write(request, response, timeout_ms=timeout_ms, at_most=at_most))

    async def write(
        self,
        request: Message,
        response: type[Response],
        *,
        timeout_ms: int | None = None,
        at_most: int | None = None,
    ) -> "asyncio.Future[Response]":
        """Wait for a place and write `request`; the future is its reply."""
        connection = await self.acquire()
        try:
            return connection.send(request, response, timeout_ms=timeout_ms, at_most=at_most)
        except BaseException:
            self._place_is_free()  # this caller was given it and cannot use it
            raise

    def ready(self, on_change: Callable[[], None]) -> BrokerConnection | None:
        """The connection if it can take a request now. Else None: it connects, and `on_change` is called later."""
        connection = self._connection
        if connection is None:
            self._on_change = on_change
            self._connect()
            return None
        if connection.is_expiring:
            self._on_change = on_change
            self._replace_if_idle(connection)
            return None
        throttled_s = connection.throttled_until - self._loop.time()
        if throttled_s > 0:
            self._loop.call_later(throttled_s, on_change)
            return None
        if connection.in_flight < self._in_flight_max:
            return connection
        self._on_change = on_change
        return None

    async def _wait_for_replacement(self, connection: BrokerConnection) -> None:
        """The session ends soon: wait until nothing is in flight, then let the next attempt make another one."""
        if not self._replace_if_idle(connection):
            await self._wait_for_place()

    def _replace_if_idle(self, connection: BrokerConnection) -> bool:
        if connection.in_flight:
            return False
        connection.abort(ConnectionLost(self.node.address, "its session ends; the client authenticates again"))
        return True

    def close(self, reason: ClientError) -> BrokerConnection | None:
        """Drop the connection and refuse another; returns the one dropped, whose socket closes a moment later."""
        self._closed = reason
        connection = self._connection
        if connection is not None:
            connection.abort(reason)
        return connection

    def _connect(self) -> "asyncio.Task[BrokerConnection]":
        """The attempt under way, begun if there is none."""
        if self._closed is not None:
            raise self._closed
        if self._connecting is None:
            self._connecting = self._spawn(self._attempt())
            self._connecting.add_done_callback(self._attempted)
        return self._connecting

    def _attempted(self, attempt: "asyncio.Task[BrokerConnection]") -> None:
        self._connecting = None
        if not attempt.cancelled():
            attempt.exception()  # the waiting calls have the error, if there are any
        self._tell_change()

    async def _attempt(self) -> BrokerConnection:
        try:
            return await self._attempt_once()
        except asyncio.CancelledError:
            if self._closed is not None:
                raise self._closed from None
            raise

    async def _attempt_once(self) -> BrokerConnection:
        wait_s = self._next_attempt - self._loop.time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        settings = self._settings
        connection = BrokerConnection(
            self.node.host,
            self.node.port,
            client_id=settings.client_id,
            request_timeout_ms=settings.request_timeout_ms,
            counters=self._counters,
            on_reply=self._place_is_free,
            on_lost=self._lost,
        )
        try:
            await connection.open(self._connector, self._setup.after(self._failures + 1))
        except ClientError as error:
            self._failures += 1
            self._counters.failed += 1
            reason = error.reason if isinstance(error, BrokerUnavailable | AuthenticationFailed) else str(error)
            self._reachability.failed(self.node.address, reason, self._loop.time())
            self._next_attempt = self._loop.time() + self._reconnect.after(self._failures) / 1000
            self._on_unreachable()
            raise
        if self._closed is not None:
            connection.abort(self._closed)
            raise self._closed
        self._failures = 0
        self._counters.made += 1
        self._reachability.connected(self.node.address)
        self._connection = connection
        return connection

    async def _wait_for_place(self) -> None:
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._place_is_free()  # this one was woken and cannot use it
            raise

    def _place_is_free(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._tell_change()

    def _lost(self, connection: BrokerConnection) -> None:
        if self._connection is connection:
            self._connection = None
            if self._closed is None:
                self._counters.lost += 1
                self._on_unreachable()
            # A broker that accepts connections and drops them must not be hammered either.
            self._next_attempt = self._loop.time() + self._reconnect.after(1) / 1000
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._tell_change()

    def _tell_change(self) -> None:
        on_change, self._on_change = self._on_change, None
        if on_change is not None:
            on_change()
