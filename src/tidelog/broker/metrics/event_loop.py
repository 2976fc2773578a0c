"""How the event loop fares: how late it is, how busy, and what kept it.

A timer on the loop beats every 25 ms; how late it is, is the loop's lag. A thread looks whether it beats: if it is more
than 50 ms late, the innermost function of this package that the loop's thread is in names the stall. The thread wakes
up twenty times a second and costs a thousandth of a processor.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from threading import Event, Thread, get_ident
from time import monotonic, thread_time
from types import FrameType
from typing import TYPE_CHECKING, Final

from tidelog.broker.metrics._shapes import Timer, counter, counters, gauge
from tidelog.metrics import Distribution, Family, labels_text

if TYPE_CHECKING:
    from tidelog.broker.requests.request_meter import RequestMeter

_BEAT_SECONDS: Final = 0.025
STALL_SECONDS: Final = 0.05
_PACKAGE: Final = "tidelog."
_PLACES_MAX: Final = 100
"""Places that are shown by name; stalls elsewhere are shown as those of `other`."""
_IDLE_WINDOW_SECONDS: Final = 60.0
_UNKNOWN: Final = "unknown"


class LoopMonitor:
    """Watches the event loop that it is started on."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, meter: RequestMeter, polled_seconds: Callable[[], float]
    ) -> None:
        """`polled_seconds` says for how long the loop has polled for requests: that counts as idle."""
        self._loop = loop
        self._meter = meter
        self._polled_seconds = polled_seconds
        self.lag = Distribution()
        """In microseconds."""
        self._lag_timer = Timer(self.lag, 1e-6)
        self._turn_timer = Timer(meter.turns, 1e-6)
        self._expected = 0.0
        self._place = _UNKNOWN
        self._stalls: dict[str, tuple[int, float]] = {}
        self._handle: asyncio.TimerHandle | None = None
        self._stop = Event()
        self._loop_thread = 0
        self._idle_notes: list[tuple[float, float]] = []

    def start(self) -> None:
        """Begin; called on the loop."""
        self._loop_thread = get_ident()
        self._idle_notes = [(monotonic(), self._busy_seconds())]
        self._expected = monotonic() + _BEAT_SECONDS
        self._handle = self._loop.call_later(_BEAT_SECONDS, self._beat)
        Thread(target=self._watch, name="tidelog-loop-monitor", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()
        if self._handle is not None:
            self._handle.cancel()

    def _beat(self) -> None:
        now = monotonic()
        late = now - self._expected
        self.lag.record(int(late * 1e6))
        if late > STALL_SECONDS:
            self._note_stall(late)
        self._place = _UNKNOWN
        self._expected = now + _BEAT_SECONDS
        self._handle = self._loop.call_later(_BEAT_SECONDS, self._beat)

    def _note_stall(self, seconds: float) -> None:
        place = self._place
        if place not in self._stalls and len(self._stalls) >= _PLACES_MAX:
            place = "other"
        count, total = self._stalls.get(place, (0, 0.0))
        self._stalls[place] = count + 1, total + seconds

    def _watch(self) -> None:
        """On a thread of its own: find out where the loop is, when it does not beat."""
        while not self._stop.wait(STALL_SECONDS):
            if self._place == _UNKNOWN and monotonic() - self._expected > STALL_SECONDS:
                frame = sys._current_frames().get(self._loop_thread)
                self._place = _place_of(frame)

    def idle_share(self) -> float:
        """The share of the last minute or so in which the loop's thread had nothing to do. Called on the loop."""
        now, used = monotonic(), self._busy_seconds()
        notes = self._idle_notes
        while len(notes) > 1 and notes[1][0] < now - _IDLE_WINDOW_SECONDS:
            notes.pop(0)
        began, used_before = notes[0]
        if now - notes[-1][0] > _IDLE_WINDOW_SECONDS / 4:
            notes.append((now, used))
        elapsed = now - began
        return 1.0 if elapsed <= 0 else min(max(1 - (used - used_before) / elapsed, 0.0), 1.0)

    def _busy_seconds(self) -> float:
        return thread_time() - self._polled_seconds()

    def families(self) -> Iterator[Family]:
        yield from self._lag_timer.families("tidelog_eventloop_lag_seconds", "How late timers of the event loop are.")
        yield from self._turn_timer.families(
            "tidelog_eventloop_turn_seconds", "Time of turns in which requests came, of some of them."
        )
        yield counter("tidelog_eventloop_cpu_seconds", "Processor time of the event loop's thread.", thread_time())
        yield counter(
            "tidelog_eventloop_polled_seconds",
            "Time of it that went into polling for requests.",
            self._polled_seconds(),
        )
        yield gauge("tidelog_eventloop_tasks", "Tasks of the event loop.", len(asyncio.all_tasks(self._loop)))
        stalls = sorted(self._stalls.items())
        yield counters(
            "tidelog_eventloop_stalls",
            f"Times that the event loop was more than {STALL_SECONDS * 1000:.0f} ms late, by what it was in.",
            [(labels_text(("place",), (place,)), count) for place, (count, _) in stalls],
        )
        yield counters(
            "tidelog_eventloop_stalled_seconds",
            "How late it was.",
            [(labels_text(("place",), (place,)), seconds) for place, (_, seconds) in stalls],
        )


def _place_of(frame: FrameType | None) -> str:
    """The innermost function of this package, or the innermost of all."""
    if frame is None:
        return _UNKNOWN
    innermost, here = frame, frame
    while here.f_back is not None and not _module(here).startswith(_PACKAGE):
        here = here.f_back
    found = here if _module(here).startswith(_PACKAGE) else innermost
    return f"{_module(found)}.{found.f_code.co_qualname}"


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
