"""Runs to its end what the dispatcher runs in slices: generators of cores, coroutines of handlers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def done(steps: Generator[None, None, T]) -> T:
    """What the steps come to."""
    return counted(steps)[0]


def counted(steps: Generator[None, None, T]) -> tuple[T, int]:
    """What the steps come to, and how often they paused."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value, pauses
        pauses += 1


class Pauses:
    """Stands for the slices of a broker and counts how often work could have been interrupted."""

    def __init__(self) -> None:
        self.count = 0

    async def pause(self) -> None:
        self.count += 1


class Stretches(Pauses):
    """The same, and how many lines of Python ran from one pause to the next at most, inside of `counting`."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0
        self._lines = 0

    async def pause(self) -> None:
        await super().pause()
        self._end_stretch()

    @contextmanager
    def counting(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)
            self._end_stretch()

    def _end_stretch(self) -> None:
        self.longest = max(self.longest, self._lines)
        self._lines = 0

    def _trace(self, _frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        self._lines += event == "line"
        return self._trace


def served(work: Coroutine[Any, Any, T]) -> T:
    """What a handler returns that waits for nothing but pauses."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("the handler waits for something")
