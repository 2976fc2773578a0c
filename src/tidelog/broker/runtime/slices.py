"""Long work on the event loop, a few milliseconds at a time, so that every other client is served in between.

A handler whose work grows with its request, or with what the broker holds, is an `async def` that awaits `pause()`
between two pieces of it (`Context.pause` for requests that only read). `pause` returns at once until the slice of this
turn of the loop is used up; then it waits for another slice. Slices are given out one a turn, in the order in which
they were asked for, however much long work there is. Cores that know nothing of asyncio are written as generators that
yield where they may be interrupted; `run` drives them.

Work starts at once, within the call of `start`, and what is short ends there: no task is made for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from time import monotonic
from types import coroutine
from typing import Any, Final, Protocol, TypeVar

from tidelog.tasks import OwnedTasks

SLICE_SECONDS: Final = 0.004
"""How long work may keep the loop to itself. A client waits for two slices at most: before it is read from, and before
it is answered."""

T = TypeVar("T")


class Meter(Protocol):
    """Measures for whom the loop works."""

    def current(self) -> Any:
        """For whom it works now; None if that is not measured."""

    def switch(self, owner: Any) -> None:
        """What follows is done for `owner`."""


class TimeSlices:
    """The slices of one loop and the work that is cut into them."""

    __slots__ = ("_ends_at", "_loop", "_tasks", "_waiting", "meter", "seconds")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: Callable[[], float] = monotonic) -> None:
        self._loop = loop
        self.seconds = seconds
        """The time by which slices are measured."""
        self.meter: Meter | None = None
        """Measures later slices as well, for whom the work was begun."""
        self._ends_at: float | None = None
        """When the slice of this turn is used up; None as long as no work has asked for one in this turn."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._tasks = OwnedTasks()

    def start(
        self,
        work: Coroutine[Any, Any, T],
        on_result: Callable[[T], None],
        on_error: Callable[[Exception], None],
    ) -> bool:
        """Begin work now; True when it is over, and `on_result` or `on_error` was called, before this returns."""
        try:
            waits_for = work.send(None)
        except StopIteration as stop:
            on_result(stop.value)
            return True
        except Exception as error:  # noqa: BLE001 - handed on to the owner of the work
            on_error(error)
            return True
        rest = _finish(_rest_of(work, waits_for), on_result, on_error)
        if self.meter is not None and (owner := self.meter.current()) is not None:
            rest = _measured(rest, self.meter, owner)
        self._tasks.spawn(rest)
        return False

    async def pause(self) -> None:
        """Let others be served if the slice is used up."""
        ends_at = self._ends_at
        if ends_at is None:
            if not self._waiting:
                self._begin_slice()
                return
        elif self.seconds() < ends_at:
            return
        next_slice = self._loop.create_future()
        self._waiting.append(next_slice)
        await next_slice
        if self._ends_at is None:  # it took the loop another turn to get here
            self._begin_slice()

    def use_up(self) -> None:
        """The work of a request before its first `pause`, say to decode it, took a slice: it goes on with the next."""
        if self._ends_at is None:
            self._begin_slice()
        self._ends_at = self.seconds()

    async def run(self, steps: Generator[None, None, T]) -> T:
        """Drive a generator that yields where it may be interrupted; returns what it returns."""
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                result: T = stop.value
                return result
            await self.pause()

    def _begin_slice(self) -> None:
        self._ends_at = self.seconds() + SLICE_SECONDS
        self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        """Every socket was looked at since the slice began: the longest waiting work gets the next one."""
        self._ends_at = None
        while self._waiting:
            next_slice = self._waiting.popleft()
            if not next_slice.done():  # its work may have been cancelled
                next_slice.set_result(None)
                self._begin_slice()
                return

    @property
    def unfinished(self) -> int:
        return len(self._tasks)

    async def drain(self) -> None:
        """Wait for all work under way; for shutdown."""
        await self._tasks.wait()


async def _finish(
    rest: Coroutine[Any, Any, T], on_result: Callable[[T], None], on_error: Callable[[Exception], None]
) -> None:
    try:
        result = await rest
    except Exception as error:  # noqa: BLE001 - handed on to the owner of the work
        on_error(error)
    else:
        on_result(result)


async def _measured(work: Coroutine[Any, Any, None], meter: Meter, owner: object) -> None:
    await _steps(work, meter, owner)


@coroutine
def _steps(work: Coroutine[Any, Any, None], meter: Meter, owner: object) -> Generator[Any, Any, None]:
    """Drive work, with every step of it measured."""
    error: BaseException | None = None
    while True:
        meter.switch(owner)
        try:
            waits_for = work.send(None) if error is None else work.throw(error)
        except StopIteration:
            return
        finally:
            meter.switch(None)
        error = None
        try:
            yield waits_for
        except BaseException as raised:  # noqa: BLE001 - thrown into the work
            error = raised


@coroutine
def _rest_of(work: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """Go on with work that was begun outside of a task and waits for something now."""
    try:
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001 - thrown into the work
                waits_for = work.throw(error)
            else:
                waits_for = work.send(sent)
    except StopIteration as stop:
        result: T = stop.value
        return result
