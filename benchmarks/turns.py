"""Turns: brokers that are held against each other are measured alternately, half a second each.

The speed of a machine changes within seconds. Two stretches of three seconds, one after the other, gave ratios that
differ by ±20 % from round to round; the same three seconds in alternate turns of half a second differ by ±8 %.

Each broker's case runs in a thread of its own, and one of the threads runs at a time: whoever has the turn passes it
on in `Bench.measure` and when its case ends.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Self

TURN_SECONDS = 0.5


class Turns:
    """Which of several threads runs; the first of `names` begins."""

    def __init__(self, names: Sequence[str]) -> None:
        self._waiting = list(names)
        self._changed = threading.Condition()

    def begin(self, name: str) -> None:
        """Wait for the turn of `name`."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting[0] == name)

    def pass_on(self, name: str) -> None:
        """Let the others run in their order, and return when it is the turn of `name` again."""
        with self._changed:
            self._waiting.remove(name)
            self._waiting.append(name)
            self._changed.notify_all()
        self.begin(name)

    def leave(self, name: str) -> None:
        """`name` takes no more turns."""
        with self._changed:
            self._waiting.remove(name)
            self._changed.notify_all()


class OwnTurn:
    """The turns of one thread: it waits for the first one on entry, and takes none after the block."""

    def __init__(self, turns: Turns, name: str) -> None:
        self._turns = turns
        self._name = name

    def pass_on(self) -> None:
        self._turns.pass_on(self._name)

    def __enter__(self) -> Self:
        self._turns.begin(self._name)
        return self

    def __exit__(self, *_error: object) -> None:
        self._turns.leave(self._name)


def turn_lengths(seconds: float) -> list[float]:
    """`seconds` in equal turns of about half a second, one at least."""
    count = max(1, round(seconds / TURN_SECONDS))
    return [seconds / count] * count
