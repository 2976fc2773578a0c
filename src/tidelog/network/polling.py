"""Polls for the next request after a turn, instead of sleeping, while requests follow each other quickly.

A thread that sleeps until bytes arrive has to be woken by the system: an interrupt of its core and a switch, which take
10 to 45 µs on a virtual machine, and the client's `send` pays for part of it. A client that sends its next request when
it has the reply to the last one would wait for that each time.

Bounds: a poll ends `POLL_NS` after the last turn, and the loop sleeps then. A poll that found nothing doubles the
number of turns after which the loop sleeps at once, up to `SLEEPS_MAX`; each request that a poll finds halves it. So a
broker polls all the time where most requests come in time, and hardly ever where few do: a broker without requests
sleeps, and slow clients cost it a tenth of a microsecond a turn.

A pass of the event loop that finds nothing releases the interpreter's lock: other threads of the broker run meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

POLL_NS: Final = 100_000
"""How long the loop polls after a turn: longer than a wake-up, too short to be noticed."""

SLEEPS_MAX: Final = 1023
"""After so many turns it tries again, whatever has been."""


class AdaptivePolling:
    """Whether the event loop polls or sleeps after a turn. Owned by a `SocketServer`."""

    __slots__ = (
        "_call_soon",
        "_is_polling",
        "_is_turn_due",
        "_last_ns",
        "_now_ns",
        "_sleeps",
        "_sleeps_left",
        "_until_ns",
        "polled_ns",
    )

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        is_turn_due: Callable[[], bool],
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`is_turn_due` says whether requests have come since the last turn."""
        self._call_soon = call_soon
        self._is_turn_due = is_turn_due
        self._now_ns = now_ns
        self.polled_ns = 0
        """How long it polled in all: time that the loop is idle in, though it uses the processor."""
        self._is_polling = False
        self._last_ns = self._until_ns = 0
        # How many turns are followed by sleep after a poll that finds nothing, and how many of them are left.
        self._sleeps = 0
        self._sleeps_left = 0

    def on_turn_end(self) -> None:
        """Called when everything of a turn is done."""
        if self._is_polling:
            self._sleeps >>= 1
        elif self._sleeps_left:
            self._sleeps_left -= 1
            return
        else:
            self._is_polling = True
            self._call_soon(self._poll)
        self._last_ns = self._now_ns()
        self._until_ns = self._last_ns + POLL_NS

    def _poll(self) -> None:
        """With something to call soon, the event loop looks for events and does not wait for them."""
        now_ns = self._now_ns()
        if self._is_turn_due():
            self._call_soon(self._poll)  # behind the end of that turn
            return
        self.polled_ns += now_ns - self._last_ns
        self._last_ns = now_ns
        if now_ns < self._until_ns:
            self._call_soon(self._poll)
        else:
            self._is_polling = False
            self._sleeps_left = self._sleeps = min(2 * self._sleeps + 1, SLEEPS_MAX)
