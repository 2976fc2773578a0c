"""One `Link` between callers and a broker that a test plays: connections without sockets, in virtual time."""

import asyncio
import struct
from contextlib import suppress
from typing import Any, cast

from tidelog.client.aio.connection import BrokerConnection
from tidelog.client.aio.counters import BrokerCounters
from tidelog.client.aio.link import Link
from tidelog.client.aio.producer.settings import load_producer_settings
from tidelog.client.aio.reachability import Reachability
from tidelog.client.aio.waits import WAITS, Wait, WakeUp
from tidelog.client.errors import ClientError, UnsupportedByBroker
from tidelog.client.types import BrokerNode
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

IN_FLIGHT_MAX = 2


class Wire(asyncio.Transport):
    """What a connection writes to: ApiVersions is answered at once, all else when the test says so."""

    def __init__(self, connection: BrokerConnection) -> None:
        super().__init__()
        self._connection = connection
        self.due: list[int] = []
        self.is_closed = False

    def write(self, data: Any) -> None:
        key, version, number = struct.unpack_from(">hhi", data, 4)
        if key == ApiKey.API_VERSIONS:
            served = [ApiVersion(api_key=ApiKey.INIT_PRODUCER_ID, min_version=0, max_version=0)]
            asyncio.get_running_loop().call_soon(self.reply, number, ApiVersionsResponse(api_keys=served), version)
        else:
            self.due.append(number)

    def reply(self, number: int, message: Any, version: int) -> None:
        frame = struct.pack(">i", number) + message.encode(version)
        data = struct.pack(">i", len(frame)) + frame
        if not self.is_closed:
            self._connection.get_buffer(len(data))[: len(data)] = data
            self._connection.buffer_updated(len(data))

    def abort(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)


class World:
    """The link, its callers, and the broker; also the connector of the link."""

    def __init__(self) -> None:
        settings = load_producer_settings({"bootstrap.servers": "h:1"}, {})
        self.is_reachable = True
        self.wire: Wire | None = None
        self.calls: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.get_running_loop()
        self.batching_waits = False
        self._is_closed = False
        self.link = Link(
            BrokerNode(1, "h", 1),
            settings,
            cast(Any, self),
            IN_FLIGHT_MAX,
            self._spawn,
            Reachability(settings.bootstrap_timeout_ms, 0),
            BrokerCounters(),
            lambda: None,
        )

    def _spawn(self, work: Any) -> "asyncio.Task[Any]":
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def connect(self, connection: BrokerConnection, _host: str, _port: int) -> None:
        await asyncio.sleep(0)
        if not self.is_reachable:
            raise ConnectionRefusedError
        self.wire = Wire(connection)
        connection.connection_made(self.wire)

    async def authenticate(self, connection: BrokerConnection) -> None:
        pass

    # What happens.

    async def call(self, *, is_served: bool) -> None:
        """A caller sends a request when it may: one that the broker serves, or one that it does not."""
        task = self._spawn(self._call(is_served=is_served))
        self.calls.add(task)
        task.add_done_callback(self.calls.discard)
        await settle()

    async def _call(self, *, is_served: bool) -> None:
        with suppress(ClientError):
            if is_served:
                await self.link.send(InitProducerIdRequest(), InitProducerIdResponse)
            else:
                with suppress(UnsupportedByBroker):
                    await self.link.send(DescribeGroupsRequest(), DescribeGroupsResponse)

    async def batch(self) -> None:
        """A caller that does not wait asks for the connection, and uses it."""
        self.batching_waits = True
        self._try()
        await settle()

    def _try(self) -> None:
        if self._is_closed:
            return
        connection = self.link.ready(self._try)
        if connection is not None and self.batching_waits:
            self.batching_waits = False
            connection.send(InitProducerIdRequest(), InitProducerIdResponse).add_done_callback(_look_at)

    async def cancel(self) -> None:
        for task in list(self.calls)[:1]:
            task.cancel()
        await settle()

    async def reply(self, throttle_ms: int) -> None:
        if self.wire is not None and self.wire.due:
            self.wire.reply(self.wire.due.pop(0), InitProducerIdResponse(throttle_time_ms=throttle_ms), 0)
        await settle()

    async def lose(self) -> None:
        if self.wire is not None:
            self.wire.abort()
        await settle()

    async def expire(self) -> None:
        """The session of the connection ends soon."""
        connection = self.link._connection
        if connection is not None:
            connection.session_ends = self._loop.time()
        await settle()

    async def reach(self, *, is_reachable: bool) -> None:
        self.is_reachable = is_reachable
        await settle()

    async def pause(self, pause_ms: int) -> None:
        await asyncio.sleep(pause_ms / 1000)
        await settle()

    async def close(self) -> None:
        self._is_closed = True
        self.link.close(ClientError("the end"))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # What must hold.

    def check(self) -> None:
        """No caller waits without something to come that ends the wait."""
        waiting = len(self.calls) - (0 if self.wire is None or self.wire.is_closed else len(self.wire.due))
        if waiting > 0 or self.batching_waits:
            wait = self._wait()
            assert any(self._comes(each) for each in WAITS[wait]), (
                f"{waiting} callers wait for {wait.value}; nothing of that is to come"
            )

    def _wait(self) -> Wait:
        connection = self.link._connection
        if connection is None:
            # A caller may have slept through the loss of a connection that was throttled.
            return Wait.CONNECT if self.link._connecting is not None else Wait.THROTTLE
        if connection.throttled_until > self._loop.time():
            return Wait.THROTTLE
        return Wait.PLACE

    def _comes(self, wake_up: WakeUp) -> bool:
        if wake_up is WakeUp.TASK:
            return self.link._connecting is not None
        if wake_up is WakeUp.TIMER:
            loop: Any = self._loop
            return any(not handle.cancelled() for handle in loop._scheduled)
        # There is a place: whoever waits for one would wait for nothing.
        return self.link._connection is not None and self.link._connection.in_flight >= self._places

    @property
    def _places(self) -> int:
        """How many requests in flight justify that others wait."""
        connection = self.link._connection
        return 1 if connection is not None and connection.is_expiring else IN_FLIGHT_MAX


async def settle() -> None:
    """Let everything run that is ready."""
    for _ in range(20):
        await asyncio.sleep(0)


def _look_at(done: "asyncio.Future[Any]") -> None:
    if not done.cancelled():
        done.exception()
