"""What the edges of both coordinators share: replies that may come later, and loading their internal topics."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.coordination import CoordinatorRuntime, Loading
    from tidelog.replication.partition import Partition

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SLICE_SECONDS: Final = 0.004
"""How long a load may keep the loop to itself."""


class Reply:
    """Takes the outcome of one request and makes its response, now or later.

    A later one goes to the callback of `then`, within the turn in which the outcome arrives; code that collects several
    replies may await it instead. An error of `shape` belongs to the reply: it is raised where the response is read, not
    where the outcome came from.

    `has_effect_pending` is set for a request whose effect is visible only with its reply: until then, its connection's
    next request waits.
    """

    __slots__ = ("_error", "_response", "_shape", "_then", "has_effect_pending")

    def __init__(self, shape: Callable[[Any], Any]) -> None:
        self._shape = shape
        self._response: Any = None
        self._error: Exception | None = None
        self._then: Callable[[Reply], None] | None = None
        self.has_effect_pending = False

    def __call__(self, outcome: Any) -> None:
        if isinstance(outcome, ApiError):
            # The frames of its traceback hold this reply, and would until the next garbage collection.
            outcome.__traceback__ = None
        try:
            self._response = self._shape(outcome)
        except Exception as error:
            self._error = error
        if self._then is not None:
            self._then(self)

    @property
    def is_there(self) -> bool:
        return self._response is not None or self._error is not None

    def result(self) -> Any:
        """The response, or this reply itself as long as there is none; raises what went wrong in making it."""
        if self._error is not None:
            raise self._error
        return self if self._response is None else self._response

    def then(self, callback: Callable[[Reply], None]) -> None:
        """Call `callback` with this reply as soon as it has a result. One may wait."""
        assert not self.is_there, "there is nothing to wait for"
        self._then = callback

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.is_there:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.then(lambda _: None if future.done() else future.set_result(None))
            yield from future
        return self.result()


def gather(results: Sequence[Any], shape: Callable[[list[Any]], T]) -> T:
    """One response of several results, some of which may be replies that come later; then it is a reply itself."""

    def shape_all(_: None) -> T:
        return shape([result.result() if type(result) is Reply else result for result in results])

    waiting = [result for result in results if type(result) is Reply and not result.is_there]
    if not waiting:
        return shape_all(None)
    together = Reply(shape_all)
    missing = len(waiting)

    def one_is_there(_reply: Reply) -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            together(None)

    for reply in waiting:
        reply.then(one_is_there)
    result: T = together.result()
    return result


class ShardLoader:
    """Loads the partitions of an internal topic that this broker leads, one after the other.

    In slices of a few milliseconds, so that other clients are served meanwhile. A partition is served once its records
    are committed: a new leader may hold some that its followers do not have yet, and nothing may be answered, nor a
    transaction be completed, because of a record that can still be lost.
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
                # Half a partition would report groups of the other half as missing.
                logger.exception("%s-%d cannot be loaded and is not served", *partition.key)
                self._runtime.unload(partition.index)
        self._task = None

    async def _load(self, loading: Loading[Any], partition: Partition) -> None:
        log = partition.log
        seconds = self._node.slices.seconds
        began = seconds()
        offset, end_offset = log.log_start_offset, log.written_end_offset
        while offset < end_offset and not loading.is_cancelled:
            # Not `log`: the replica may move to another directory meanwhile.
            piece = partition.log.read(offset, self._buffer_bytes, end_offset, True).slice
            if piece is None:
                break
            data = await self._node.background.run(piece.read)
            pause_at = seconds() + _SLICE_SECONDS
            for next_offset in loading.replay(data):
                offset = next_offset
                if seconds() >= pause_at:
                    await asyncio.sleep(0)
                    if loading.is_cancelled:
                        return
                    pause_at = seconds() + _SLICE_SECONDS
        self._finish_when_committed(loading, partition, began)

    def _finish_when_committed(self, loading: Loading[Any], partition: Partition, began: float) -> None:
        def on_committed(code: ErrorCode, _offset: int) -> None:
            if loading.is_cancelled:
                return
            if code is ErrorCode.REQUEST_TIMED_OUT:
                self._finish_when_committed(loading, partition, began)
                return
            self._runtime.finish_load(loading, is_committed=code is ErrorCode.NONE)
            self._node.socket_server.wake()
            logger.info("loaded %s-%d in %.0f ms", *partition.key, (self._node.slices.seconds() - began) * 1000)

        self._node.replica_manager.await_commit(*partition.key, on_committed)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
