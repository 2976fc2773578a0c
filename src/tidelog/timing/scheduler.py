"""Named tasks that run once or again and again: retention, flush and checkpoint rounds, idle connections, ….

A layer over `Timer`; it owns no thread. A task runs on the event loop and must not block; it hands blocking work to the
pool of background threads.
"""

from collections.abc import Callable

from tidelog.timing.clock import Clock
from tidelog.timing.task import TimerTask
from tidelog.timing.timer import Timer


class ScheduledTask(TimerTask):
    """The handle of a scheduled task. `cancel()` ends it, also from within the task itself."""

    __slots__ = ("_function", "_scheduler", "name", "period_ms")

    def __init__(
        self,
        scheduler: "Scheduler",
        name: str,
        function: Callable[[], object],
        deadline_ms: int,
        period_ms: int | None,
    ) -> None:
        super().__init__(deadline_ms)
        self.name = name
        self.period_ms = period_ms
        self._function = function
        self._scheduler = scheduler

    def __repr__(self) -> str:
        return f"<ScheduledTask {self.name!r} at {self.deadline_ms} ms, period {self.period_ms}>"

    def run(self) -> None:
        # Rearmed before the call, so that a task that raises comes round again and one that cancels itself does not.
        self._scheduler.rearm(self)
        self._function()

    def cancel(self) -> bool:
        self._scheduler.forget(self)
        return super().cancel()


class Scheduler:
    """Schedules functions by name. Their errors go to the timer's `on_error`."""

    __slots__ = ("_clock", "_tasks", "_timer")

    def __init__(self, timer: Timer, clock: Clock) -> None:
        self._timer = timer
        self._clock = clock
        self._tasks: dict[ScheduledTask, None] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def schedule(
        self, name: str, function: Callable[[], object], delay_ms: int = 0, period_ms: int | None = None
    ) -> ScheduledTask:
        """Call `function` in `delay_ms`, and from then on every `period_ms` if that is given.

        The rate is fixed: a late run does not push back the next one. Runs that were missed altogether, because the
        loop was busy or the machine asleep, are skipped rather than made up for.
        """
        if period_ms is not None and period_ms < 1:
            raise ValueError(f"task {name!r} needs a period of at least 1 ms, got {period_ms}")
        now_ms = self._clock.monotonic_ms()
        task = ScheduledTask(self, name, function, now_ms + max(delay_ms, 0), period_ms)
        self._tasks[task] = None
        self._timer.add(task, now_ms)
        return task

    def tasks(self) -> list[ScheduledTask]:
        """The scheduled tasks, oldest first."""
        return list(self._tasks)

    def cancel_all(self) -> None:
        """End every task; for shutdown."""
        for task in list(self._tasks):
            task.cancel()

    def rearm(self, task: ScheduledTask) -> None:
        """`task` is about to run: arrange its next run, if it is periodic. For `ScheduledTask` alone."""
        if task.period_ms is None:
            self.forget(task)
            return
        now_ms = self._clock.monotonic_ms()
        missed = max(0, now_ms - task.deadline_ms) // task.period_ms
        task.deadline_ms += (missed + 1) * task.period_ms
        self._timer.add(task, now_ms)

    def forget(self, task: ScheduledTask) -> None:
        """`task` will not run again. For `ScheduledTask` alone."""
        self._tasks.pop(task, None)
