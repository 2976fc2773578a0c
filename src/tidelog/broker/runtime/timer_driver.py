"""Drives the broker's timer with one `call_later` of the event loop, whatever the number of deadlines."""

from __future__ import annotations

import asyncio

from tidelog.timing import Clock, Timer


class TimerDriver:
    """Arms the loop for the timer's next expiry. `rearm` is called at the end of every turn."""

    __slots__ = ("_armed_ms", "_clock", "_handle", "_loop", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, timer: Timer, clock: Clock) -> None:
        self._loop = loop
        self._timer = timer
        self._clock = clock
        self._handle: asyncio.TimerHandle | None = None
        self._armed_ms = 0

    def rearm(self) -> None:
        """Wake up in time for the earliest deadline.

        A wake-up that has become too early stays armed: it costs one look at the timer, which is cheaper than to cancel
        and arm again at every answered fetch.
        """
        next_ms = self._timer.next_expiry_ms()
        if next_ms is None:
            return
        if self._handle is not None:
            if next_ms >= self._armed_ms:
                return
            self._handle.cancel()
        self._armed_ms = next_ms
        delay_ms = max(0, next_ms - self._clock.monotonic_ms())
        self._handle = self._loop.call_later(delay_ms / 1000, self._on_time)

    def wake(self) -> None:
        """Look at the timer now: the clock was set forward."""
        self.stop()
        self._on_time()

    def _on_time(self) -> None:
        self._handle = None
        self._timer.advance(self._clock.monotonic_ms())
        self.rearm()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
