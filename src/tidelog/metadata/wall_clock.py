"""The wall clock that stores stamp nodes with unless they are handed another."""

import time


def system_wall_ms() -> int:
    return time.time_ns() // 1_000_000
