"""One wheel of the hierarchical timing wheel, and its buckets.

A wheel of `wheel_size` buckets covers `interval_ms = tick_ms * wheel_size` milliseconds from its current time. What
lies further ahead belongs to its overflow wheel, whose tick is this wheel's whole interval. With a tick of 1 ms and
four buckets, at time 0:

    wheel 1, tick 1    bucket i holds what expires at i               covers   0 .. 3
    wheel 2, tick 4    bucket i holds what expires in [4i, 4i + 4)    covers   4 .. 15
    wheel 3, tick 16   …                                              covers  16 .. 63

A task for time 9 goes into bucket 2 of wheel 2, which expires at 8. Then the clock says 8, wheel 1 covers 8 .. 11, and
the task moves down into its bucket 1; that bucket expires at 9 and the task runs.

A bucket never holds two rounds at once: a wheel accepts only expiries in (current, current + interval), `wheel_size`
ticks that differ modulo `wheel_size`, and the clock does not pass a bucket that has not been emptied.

`Timer` is the only caller; it owns the queue of buckets that all wheels share.
"""

from __future__ import annotations

from typing import Final

from tidelog.timing.task import TimerTask

NOT_QUEUED: Final = -1


class Bucket:
    """The tasks of one tick, each with its expiry. `expiration_ms` is `NOT_QUEUED` unless the timer's queue has it."""

    __slots__ = ("entries", "expiration_ms")

    def __init__(self) -> None:
        self.entries: dict[TimerTask, int] = {}
        self.expiration_ms = NOT_QUEUED


class TimingWheel:
    """The buckets of one tick size, the time they are counted from, and the way up to the next wheel."""

    __slots__ = ("buckets", "current_ms", "interval_ms", "overflow", "tick_ms", "wheel_size")

    def __init__(self, tick_ms: int, wheel_size: int, start_ms: int) -> None:
        if tick_ms < 1 or wheel_size < 2:
            raise ValueError(f"a wheel needs a tick of at least 1 ms and two buckets, got {tick_ms} and {wheel_size}")
        self.tick_ms = tick_ms
        self.wheel_size = wheel_size
        self.interval_ms = tick_ms * wheel_size
        self.current_ms = start_ms - start_ms % tick_ms
        self.buckets = [Bucket() for _ in range(wheel_size)]
        self.overflow: TimingWheel | None = None

    def overflow_wheel(self) -> TimingWheel:
        """The wheel above, made when the first far expiry needs it."""
        if self.overflow is None:
            self.overflow = TimingWheel(self.interval_ms, self.wheel_size, self.current_ms)
        return self.overflow

    def advance_clock(self, now_ms: int) -> None:
        """Move this wheel and those above to `now_ms`; every bucket due by then must have been emptied."""
        wheel: TimingWheel | None = self
        while wheel is not None and now_ms >= wheel.current_ms + wheel.tick_ms:
            wheel.current_ms = now_ms - now_ms % wheel.tick_ms
            wheel = wheel.overflow
