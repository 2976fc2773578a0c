"""What a `Timer` runs: a task knows its deadline and where it waits, so that cancelling it need not search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable


class TimerTask(ABC):
    """A task to run at `deadline_ms` (monotonic). Tasks are compared by identity: never define `__eq__`."""

    __slots__ = ("_entries", "deadline_ms")

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        # The collection that holds this task while it waits, so that cancelling need not search.
        self._entries: dict[TimerTask, int] | None = None

    @abstractmethod
    def run(self) -> None:
        """Called once, by `Timer.advance`, at the deadline or as soon after it as the timer is advanced."""

    def cancel(self) -> bool:
        """Take the task out of its timer. False when it was in none: it has run, or was never added."""
        entries = self._entries
        if entries is None:
            return False
        del entries[self]
        self._entries = None
        return True

    @property
    def is_pending(self) -> bool:
        """Whether the task is in a timer and has not run."""
        return self._entries is not None


class CallbackTask(TimerTask):
    """A task that calls a function."""

    __slots__ = ("_callback",)

    def __init__(self, deadline_ms: int, callback: Callable[[], object]) -> None:
        super().__init__(deadline_ms)
        self._callback = callback

    def run(self) -> None:
        self._callback()
