"""Delivers delayed records at their time, and changes those that wait.

It follows every partition whose topic has `tidelog.delay.enable`, or had it while records still wait. Each has one
piece of work at a time: apply what was committed, then append what is due, a batch at a time, until nothing is; then
the timer has its next due time. Changes that clients ask for, and the copying of records out of a log's front, take
turns with deliveries. Followers only apply.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.storage.errors import LogDirFailure
from tidelog.tasks import OwnedTasks
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.configuration.current import CurrentSettings
    from tidelog.broker.runtime.background import BackgroundPool
    from tidelog.broker.runtime.slices import TimeSlices
    from tidelog.broker.runtime.timer_driver import TimerDriver
    from tidelog.replication.delayed import DelayedPartition
    from tidelog.replication.partition import Partition
    from tidelog.replication.replica_manager import ReplicaManager
    from tidelog.storage.waiting.files import Checkpoint
    from tidelog.timing import Clock, Scheduler, Timer, TimerTask

logger = logging.getLogger(__name__)

_RETRY_MS: Final = 100
"""Until a delivery is tried again that found too few replicas in sync."""
_FAR_MS: Final = 60_000
"""A due time further ahead is looked at again by then: the wall clock may be set."""
_HOUSEKEEPING_MS: Final = 5_000
_CHANGE_SECONDS: Final = 30


class DelayedDelivery:
    """The delayed records of one broker. Everything runs on the event loop's thread."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        settings: CurrentSettings,
        clock: Clock,
        timer: Timer,
        timer_driver: TimerDriver,
        scheduler: Scheduler,
        slices: TimeSlices,
        background: BackgroundPool,
        wake: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`wake` asks for the end of a turn of the loop, which writes what was staged."""
        self._replica_manager = replica_manager
        self._settings = settings
        self._clock = clock
        self._timer = timer
        self._timer_driver = timer_driver
        self._scheduler = scheduler
        self._slices = slices
        self._background = background
        self._wake_loop = wake
        self._loop = loop
        self._followed: dict[tuple[str, int], _Followed] = {}
        self._is_closed = False
        self._writes = OwnedTasks()

    # --- partitions ---

    @property
    def has_partitions(self) -> bool:
        """Whether any partition may have delayed records."""
        return bool(self._followed)

    def opened(self, partition: Partition) -> None:
        """Follow a partition if its topic has the setting, or its log may have records that still wait.

        A checkpoint says so, which is there as long as the partition is followed and which was seen when the log was
        loaded. So do changes that its leader sent: a replica may have been down, or not have existed, while the setting
        was on.
        """
        log = partition.log
        if partition.key not in self._followed and (
            log.config.tidelog_delay_enable or log.has_changes or log.settled_before is not None
        ):
            self._follow(partition)

    def replaced(self, partition: Partition) -> None:
        """A partition has another log: what waited in the first waits in it."""
        is_followed = partition.key in self._followed
        self.closed(partition)
        if is_followed:
            self._follow(partition)

    def _follow(self, partition: Partition) -> None:
        if self._is_closed:
            return
        from tidelog.replication.delayed import DelayedPartition  # most brokers need it never

        try:
            delayed = DelayedPartition(partition)
        except OSError as error:
            raise partition.log.fail(error) from error
        self._followed[partition.key] = followed = _Followed(delayed)
        self._wake(followed)

    def closed(self, partition: Partition) -> None:
        """A partition is here no more, or has another log."""
        followed = self._followed.pop(partition.key, None)
        if followed is not None:
            followed.stop()

    def advanced(self, partitions: Sequence[Partition]) -> None:
        """Watermarks or roles of partitions changed."""
        for partition in partitions:
            followed = self._followed.get(partition.key)
            if followed is not None:
                self._wake(followed)

    def find(self, topic: str, index: int) -> DelayedPartition | None:
        """The waiting records of a partition; None if there can be none."""
        followed = self._followed.get((topic, index))
        return None if followed is None else followed.delayed

    # --- work ---

    def _wake(self, followed: _Followed) -> None:
        """Look at a partition soon, after the replies of this turn."""
        followed.is_woken = True
        if not followed.is_working and not followed.is_stopped:
            followed.is_working = True
            self._loop.call_soon(self._begin, followed)

    def _begin(self, followed: _Followed) -> None:
        self._slices.start(self._work(followed), lambda _: None, partial(self._work_failed, followed))

    async def _work(self, followed: _Followed) -> None:
        """Apply what is committed and append what is due, until neither is left to do."""
        delayed = followed.delayed
        while followed.is_woken and not followed.is_stopped:
            followed.is_woken = False
            while delayed.apply():
                await self._slices.pause()
                if followed.is_stopped:
                    return
            followed.release(self._error_of(delayed))
            if delayed.may_change and not followed.let_change() and not self._is_closed:
                self._deliver(followed)
            if delayed.is_checkpoint_due:
                self._checkpoint(followed)
            if delayed.index.is_merge_due:
                self._merge(followed)
        followed.is_working = False
        self._arm(followed)

    def _deliver(self, followed: _Followed) -> None:
        partition = followed.delayed.partition
        now_ms = self._clock.wall_ms()
        due_ms = followed.delayed.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return
        try:
            followed.delayed.deliver(now_ms)
        except ApiError as error:
            logger.warning("%s-%d: delayed records wait for another attempt: %s", *partition.key, error)
            followed.retry_ms = _RETRY_MS
            return
        self._staged(partition)

    def _staged(self, partition: Partition) -> None:
        """Records of a partition are to be written: the end of the turn does that, and moves the high watermark."""
        self._replica_manager.staged(partition)
        self._wake_loop()

    def _arm(self, followed: _Followed) -> None:
        """Set the timer to the next due time, on the leader."""
        followed.disarm()
        delayed = followed.delayed
        if followed.is_stopped or self._is_closed or not delayed.partition.is_leader:
            return
        delay_ms, followed.retry_ms = followed.retry_ms, None
        if delay_ms is None:
            due_ms = delayed.next_due_ms()
            if due_ms is None or not delayed.may_change:
                return  # the next watermark wakes this partition
            delay_ms = min(max(due_ms - self._clock.wall_ms(), 0), _FAR_MS)
        followed.timer = self._timer.call_at(self._clock.monotonic_ms() + delay_ms, partial(self._wake, followed))
        self._timer_driver.rearm()

    def _work_failed(self, followed: _Followed, cause: Exception) -> None:
        followed.is_working = False
        self._failed(followed, cause)

    def _failed(self, followed: _Followed, cause: Exception) -> None:
        """The log or its files could not be read or written."""
        partition = followed.delayed.partition
        if followed.is_stopped or partition.log.is_deleted:
            return
        if isinstance(cause, LogDirFailure):
            self._replica_manager.fail_log_dir(cause)
        elif isinstance(cause, OSError):
            self._replica_manager.fail_log_dir(partition.log.fail(cause))
        else:
            self._timer.report(partition.key, cause)

    @staticmethod
    def _error_of(delayed: DelayedPartition) -> ApiError | None:
        return None if delayed.partition.is_leader else delayed.partition.absence()

    # --- changes ---

    async def change(
        self,
        topic: str,
        index: int,
        choose: Callable[[DelayedPartition], list[bytes]],
        append: Callable[[DelayedPartition, list[bytes], int], None],
    ) -> list[bytes]:
        """Append a change of chosen entries when it is this partition's turn, and wait until it is committed.

        `choose` and `append` run at once, one after the other. Returns the entries. Raises ApiError.
        """
        followed = self._followed.get((topic, index))
        if followed is None:
            return []
        delayed = followed.delayed
        async with self._turn(followed):
            entries = choose(delayed)
            if not entries:
                return []
            append(delayed, entries, self._clock.wall_ms())
            end_offset = delayed.own_end
            self._staged(delayed.partition)
        try:
            await self._wait(followed.applied(end_offset), self._loop.time() + _CHANGE_SECONDS)
        except TimeoutError:
            raise ApiError(
                ErrorCode.REQUEST_TIMED_OUT, f"a change of {topic}-{index} was not committed in {_CHANGE_SECONDS} s"
            ) from None
        return entries

    async def _wait(self, future: asyncio.Future[None], deadline: float) -> None:
        """Wait for a future. Raises TimeoutError. A handler is not a task, which the timeouts of asyncio require."""
        timer = self._loop.call_at(deadline, _expire, future)
        try:
            await future
        finally:
            timer.cancel()

    @asynccontextmanager
    async def _turn(self, followed: _Followed) -> AsyncIterator[None]:
        """No delivery and no other change is under way meanwhile."""
        async with followed.lock:
            delayed = followed.delayed
            delayed.partition.check_appendable(-1)
            try:
                deadline = self._loop.time() + _CHANGE_SECONDS
                # Before this goes on, a delivery or another leader epoch may begin.
                while not delayed.may_change:
                    self._wake(followed)
                    await self._wait(followed.turn(), deadline)
                    delayed.partition.check_appendable(-1)
                yield
            except TimeoutError:
                raise ApiError(
                    ErrorCode.REQUEST_TIMED_OUT, f"the delayed records of {delayed.partition.log.name} are busy"
                ) from None
            finally:
                self._wake(followed)

    async def carry_before(self, topic: str, index: int, offset: int) -> None:
        """Copy the waiting records that lie before an offset of the log to its end. Raises ApiError."""
        delayed = self.find(topic, index)
        if delayed is None:
            return
        first = delayed.index.first_location
        if first is None or first >= offset:
            return
        for piece in delayed.before(offset):
            await self._slices.pause()
            for group in delayed.groups(piece):
                await self.change(topic, index, partial(_still_waiting, group), _carry)

    # --- files ---

    def start(self) -> None:
        """Begin with periodic work."""
        self._scheduler.schedule("delayed-records", self._keep_house, _HOUSEKEEPING_MS, _HOUSEKEEPING_MS)

    def _keep_house(self) -> None:
        now_ms = self._clock.wall_ms()
        for followed in list(self._followed.values()):
            delayed = followed.delayed
            if delayed.is_idle and not followed.is_writing:
                self.closed(delayed.partition)
                delayed.forget()
                continue
            if not delayed.is_checkpointed:
                self._checkpoint(followed)
            if delayed.partition.is_leader and not followed.is_carrying:
                self._make_room(followed, now_ms)

    def _make_room(self, followed: _Followed, now_ms: int) -> None:
        """Let the front of a log be deleted or compacted, where waiting records alone are in the way."""
        delayed = followed.delayed
        log = delayed.partition.log
        offset = log.retention_offset(now_ms)
        if log.config.is_compacted and self._settings.config.log_cleaner_enable:
            step = _next_step(delayed, followed.carried_end, now_ms)
            if step is None:
                followed.is_carrying = True
                self._spawn(followed, self._settle(followed))
                return
            offset = max(offset, step)
        first = delayed.index.first_location
        if first is not None and first < offset:
            followed.is_carrying = True
            self._spawn(followed, self._carry(followed, offset))

    async def _carry(self, followed: _Followed, offset: int) -> None:
        key = followed.delayed.partition.key
        try:
            await self.carry_before(*key, offset)
            followed.carried_end = followed.delayed.partition.log.log_end_offset
        except ApiError as error:
            logger.warning("%s-%d: waiting records stay in the log's front for now: %s", *key, error)
        finally:
            followed.is_carrying = False

    async def _settle(self, followed: _Followed) -> None:
        delayed = followed.delayed
        try:
            async with self._turn(followed):
                delayed.settle(self._clock.wall_ms())
                self._staged(delayed.partition)
        except ApiError as error:
            logger.warning("%s-%d cannot be compacted further for now: %s", *delayed.partition.key, error)
        finally:
            followed.is_carrying = False

    def _checkpoint(self, followed: _Followed) -> None:
        if not followed.is_writing:
            followed.is_writing = True
            self._spawn(followed, self._write(followed, followed.delayed.checkpoint()))

    async def _write(self, followed: _Followed, checkpoint: Checkpoint) -> None:
        try:
            await self._background.run(checkpoint.write)
            if not followed.is_stopped:
                followed.delayed.checkpoint_written(checkpoint)
        finally:
            followed.is_writing = False

    def _merge(self, followed: _Followed) -> None:
        from tidelog.storage.waiting.runs import merge_runs

        path, sources = followed.delayed.index.begin_merge()
        self._spawn(followed, self._run_merge(followed, path, partial(merge_runs, path, sources)))

    async def _run_merge(self, followed: _Followed, path: str, merge: Callable[[], int]) -> None:
        index = followed.delayed.index
        try:
            count = await self._background.run_alone(merge)
        except OSError:
            index.abandon_merge()
            raise
        if not followed.is_stopped:
            index.end_merge(path, count)

    def _spawn(self, followed: _Followed, work: Coroutine[Any, Any, None]) -> None:
        """Do something for a partition beside what is done in turns. What it raises is a failure of the partition."""

        def on_done(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception):
                self._failed(followed, error)

        self._writes.spawn(work).add_done_callback(on_done)

    async def close(self) -> None:
        """Deliver nothing more, and write a checkpoint of every partition."""
        self._is_closed = True
        for followed in self._followed.values():
            followed.disarm()
        await self._writes.wait()
        for followed in self._followed.values():
            if not followed.is_stopped:
                while followed.delayed.apply():
                    await self._slices.pause()
                await self._background.run(followed.delayed.checkpoint().write)


def _expire(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())


def _next_step(delayed: DelayedPartition, carried_end: int, now_ms: int) -> int | None:
    """What lets a compacted log be cleaned further: None for a floor, or the offset up to which to copy what waits.

    The cleaner comes first, then a floor, then copying. Copied records are dirty, too: only what was appended after the
    last copy makes the next one due, or they would be copied again and again.
    """
    from tidelog.storage.cleaner.planning import examine

    log = delayed.partition.log
    cleanable = examine(log, now_ms)
    if cleanable.is_due:
        return 0
    by_floor = examine(log, now_ms, settled_before=delayed.floor_due)
    if by_floor.is_due and by_floor.end_offset > cleanable.end_offset:
        return None
    by_copying = examine(log, now_ms, since=carried_end, settled_before=log.log_end_offset)
    return by_copying.end_offset if by_copying.is_due else 0


def _still_waiting(entries: list[bytes], waiting: DelayedPartition) -> list[bytes]:
    return waiting.still_waiting(entries)


def _carry(waiting: DelayedPartition, entries: list[bytes], now_ms: int) -> None:
    waiting.carry(entries, now_ms)


class _Followed:
    """A partition, its timer, and what waits for it."""

    __slots__ = (
        "_applied",
        "_turn",
        "carried_end",
        "delayed",
        "is_carrying",
        "is_stopped",
        "is_woken",
        "is_working",
        "is_writing",
        "lock",
        "retry_ms",
        "timer",
    )

    def __init__(self, delayed: DelayedPartition) -> None:
        self.delayed = delayed
        self.lock = asyncio.Lock()
        self.timer: TimerTask | None = None
        self.retry_ms: int | None = None
        self.carried_end = 0
        """The log end offset after waiting records were last copied out of the front."""
        self.is_woken = self.is_working = self.is_stopped = self.is_writing = self.is_carrying = False
        self._turn: asyncio.Future[None] | None = None
        self._applied: list[tuple[int, asyncio.Future[None]]] = []

    def turn(self) -> asyncio.Future[None]:
        """Done when no change is under way; none begins before the event loop's next turn."""
        self._turn = asyncio.get_running_loop().create_future()
        return self._turn

    def let_change(self) -> bool:
        """Let a change that waits begin; whether there is one."""
        turn, self._turn = self._turn, None
        if turn is None or turn.done():
            return False
        turn.set_result(None)
        return True

    def applied(self, end_offset: int) -> asyncio.Future[None]:
        """Done when the log is applied up to an offset."""
        future = asyncio.get_running_loop().create_future()
        self._applied.append((end_offset, future))
        return future

    def release(self, error: ApiError | None) -> None:
        """Complete what waits for the log, or fail it."""
        waiting, self._applied = self._applied, []
        for end_offset, future in waiting:
            if future.done():
                continue
            if self.delayed.applied_offset >= end_offset:
                future.set_result(None)
            elif error is not None:
                future.set_exception(error)
            else:
                self._applied.append((end_offset, future))
        if error is not None and self._turn is not None and not self._turn.done():
            self._turn.set_exception(error)
            self._turn = None

    def disarm(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def stop(self) -> None:
        """Do nothing any more."""
        self.is_stopped = True
        self.disarm()
        self.release(self.delayed.partition.absence())
