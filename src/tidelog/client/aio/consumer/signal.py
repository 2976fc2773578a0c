"""The signal that calls of a consumer wait for: a change, an error, or `wakeup`."""

import asyncio
from typing import Any

from tidelog.client.aio.consumer.errors import Woken
from tidelog.client.errors import ClientError


class Signal:
    """Set by whatever changes, waited on by the one caller that a consumer serves."""

    __slots__ = ("_error", "_is_set", "_is_woken", "_loop", "_waiter")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._is_set = False
        self._is_woken = False
        self._error: ClientError | None = None

    def notify(self) -> None:
        """Something has changed: the waiting call checks again."""
        self._is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def wake(self) -> None:
        """End the call that waits, or the next one that would."""
        self._is_woken = True
        self.notify()

    def fail(self, error: ClientError) -> None:
        """End the call that waits, or the next one that would, with `error`."""
        self._error = error
        self.notify()

    def recover(self) -> None:
        """What `fail` was called with is over."""
        self._error = None

    def raise_if_ended(self) -> None:
        """Raise Woken once per `wake`, and the error of `fail` once."""
        if self._is_woken:
            self._is_woken = False
            raise Woken
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    async def wait(self, until_ms: int) -> None:
        """Return when something has changed since the last wait, or at `until_ms` of the loop's time.

        Raises Woken, or the error of `fail`.
        """
        self.raise_if_ended()
        if not self._is_set:
            self._waiter = waiter = self._loop.create_future()
            # Whole milliseconds are rounded down: at `until_ms` exactly, the caller's clock may still be before it.
            handle = self._loop.call_at((until_ms + 1) / 1000, _settle, waiter)
            try:
                await waiter
            finally:
                handle.cancel()
                self._waiter = None
        self._is_set = False
        self.raise_if_ended()

    async def settle(self, task: "asyncio.Future[Any]", until_ms: int) -> bool:
        """Whether `task` ended by `until_ms`; raises as `wait` does. The task goes on if it did not end."""
        if not task.done():
            task.add_done_callback(lambda _: self.notify())
        while not task.done():
            if self._loop.time() * 1000 >= until_ms:
                return False
            await self.wait(until_ms)
        return True


def _settle(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
