"""Virtual time and the one source of chance: everything that happens in a simulation is an event here.

Events run one at a time, in the order of their times; two of the same time run in the order in which they were
scheduled. Time passes only between events, so that an hour without events takes no time at all. The same seed and the
same program give the same events in the same order.
"""

from __future__ import annotations

import heapq
import random
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from typing import Final

STORY_LINES: Final = 400
"""How many of the last lines of the story are kept."""


class Event:
    """Something that is going to happen, unless it is cancelled."""

    __slots__ = ("action", "is_cancelled", "when")

    def __init__(self, when: float, action: Callable[[], object]) -> None:
        self.when = when
        self.action = action
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class World:
    """The events of one simulation, its time in seconds, its random numbers and its story."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now = 0.0
        self.running = ""
        """The name of the process whose code runs now; empty between them."""
        self.running_loop: AbstractEventLoop | None = None
        """The event loop that has a turn now. asyncio knows it, too, but asks the kernel for the process each time."""
        self.events_run = 0
        self.ran = ""
        """The process that ran in this event; empty if none did."""
        self.after_event: Callable[[str], None] | None = None
        """Called after every event with the process that ran: invariants are checked here."""
        self._events: list[tuple[float, int, Event]] = []
        self._sequence = 0
        self._story: deque[tuple[float, str, str]] = deque(maxlen=STORY_LINES)

    # --- events ---

    def at(self, when: float, action: Callable[[], object]) -> Event:
        """Let something happen at a time, or as soon as possible if that has passed."""
        if when < self.now:
            when = self.now
        self._sequence += 1
        event = Event(when, action)
        heapq.heappush(self._events, (when, self._sequence, event))
        return event

    def after(self, seconds: float, action: Callable[[], object]) -> Event:
        return self.at(self.now + seconds, action)

    def step(self) -> bool:
        """Run the next event; False if there is none."""
        events = self._events
        while events:
            when, _, event = heapq.heappop(events)
            if event.is_cancelled:
                continue
            self.now = when
            self.events_run += 1
            self.ran = ""
            event.action()
            if self.after_event is not None and self.ran:
                self.after_event(self.ran)
            return True
        return False

    def run_until(self, is_done: Callable[[], bool], seconds_max: float) -> bool:
        """Run events until something holds; False if it does not within `seconds_max` of virtual time."""
        ends_at = self.now + seconds_max
        while not is_done():
            if not self._events or self._events[0][0] > ends_at:
                self.now = ends_at
                return is_done()
            self.step()
        return True

    def run_for(self, seconds: float) -> None:
        self.run_until(lambda: False, seconds)

    # --- chance ---

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def between(self, least: float, most: float) -> float:
        return least + (most - least) * self.random.random()

    # --- the story ---

    def tell(self, subject: str, what: str) -> None:
        """Add a line to the story that a failing seed is explained with."""
        self._story.append((self.now, subject, what))

    def story(self, lines: int = STORY_LINES) -> list[str]:
        """The last lines, with their times."""
        last = list(self._story)[-lines:]
        return [f"{when:10.3f} s  {subject:<12} {what}" for when, subject, what in last]
