"""An event loop whose clock moves only when there is nothing left to do, and then jumps to the next timer.

What a coroutine does within one instant is complete before any time passes, however busy the machine is, and no test
waits for a timer.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop on a clock that starts at 1,000 s."""

    def __init__(self) -> None:
        self._now_s = 1000.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._now_s

    def jump(self, seconds: float) -> None:
        self._now_s += seconds


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready. Without a timer (`timeout` is None) only another thread can bring work, so wait for that."""
        ready = super().select(None if timeout is None else 0)
        if not ready and timeout is not None and timeout > 0:
            self._loop.jump(timeout)
        return ready


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """`asyncio.run` on a `VirtualTimeLoop`."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
