"""The real clock. Passed to every core that needs the time; no package below this one reads a clock itself."""

from __future__ import annotations

import time


class SystemClock:
    """Wall time for records, monotonic time for deadlines, both in whole milliseconds."""

    __slots__ = ()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
