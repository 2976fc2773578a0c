"""What the parts of a `NetworkClient` use of it: they ask the cluster, and know nothing else of their owner."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from tidelog.client.aio.connection import Response
from tidelog.client.aio.metadata import MetadataCache
from tidelog.client.aio.reachability import Reachability
from tidelog.client.aio.settings import CommonSettings
from tidelog.client.types import BrokerNode
from tidelog.wire.schema import Message


class ClusterCalls(Protocol):
    """See `NetworkClient` for each of them."""

    settings: CommonSettings
    metadata: MetadataCache
    reachability: Reachability
    is_closed: bool

    def now_ms(self) -> int: ...

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]": ...

    def by_load(self) -> list[BrokerNode]: ...

    async def send_to_any(
        self, request: Message, response: type[Response], *, timeout_ms: int | None = None, at_most: int | None = None
    ) -> Response: ...
