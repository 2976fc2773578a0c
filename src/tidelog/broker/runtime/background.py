"""Work that blocks, away from the event loop: the pool of `background.threads`, and syncs to disk through it.

Owned by the node. A function runs on a thread of the pool; its outcome is handed back on the loop's thread, so that no
state of the broker is ever touched by two threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Final, TypeVar

from tidelog.metrics import Distribution
from tidelog.storage.errors import LogDirFailure, OutOfDescriptorsError
from tidelog.storage.log import Log
from tidelog.tasks import OwnedTasks
from tidelog.timing import Clock

logger = logging.getLogger(__name__)

T = TypeVar("T")

_RETRY_SECONDS: Final = 1
_PREPARED_AT_ONCE_MAX: Final = 3


class BackgroundPool:
    """Threads that are started when the first work comes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int) -> None:
        self._loop = loop
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="tidelog-background")
        self._alone = asyncio.Lock()

    def __call__(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        """Run `work` on a thread, then `done` on the loop with what it raised, or None."""

        self.run(work).add_done_callback(lambda future: None if future.cancelled() else done(future.exception()))

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run `function` on a thread; the result comes back on the loop."""
        return self._loop.run_in_executor(self._executor, function)

    async def run_alone(self, function: Callable[[], T]) -> T:
        """The same for work that computes rather than waits: one such function at a time.

        Each thread that computes takes its share of the interpreter from the event loop.
        """
        async with self._alone:
            return await self.run(function)

    def close(self) -> None:
        """Wait for what runs and drop the rest: files that were to be deleted go at the next start."""
        self._executor.shutdown(wait=True, cancel_futures=True)


class RecordPreparation:
    """Checks and conversions of records that take long, a few at a time: each may hold many times its batch."""

    def __init__(self, pool: BackgroundPool, threads: int) -> None:
        """`threads` is what the pool has: one is left to syncs."""
        self._pool = pool
        self._free = asyncio.Semaphore(max(1, min(_PREPARED_AT_ONCE_MAX, threads - 1)))

    async def run(self, prepare: Callable[[], T]) -> T:
        """Run `prepare` on a thread as soon as one may be used for it."""
        async with self._free:
            return await self._pool.run(prepare)


class Flusher:
    """Syncs logs to disk, one sync per log at a time; requests that come meanwhile share the next one."""

    def __init__(self, pool: BackgroundPool, clock: Clock, on_failure: Callable[[LogDirFailure], None]) -> None:
        self._pool = pool
        self._clock = clock
        self._on_failure = on_failure
        self._running: dict[Log, list[Callable[[], None]]] = {}
        self._tasks = OwnedTasks()
        self.times = Distribution()
        """How long syncs took, in microseconds."""

    def flush(self, log: Log, on_flushed: Callable[[], None] | None = None) -> None:
        """Sync a log; `on_flushed` is called on the loop once everything written until now is on disk."""
        waiting = self._running.get(log)
        if waiting is not None:
            waiting.append(on_flushed or _nothing)
            return
        self._running[log] = []
        self._tasks.spawn(self._flush(log, [on_flushed or _nothing]))

    async def _flush(self, log: Log, callbacks: list[Callable[[], None]]) -> None:
        try:
            while callbacks and not log.is_deleted:
                await self._sync(log)
                for callback in callbacks:
                    try:
                        callback()
                    except Exception:
                        logger.exception("what waited for a sync of %s failed", log.directory)
                callbacks, self._running[log] = self._running[log], []
        except LogDirFailure as failure:
            # The files of a topic that is deleted meanwhile are renamed and removed under the sync.
            if not log.is_deleted:
                self._on_failure(failure)
        finally:
            del self._running[log]

    async def _sync(self, log: Log) -> None:
        """Sync a log, however long it takes until its files can be opened."""
        job = None
        while True:
            try:
                # The same job again: what it covers is accounted for by it and by nothing else.
                job = job or log.prepare_flush()
                began = monotonic()
                await self._pool.run(job.run)
                self.times.record(int((monotonic() - began) * 1e6))
            except OutOfDescriptorsError as error:
                logger.warning("a sync to disk is tried again in %d s: %s", _RETRY_SECONDS, error)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                if log.complete_flush(job, self._clock.wall_ms()):
                    return
                job = None

    async def drain(self) -> None:
        await self._tasks.wait()


def _nothing() -> None:
    return
