"""Looking at very many logs without holding up the loop: a few milliseconds at a time. `LogCleaner` is the caller."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tidelog.storage.cleaner.selection import Candidate
from tidelog.storage.log import Log
from tidelog.timing import Clock, Scheduler

_SLICE_MS: Final = 3
_PAUSE_MS: Final = 2

Visit = Callable[[Log], Candidate | None]
Found = Callable[[list[Candidate]], None]


class Scan:
    """One scan at a time: every log is visited, then whoever asked is told what was found."""

    __slots__ = ("_clock", "_scheduler", "is_under_way")

    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self.is_under_way = False

    def begin(self, logs: Iterable[Log], visit: Visit, found: Found) -> None:
        """Visit `logs`; ones that are not done in a slice of time are visited in the next."""
        assert not self.is_under_way, "one scan at a time"
        self.is_under_way = True
        self._go_on(iter(logs), visit, found, [])

    def _go_on(self, logs: Iterator[Log], visit: Visit, found: Found, candidates: list[Candidate]) -> None:
        deadline_ms = self._clock.monotonic_ms() + _SLICE_MS
        for log in logs:
            candidate = visit(log)
            if candidate is not None:
                candidates.append(candidate)
            if self._clock.monotonic_ms() >= deadline_ms:
                self._scheduler.schedule("log-cleaner", lambda: self._go_on(logs, visit, found, candidates), _PAUSE_MS)
                return
        self.is_under_way = False
        found(candidates)
