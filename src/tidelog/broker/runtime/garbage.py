"""When Python looks for garbage in cycles, so that a pass never holds the event loop for long.

A pass takes a quarter of a microsecond for each object that it looks at. Young objects are left to Python: the
thresholds keep those passes at two milliseconds or so. Old ones are not: a pass over all of them takes 100 ms in a
broker with ten thousand partitions, or while a large request is held as objects.

So the old generation is collected here and not by Python, while it is small: after a few passes over the middle one,
what is old is looked at once, and what is still in use is exempted from all later passes (`gc.freeze`). While long work
is under way nothing is looked at, as most of what is old belongs to it and goes with it.

What is exempted is freed as usual when its last reference goes. Only a cycle that becomes garbage after that would
stay, so requests, connections, logs and members of groups leave none behind.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Mapping
from typing import Final

_YOUNG_OBJECTS: Final = 2_000
"""Container objects made, less those freed, from one pass over the youngest to the next. Requests leave few."""
_YOUNG_PASSES: Final = 4
"""Passes over the youngest generation from one pass over the middle one to the next, which has 10,000 objects then."""
_NEVER: Final = 1 << 30
_MIDDLE_PASSES: Final = 2
"""Passes over the middle generation until the old one is collected, which has 20,000 objects at most then."""
_MIDDLE_GENERATION: Final = 1


class GarbageCollection:
    """Collects the old generation of this process while it is small."""

    def __init__(self, loop: asyncio.AbstractEventLoop, is_busy: Callable[[], bool]) -> None:
        """`is_busy` says whether long work is under way."""
        self._loop = loop
        self._is_busy = is_busy
        self._middle_passes = 0

    def start(self) -> None:
        """Exempt everything that was made until now, and take over."""
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_PASSES, _NEVER)
        gc.callbacks.append(self._on_pass)

    def stop(self) -> None:
        gc.callbacks.remove(self._on_pass)

    def _on_pass(self, phase: str, info: Mapping[str, int]) -> None:
        """Called by Python, on whatever thread made the object that was one too many."""
        if phase == "stop" and info["generation"] == _MIDDLE_GENERATION:
            self._middle_passes += 1
            if self._middle_passes == _MIDDLE_PASSES:
                self._loop.call_soon_threadsafe(self.collect)

    def collect(self) -> None:
        """Look at what is old, unless long work is under way, and exempt what is in use."""
        self._middle_passes = 0
        if not self._is_busy():
            gc.collect()
        gc.freeze()
