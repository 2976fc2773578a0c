"""Tasks that run at their deadlines: a hierarchy of timing wheels over one queue of buckets.

Adding and cancelling a task take constant time, unlike with a heap of tasks: nearly every delayed operation of a broker
is cancelled long before its deadline. The queue orders buckets, of which there are few.

The event loop drives it: `advance(now_ms)` runs due tasks, `next_expiry_ms()` returns when to call again, so that one
`call_later` serves every deadline of the broker. Used by `Purgatory`, `Scheduler` and the coordinators.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TypeAlias

from tidelog.timing.task import CallbackTask, TimerTask
from tidelog.timing.wheel import NOT_QUEUED, Bucket, TimingWheel

ErrorHandler: TypeAlias = Callable[[object, Exception], object]
"""Takes the object that failed, mostly a task, and the error."""


class Timer:
    """Runs tasks in the order of their deadlines, never before them; equal deadlines in no promised order.

    A task that raises does not stop the others: its error goes to `on_error`, or, when there is no such handler, is
    raised out of `advance` after everything due has run. Tasks may add and cancel tasks.
    """

    __slots__ = ("_due", "_queue", "_wheel", "on_error")

    def __init__(
        self, start_ms: int = 0, *, tick_ms: int = 1, wheel_size: int = 20, on_error: ErrorHandler | None = None
    ) -> None:
        self.on_error = on_error
        self._wheel = TimingWheel(tick_ms, wheel_size, start_ms)
        # (expiration, tick, bucket), a heap. Ticks differ from wheel to wheel and expirations within one, so that two
        # buckets themselves are never compared.
        self._queue: list[tuple[int, int, Bucket]] = []
        self._due: dict[TimerTask, int] = {}

    def __len__(self) -> int:
        return len(self._due) + sum(len(bucket.entries) for _, _, bucket in self._queue)

    def add(self, task: TimerTask, now_ms: int | None = None) -> bool:
        """Run `task` at its deadline. False when that has passed already; it then runs at the next `advance`.

        A task that is already in the timer moves to its current deadline. `now_ms`, if known, lets a timer that was not
        advanced for a while file a near deadline in a fine wheel; it changes nothing else.
        """
        if task._entries is not None:
            TimerTask.cancel(task)  # not the subclass's: moving a task does not end it
        wheel = self._wheel
        if now_ms is not None and now_ms > wheel.current_ms and not (self._queue and self._queue[0][0] <= now_ms):
            wheel.advance_clock(now_ms)
        tick_ms = wheel.tick_ms
        # Rounded up, because a coarse tick may delay a task but must not run it early.
        expiry_ms = task.deadline_ms if tick_ms == 1 else -(-task.deadline_ms // tick_ms) * tick_ms
        if expiry_ms <= wheel.current_ms:
            self._due[task] = expiry_ms
            task._entries = self._due
            return False
        self._place(task, expiry_ms)
        return True

    def call_at(self, deadline_ms: int, callback: Callable[[], object]) -> TimerTask:
        """Add a task that calls `callback` at `deadline_ms`, and return it."""
        task = CallbackTask(deadline_ms, callback)
        self.add(task)
        return task

    def report(self, failed: object, error: Exception) -> None:
        """Hand an error of `failed` to `on_error`; raise it when there is no such handler.

        For code that runs the continuations of several requests in turn: an error in one must not stop the others.
        """
        if self.on_error is None:
            raise error
        self.on_error(failed, error)

    def next_expiry_ms(self) -> int | None:
        """When `advance` has something to do next; None when nothing waits. Never later than the next deadline.

        It may be earlier, by a coarse wheel's tick: then `advance` moves tasks to a finer wheel and runs none.
        """
        if self._due:
            return self._wheel.current_ms
        queue = self._queue
        while queue:
            expiration_ms, _, bucket = queue[0]
            if bucket.entries:
                return expiration_ms
            heappop(queue)  # all its tasks were cancelled, so no wake-up is needed
            bucket.expiration_ms = NOT_QUEUED
        return None

    def advance(self, now_ms: int) -> int:
        """Run every task whose deadline is `now_ms` or earlier; return how many ran."""
        errors: list[Exception] = []
        ran = 0
        if self._due:
            # Swapped out first: tasks added meanwhile that are due at once wait for the next call, so that this ends.
            due, self._due = self._due, {}
            ran += self._run(due, errors)
        queue = self._queue
        while queue and queue[0][0] <= now_ms:
            expiration_ms, _, bucket = heappop(queue)
            self._wheel.advance_clock(expiration_ms)
            entries, bucket.entries = bucket.entries, {}
            bucket.expiration_ms = NOT_QUEUED
            if entries:
                ran += self._run(self._flush(entries, expiration_ms), errors)
        self._wheel.advance_clock(now_ms)
        if errors:
            raise ExceptionGroup("timer tasks failed", errors)
        return ran

    def _place(self, task: TimerTask, expiry_ms: int) -> None:
        """File a task that lies ahead in the finest wheel that covers its expiry."""
        wheel = self._wheel
        while expiry_ms >= wheel.current_ms + wheel.interval_ms:
            wheel = wheel.overflow or wheel.overflow_wheel()
        tick = expiry_ms // wheel.tick_ms
        bucket = wheel.buckets[tick % wheel.wheel_size]
        expiration_ms = tick * wheel.tick_ms
        if bucket.expiration_ms != expiration_ms:
            assert bucket.expiration_ms == NOT_QUEUED, "a bucket is used for a new round before the old one was emptied"
            bucket.expiration_ms = expiration_ms
            heappush(self._queue, (expiration_ms, wheel.tick_ms, bucket))
        bucket.entries[task] = expiry_ms
        task._entries = bucket.entries

    def _flush(self, entries: dict[TimerTask, int], now_ms: int) -> dict[TimerTask, int]:
        """Move the tasks that are not due yet down the wheels; return the due ones in order, still cancellable."""
        later = [(task, expiry_ms) for task, expiry_ms in entries.items() if expiry_ms > now_ms]
        for task, expiry_ms in later:
            del entries[task]
            self._place(task, expiry_ms)
        return entries

    def _run(self, due: dict[TimerTask, int], errors: list[Exception]) -> int:
        ran = 0
        for task in list(due):
            if task._entries is not due:
                continue  # cancelled or moved by a task that ran before it
            del due[task]
            task._entries = None
            ran += 1
            try:
                task.run()
            except Exception as error:  # noqa: BLE001 - reported, or raised with those of the other tasks
                if self.on_error is None:
                    errors.append(error)
                else:
                    self.on_error(task, error)
        return ran
