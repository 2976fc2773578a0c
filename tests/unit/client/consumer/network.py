"""A network without sockets: what `NetworkClient` offers the consumer's edges, answered by functions.

`answers` has a function per type of request, called with the request and the broker asked. What it returns is the
reply; an exception it returns is raised; a future it returns is waited for.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.metadata import MetadataCache
from tidelog.client.types import BrokerNode
from tidelog.wire.schema import Message

COORDINATOR = BrokerNode(1, "h", 1)


class FakeNetwork:
    """Brokers that answer by script."""

    def __init__(self, settings: ConsumerSettings, metadata: MetadataCache) -> None:
        self.settings = settings
        self.metadata = metadata
        self.answers: dict[type[Message], Callable[[Any, int], Any]] = {}
        self.asked: list[tuple[int, Any]] = []
        self.refreshes = 0
        self.forgotten = 0
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()

    def now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def idle(self) -> None:
        """Return when everything that was spawned has ended."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def send(self, node_id: int, request: Message, response: type[Message], **_: Any) -> Any:
        return await self.put(node_id, request)

    def put(self, node_id: int, request: Message) -> "asyncio.Future[Any]":
        """The reply to come, as a connection gives it."""
        self.asked.append((node_id, request))
        outcome = self.answers[type(request)](request, node_id)
        if isinstance(outcome, asyncio.Future):
            return outcome
        future = self._loop.create_future()
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
        return future

    async def find_coordinator(self, kind: Any, key: str, timeout_ms: int | None = None) -> BrokerNode:
        return COORDINATOR

    def forget_coordinator(self, kind: Any, key: str) -> None:
        self.forgotten += 1

    def link(self, node_id: int, channel: int = 0) -> "FakeLink":
        return FakeLink(self, node_id)

    def ready_connection(self, node_id: int, on_change: Callable[[], None], channel: int = 0) -> "FakeConnection":
        return FakeConnection(self, node_id)

    async def refresh(self, timeout_ms: int | None = None) -> None:
        self.refreshes += 1

    def request_refresh(self) -> None:
        self.refreshes += 1


class FakeLink:
    def __init__(self, network: FakeNetwork, node_id: int) -> None:
        self._network = network
        self._node_id = node_id

    async def write(self, request: Message, response: type[Message], **_: Any) -> "asyncio.Future[Any]":
        return self._network.put(self._node_id, request)

    async def send(self, request: Message, response: type[Message], **_: Any) -> Any:
        return await self._network.put(self._node_id, request)


class FakeConnection:
    def __init__(self, network: FakeNetwork, node_id: int) -> None:
        self._network = network
        self._node_id = node_id

    def send(self, request: Message, response: type[Message], **_: Any) -> "asyncio.Future[Any]":
        return self._network.put(self._node_id, request)
