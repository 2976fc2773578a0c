"""Runs to its end what the dispatcher runs in slices: generators of cores, coroutines of handlers."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
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


def served(work: Coroutine[Any, Any, T]) -> T:
    """What a handler returns that waits for nothing but pauses."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("the handler waits for something")
