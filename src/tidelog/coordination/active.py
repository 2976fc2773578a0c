"""An active shard with its timers and the replies that wait for a commit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from tidelog.coordination.decision import Decision, Respond, SetTimer, TimerChange, TimerKey
from tidelog.records.bulk import BulkRecord
from tidelog.records.header import HEADER_BYTES
from tidelog.timing import TimerTask
from tidelog.wire.errors import ErrorCode

ShardT = TypeVar("ShardT")


class Pending:
    """Records that are not committed yet, and the replies that wait for them."""

    __slots__ = ("answers", "is_replayed", "outcome", "then")

    def __init__(self, then: Callable[[ErrorCode, int], Decision[Any]] | None) -> None:
        self.answers: list[tuple[Respond, Any]] = []
        self.then = then
        self.outcome: ErrorCode | None = None
        self.is_replayed = False


class OpenBatch(Pending):
    """The batch that decisions of one turn share, until the turn ends or it is full, and the replies to them."""

    __slots__ = ("bytes_left", "records")

    def __init__(self, bytes_max: int) -> None:
        self.answers = []
        self.then = None
        self.outcome = None
        self.is_replayed = True
        self.records: list[BulkRecord] = []
        self.bytes_left = bytes_max - HEADER_BYTES


class TimerOwner(Protocol):
    """The runtime, as timers see it."""

    def on_timer(self, active: ActiveShard[Any], key: TimerKey) -> None: ...

    def set_timer(self, active: ActiveShard[Any], key: TimerKey, delay_ms: int) -> None: ...


class ShardTimer(TimerTask):
    """One timer of a shard; it is kept and moved while its key is in use."""

    __slots__ = ("_active", "_key", "_owner")

    def __init__(self, active: ActiveShard[Any], key: TimerKey, owner: TimerOwner) -> None:
        super().__init__(0)
        self._active = active
        self._key = key
        self._owner = owner

    def run(self) -> None:
        del self._active.timers[self._key]
        self._owner.on_timer(self._active, self._key)


class ActiveShard(Generic[ShardT]):
    """A loaded shard that serves requests."""

    __slots__ = ("is_closed", "is_uncertain", "open_batch", "partition", "pending", "shard", "timers")

    def __init__(self, partition: int, shard: ShardT) -> None:
        self.partition = partition
        self.shard = shard
        self.pending: deque[Pending] = deque()
        self.timers: dict[TimerKey, ShardTimer] = {}
        self.is_closed = False
        self.is_uncertain = False
        """Whether the state has records that were not committed in time, and may be lost with this broker."""
        self.open_batch: OpenBatch | None = None
        """Records that were replayed and not appended yet: the last of `pending`."""

    def change_timers(self, changes: tuple[TimerChange, ...], owner: TimerOwner) -> None:
        for change in changes:
            if type(change) is SetTimer:
                owner.set_timer(self, change.key, change.delay_ms)
            else:
                task = self.timers.pop(change.key, None)
                if task is not None:
                    task.cancel()

    def timer_task(self, key: TimerKey, deadline_ms: int, owner: TimerOwner) -> ShardTimer:
        task = self.timers.get(key)
        if task is None:
            task = self.timers[key] = ShardTimer(self, key, owner)
        task.deadline_ms = deadline_ms
        return task

    def close(self) -> list[Respond]:
        """Cancel the timers. Returns the callbacks that waited for a commit."""
        self.is_closed = True
        self.open_batch = None
        for task in self.timers.values():
            task.cancel()
        self.timers.clear()
        waiting = [respond for pending in self.pending for respond, _ in pending.answers]
        self.pending.clear()
        return waiting
