"""Where operations wait until an event completes them or their deadline passes.

An operation is watched under keys: a delayed fetch under its partitions, say. Code that changes the state behind a key
(the high watermark of a partition) calls `check_and_complete(key)`. The replica manager owns one purgatory for each
kind of operation; all share the broker's timer.

A completed operation is dropped from the list that found it complete. It stays in the lists of its other keys until
they are checked, or until so many entries are stale that all lists are swept. So completing an operation that watches a
thousand partitions costs nothing for the other 999.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

from tidelog.timing.task import TimerTask
from tidelog.timing.timer import Timer


class DelayedOperation(TimerTask):
    """An operation that waits for an event or its deadline: the base of delayed produce, fetch and delete-records.

    A subclass says when it can complete (`try_complete`) and what to do then (`on_complete`). An operation completes
    exactly once: by an event, by its deadline, or by a call of `force_complete`.

    `deadline_ms` is monotonic time. Subclasses declare `__slots__` and call `super().__init__(deadline_ms)`.
    """

    __slots__ = ("_purgatory", "_watch_count", "is_completed")

    def __init__(self, deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self.is_completed = False
        self._purgatory: Purgatory[Any] | None = None  # the one that holds it, while it waits
        self._watch_count = 0  # number of that purgatory's watch lists it is in

    @abstractmethod
    def try_complete(self) -> bool:
        """When the condition holds, return `self.force_complete()`; otherwise return False. Called again and again."""

    @abstractmethod
    def on_complete(self) -> None:
        """Send the response. Called once, also when the deadline passed."""

    def on_failure(self, error: Exception) -> None:
        """The operation raised `error` instead of completing, and will not be tried again. Must not wait."""
        raise error

    def on_expiration(self) -> None:
        """Called after `on_complete` when the deadline completed the operation; for metrics, mostly."""
        return

    def force_complete(self) -> bool:
        """Complete now, whatever the condition. Does nothing and returns False when it has completed before."""
        if self.is_completed:
            return False
        self._end_waiting()
        try:
            self.on_complete()
        except Exception as error:  # noqa: BLE001 - the operation answers its request with it
            self.on_failure(error)
        return True

    def fail(self, error: Exception) -> None:
        """`try_complete` raised: stop waiting, as it would raise at every event. Does nothing once completed."""
        if not self.is_completed:
            self._end_waiting()
            self.on_failure(error)

    def _end_waiting(self) -> None:
        self.is_completed = True
        if self._entries is not None:
            self.cancel()
        if self._purgatory is not None:
            self._purgatory.release(self)

    def run(self) -> None:
        """The deadline has passed."""
        if self.force_complete():
            self.on_expiration()


Operation = TypeVar("Operation", bound=DelayedOperation)


class Purgatory(Generic[Operation]):
    """Holds the waiting operations of one kind.

    Everything happens on one thread, and nothing here awaits. An operation may, while it is tried or completed, call
    back into this purgatory in any way: check the same key, complete other operations, add new ones.

    An operation that raises has failed: its `on_failure` is called, and it stops waiting. An error from `on_failure`
    goes to the timer's `on_error`, and the other operations of the key are still tried; without `on_error` it is raised
    at once.
    """

    __slots__ = ("_delayed", "_stale", "_timer", "_watchers", "name", "purge_interval", "watched_keys")

    def __init__(self, name: str, timer: Timer, purge_interval: int = 1000) -> None:
        self.name = name
        self.purge_interval = purge_interval
        self._timer = timer
        self._watchers: dict[Hashable, list[Operation]] = {}
        self.watched_keys = self._watchers.keys()
        """Keys under which operations may wait, to skip events of all other keys cheaply."""
        self._delayed = 0
        self._stale = 0

    @property
    def watched(self) -> int:
        """Entries in all watch lists: an operation counts once for each key, completed ones until they are dropped."""
        return sum(map(len, self._watchers.values()))

    @property
    def delayed(self) -> int:
        """Operations that still wait."""
        return self._delayed

    def try_complete_else_watch(
        self, operation: Operation, keys: Iterable[Hashable], now_ms: int | None = None
    ) -> bool:
        """Complete `operation` now if that is possible; otherwise let it wait under `keys`. True when it completed.

        Apache Kafka tries a second time once the operation is watched, because another thread may have changed
        something in between. Here nothing can happen in between.
        """
        if operation.try_complete() or operation.is_completed:
            return True
        self.watch(operation, keys, now_ms)
        return False

    def watch(self, operation: Operation, keys: Iterable[Hashable], now_ms: int | None = None) -> None:
        """Let an operation wait under `keys` that cannot complete now, as its owner knows."""
        assert operation._purgatory is None, f"{operation!r} waits already, in purgatory {operation._purgatory}"
        watchers = self._watchers
        for key in keys:
            operations = watchers.get(key)
            if operations is None:
                watchers[key] = [operation]
            else:
                operations.append(operation)
            operation._watch_count += 1
        operation._purgatory = self
        self._delayed += 1
        self._timer.add(operation, now_ms)
        if self._stale > self.purge_interval:
            self.purge()

    def check_and_complete(self, key: Hashable) -> int:
        """The state behind `key` changed: try its operations. Returns how many completed."""
        operations = self._watchers.get(key)
        if operations is None:
            return 0
        completed = 0
        # A copy, because completing an operation may add to the list or replace it. The list stays in place: an event
        # raised meanwhile must find the operations that were tried and did not complete.
        for operation in tuple(operations):
            if operation._purgatory is not self:
                continue
            try:
                if operation.try_complete():
                    completed += 1
            except Exception as error:  # noqa: BLE001 - it ends one operation, and the others go on
                self._fail(operation, error)
        self._drop_stale(key)
        return completed

    def _fail(self, operation: Operation, error: Exception) -> None:
        if operation.is_completed:
            self._timer.report(operation, error)
            return
        try:
            operation.fail(error)
        except Exception as failure:  # noqa: BLE001 - reported; the other operations go on
            self._timer.report(operation, failure)

    def purge(self) -> int:
        """Sweep all watch lists of operations that no longer wait; return how many entries were dropped."""
        return sum(self._drop_stale(key) for key in list(self._watchers))

    def release(self, operation: DelayedOperation) -> None:
        """`operation` no longer waits. For `DelayedOperation` alone; its watch entries are dropped later."""
        assert operation._purgatory is self, f"{operation!r} does not wait in purgatory {self.name}"
        operation._purgatory = None
        self._delayed -= 1
        if operation._watch_count:
            self._stale += 1

    def _drop_stale(self, key: Hashable) -> int:
        operations = self._watchers.get(key)
        if operations is None:
            return 0
        waiting = []
        for operation in operations:
            if operation._purgatory is self:
                waiting.append(operation)
                continue
            operation._watch_count -= 1
            if not operation._watch_count:
                self._stale -= 1
        if waiting:
            self._watchers[key] = waiting
        else:
            del self._watchers[key]
        return len(operations) - len(waiting)
