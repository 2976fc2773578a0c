"""A rate that work is held to by sleeping: `log.cleaner.io.max.bytes.per.second`. Clock and sleep are handed in."""

from collections.abc import Callable
from typing import Final

_PERIOD_S: Final = 0.3


class Throttle:
    """Looks every 0.3 s at what was spent and sleeps off what was too much; what was saved up is not kept."""

    __slots__ = ("_bytes_per_second_max", "_clock", "_period_start", "_sleep", "_spent_bytes")

    def __init__(self, bytes_per_second_max: float, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._bytes_per_second_max = bytes_per_second_max
        self._clock = clock
        self._sleep = sleep
        self._period_start = clock()
        self._spent_bytes = 0

    def spend(self, size_bytes: int) -> None:
        """Account for I/O; returns when the next may be done."""
        self._spent_bytes += size_bytes
        elapsed = self._clock() - self._period_start
        earned_s = self._spent_bytes / self._bytes_per_second_max
        if elapsed < _PERIOD_S and earned_s < _PERIOD_S:
            return
        if earned_s > elapsed:
            self._sleep(earned_s - elapsed)
        self._period_start = self._clock()
        self._spent_bytes = 0
