"""What the edges of both coordinators share: replies that may come later, and loading their internal topics."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.coordination import CoordinatorRuntime, Loading
    from tidelog.replication.partition import Partition

logger = logging.getLogger(__name__)

_SLICE_SECONDS: Final = 0.004
"""How long a load may keep the loop to itself."""


class Reply:
    """Takes the outcome of one request; `result` is there at once or a future."""

    __slots__ = ("_future", "_outcome", "_shape")

    def __init__(self, shape: Callable[[Any], Any]) -> None:
        self._shape = shape
        self._outcome: Any = None
        self._future: asyncio.Future[Any] | None = None

    def __call__(self, outcome: Any) -> None:
        shaped = self._shape(outcome)
        if self._future is None:
            self._outcome = shaped
        elif not self._future.done():
            self._future.set_result(shaped)

    @property
    def is_there(self) -> bool:
        return self._outcome is not None

    def result(self) -> Any:
        if self._outcome is not None:
            return self._outcome
        self._future = asyncio.get_running_loop().create_future()
        return self._future


class ShardLoader:
    """Loads the partitions of an internal topic that this broker leads, one after the other.

    In slices of a few milliseconds, so that everybody else is served meanwhile.
    """

    def __init__(self, node: Node, runtime: CoordinatorRuntime[Any], buffer_bytes: int) -> None:
        self._node = node
        self._runtime = runtime
        self._buffer_bytes = buffer_bytes
        self._queue: deque[tuple[Loading[Any], Partition]] = deque()
        self._task: asyncio.Task[None] | None = None

    def load(self, partition: Partition) -> None:
        """Begin to load a partition; an empty one is there at once."""
        loading = self._runtime.begin_load(partition.index)
        if partition.log.log_start_offset == partition.log.log_end_offset:
            self._runtime.finish_load(loading)
            return
        self._queue.append((loading, partition))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._load_all())

    async def _load_all(self) -> None:
        while self._queue:
            loading, partition = self._queue.popleft()
            try:
                await self._load(loading, partition)
            except Exception:
                # Half a partition would answer that what is in the other half does not exist.
                logger.exception("%s-%d cannot be loaded and is not served", *partition.key)
                self._runtime.unload(partition.index)
        self._task = None

    async def _load(self, loading: Loading[Any], partition: Partition) -> None:
        log = partition.log
        began = monotonic()
        offset, end_offset = log.log_start_offset, log.written_end_offset
        while offset < end_offset and not loading.is_cancelled:
            piece = log.read(offset, self._buffer_bytes, end_offset, True).slice
            if piece is None:
                break
            data = await self._node.background.run(piece.read)
            pause_at = monotonic() + _SLICE_SECONDS
            for next_offset in loading.replay(data):
                offset = next_offset
                if monotonic() >= pause_at:
                    await asyncio.sleep(0)
                    if loading.is_cancelled:
                        return
                    pause_at = monotonic() + _SLICE_SECONDS
        self._runtime.finish_load(loading)
        self._node.socket_server.wake()
        logger.info("loaded %s-%d in %.0f ms", *partition.key, (monotonic() - began) * 1000)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
