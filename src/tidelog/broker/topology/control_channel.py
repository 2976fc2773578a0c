"""From the controller to the brokers: a queue for each, in order, over a connection of its own.

A request is sent until it is answered. A broker that cannot be reached is tried again after a pause; what waits for it
is dropped when the controller learns that the broker is gone. Requests to the controller's own broker take no
connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from tidelog.broker.topology.channels import BrokerUnreachable
from tidelog.controller.context import LiveBroker
from tidelog.metadata.tree import Endpoint
from tidelog.tasks import OwnedTasks
from tidelog.wire.schema import Message

logger = logging.getLogger(__name__)

PURPOSE: Final = "control"
_PAUSE_SECONDS: Final = 0.1
"""Between two attempts, as in Kafka."""

OnResponse = Callable[[Message], object]
Local = Callable[[Message], Awaitable[Message]]


class Channels(Protocol):
    """Sends one request to one broker, as `BrokerChannels` does."""

    async def send(
        self, broker_id: int, request: Message, *, purpose: str, timeout_ms: int | None = None
    ) -> Message: ...

    def disconnect(self, broker_id: int, purpose: str | None = None) -> None: ...


class ControlChannels:
    """The queues of one controller; the `ControlPlane` of a running broker."""

    def __init__(
        self, broker_id: int, listeners: Sequence[str], channels: Channels, local: Local | None, *, timeout_ms: int
    ) -> None:
        """Brokers are reached by the first of `listeners` that they have; `local` carries out requests to this one."""
        self._broker_id = broker_id
        self._listeners = listeners
        self._channels = channels
        self._local = local
        self._timeout_ms = timeout_ms
        self._queues: dict[int, _BrokerQueue] = {}
        self._ending = OwnedTasks()

    def endpoint_of(self, broker_id: int) -> Endpoint | None:
        """Where a broker listens for the controller; None if the controller does not know the broker."""
        queue = self._queues.get(broker_id)
        return None if queue is None else queue.endpoint(self._listeners)

    def queue_sizes(self) -> dict[int, int]:
        """How many requests wait for each broker, the one under way included."""
        return {broker_id: len(queue) for broker_id, queue in self._queues.items()}

    def add_broker(self, broker: LiveBroker) -> None:
        self.remove_broker(broker.broker_id)
        is_local = broker.broker_id == self._broker_id and self._local is not None
        send = self._send_locally if is_local else self._send_to(broker.broker_id)
        self._queues[broker.broker_id] = _BrokerQueue(broker, send)

    def remove_broker(self, broker_id: int) -> None:
        queue = self._queues.pop(broker_id, None)
        if queue is not None:
            self._ending.adopt(queue.close())
            self._channels.disconnect(broker_id, PURPOSE)

    def send(self, broker_id: int, request: Message, on_response: OnResponse) -> None:
        queue = self._queues.get(broker_id)
        if queue is not None:
            queue.put(request, on_response)

    def close(self) -> None:
        for broker_id in list(self._queues):
            self.remove_broker(broker_id)

    async def wait_closed(self) -> None:
        """Return when no task of a queue runs any more."""
        await self._ending.wait()

    async def _send_locally(self, request: Message) -> Message:
        assert self._local is not None, "requests to this broker are carried out here"
        return await self._local(request)

    def _send_to(self, broker_id: int) -> Local:
        async def send(request: Message) -> Message:
            return await self._channels.send(broker_id, request, purpose=PURPOSE, timeout_ms=self._timeout_ms)

        return send


class _BrokerQueue:
    """Requests to one registration of a broker."""

    __slots__ = ("_broker", "_requests", "_send", "_task", "_wake")

    def __init__(self, broker: LiveBroker, send: Local) -> None:
        self._broker = broker
        self._send = send
        self._requests: deque[tuple[Message, OnResponse]] = deque()
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def __len__(self) -> int:
        return len(self._requests)

    def endpoint(self, listeners: Sequence[str]) -> Endpoint | None:
        endpoints = {endpoint.listener: endpoint for endpoint in self._broker.registration.endpoints}
        return next((endpoints[listener] for listener in listeners if listener in endpoints), None)

    def put(self, request: Message, on_response: OnResponse) -> None:
        self._requests.append((request, on_response))
        self._wake.set()

    def close(self) -> asyncio.Task[None]:
        """Drop what waits. The task ends soon."""
        self._requests.clear()
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        while True:
            while not self._requests:
                self._wake.clear()
                await self._wake.wait()
            request, on_response = self._requests[0]
            response = await self._deliver(request)
            self._requests.popleft()
            on_response(response)

    async def _deliver(self, request: Message) -> Message:
        """Send a request until it is answered."""
        has_failed = False
        while True:
            try:
                return await self._send(request)
            except BrokerUnreachable as error:
                level = logging.DEBUG if has_failed else logging.WARNING
                logger.log(level, "%s is sent again: %s", type(request).__name__, error)
                has_failed = True
                await asyncio.sleep(_PAUSE_SECONDS)
