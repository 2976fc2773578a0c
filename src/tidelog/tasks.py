"""Tasks with an owner. asyncio itself holds a task by a weak reference, and a task that outlives its owner is a leak.

Whatever begins tasks beside what it does has one `OwnedTasks`, and at its end waits for them or cancels them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class OwnedTasks:
    """The tasks of one owner that have not ended. Lives in one event loop."""

    __slots__ = ("_on_end", "_tasks")

    def __init__(self, on_end: Callable[[], None] | None = None) -> None:
        """`on_end` is called at the end of each of them."""
        self._on_end = on_end
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` beside the caller. It handles its own errors: one that is never read is only logged."""
        return self.adopt(asyncio.get_running_loop().create_task(work))

    def adopt(self, task: asyncio.Task[T]) -> asyncio.Task[T]:
        """Own a task that was begun elsewhere."""
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if self._on_end is not None:
            self._on_end()

    def cancel(self) -> None:
        """Cancel those that run now; they end soon."""
        for task in list(self._tasks):
            task.cancel()

    async def wait(self) -> None:
        """Return when those that run now have ended, however they do."""
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
