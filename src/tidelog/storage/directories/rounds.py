"""Rounds over all logs of a broker, a few milliseconds at a time.

Ten thousand logs take longer than one turn of the event loop may: a round visits them in slices, with pauses.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tidelog.storage.log import Log
from tidelog.timing import Clock, Scheduler

_SLICE_MS: Final = 3
_PAUSE_MS: Final = 2


class Rounds:
    """Rounds by name. At most one of each name runs at a time."""

    __slots__ = ("_clock", "_scheduler", "_under_way")

    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._under_way: set[str] = set()

    def is_under_way(self, name: str) -> bool:
        """Whether a round of that name is running."""
        return name in self._under_way

    def begin(
        self, name: str, logs: Iterable[Log], visit: Callable[[Log], None], done: Callable[[], None] | None = None
    ) -> None:
        """Visit `logs`, then call `done`. `visit` must not raise. Skipped if a round of that name is still running."""
        if name not in self._under_way:
            self._under_way.add(name)
            self._go_on(name, iter(logs), visit, done)

    def _go_on(
        self, name: str, logs: Iterator[Log], visit: Callable[[Log], None], done: Callable[[], None] | None
    ) -> None:
        deadline_ms = self._clock.monotonic_ms() + _SLICE_MS
        for log in logs:
            visit(log)
            if self._clock.monotonic_ms() >= deadline_ms:
                self._scheduler.schedule(name, lambda: self._go_on(name, logs, visit, done), _PAUSE_MS)
                return
        self._under_way.discard(name)
        if done is not None:
            done()
