"""Loads the partitions of a coordinator's internal topic, in slices."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tidelog.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.runtime.background import BackgroundPool
    from tidelog.broker.runtime.slices import TimeSlices
    from tidelog.coordination import CoordinatorRuntime, Loading
    from tidelog.replication.partition import Partition
    from tidelog.replication.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

_SLICE_SECONDS: Final = 0.004
"""How long a load may keep the loop to itself."""


class ShardLoader:
    """Loads the partitions of an internal topic that this broker leads, one after the other.

    In slices of a few milliseconds, so that other clients are served meanwhile. A partition is served once its records
    are committed: a new leader may hold some that its followers do not have yet, and nothing may be answered, nor a
    transaction be completed, because of a record that can still be lost.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[Any],
        replica_manager: ReplicaManager,
        slices: TimeSlices,
        background: BackgroundPool,
        wake: Callable[[], None],
        buffer_bytes: int,
    ) -> None:
        """`wake` is called when a partition is there; so much of a log is read at once."""
        self._runtime = runtime
        self._replica_manager = replica_manager
        self._slices = slices
        self._background = background
        self._wake = wake
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
        seconds = self._slices.seconds
        began = seconds()
        offset, end_offset = log.log_start_offset, log.written_end_offset
        while offset < end_offset and not loading.is_cancelled:
            # Not `log`: the replica may move to another directory meanwhile.
            piece = partition.log.read(offset, self._buffer_bytes, end_offset, True).slice
            if piece is None:
                break
            data = await self._background.run(piece.read)
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
            self._wake()
            logger.info("loaded %s-%d in %.0f ms", *partition.key, (self._slices.seconds() - began) * 1000)

        self._replica_manager.await_commit(*partition.key, on_committed)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
