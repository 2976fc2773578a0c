"""An event loop in a thread of its own: what the synchronous clients run their asyncio twins on.

uvloop is used where it is installed. The thread is a daemon, so a program that forgets to close a client still ends. A
client that is garbage collected without being closed closes its connections and ends its thread. A client that was
created before a fork raises an error in the child, which does not have its thread.

Every wait for the end of the thread has a deadline. A callback of the application's that blocks the loop keeps the
thread from ending; closing the client then returns all the same, and a warning says which thread was left.
"""

import asyncio
import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeVar

from tidelog.client.errors import ClientClosed, IllegalState

Result = TypeVar("Result")
_LOG: Final = logging.getLogger("tidelog.client")

FORKED: Final = "this client was created before a fork, in another process; create one in each process"

_running: "weakref.WeakSet[BackgroundLoop]" = weakref.WeakSet()
_EXIT_WAIT_S: Final = 1.0
_END_WAIT_S: Final = 5.0
"""How long dropping connections may take, and then the thread's end."""


class BackgroundLoop:
    """Runs coroutines for other threads."""

    def __init__(self, name: str) -> None:
        self._loop = _new_loop()
        self._process_id = os.getpid()
        self._drop: Callable[[], Coroutine[Any, Any, object]] | None = None
        self._has_ended = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()
        _running.add(self)

    def end_with(self, owner: object, drop: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run `drop`, and end, when `owner` is garbage collected; neither may refer to it."""
        self._drop = drop
        weakref.finalize(owner, self.abandon).atexit = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, for `call_soon_threadsafe` on hot paths."""
        return self._loop

    @property
    def is_alive(self) -> bool:
        """Whether it still takes work."""
        # Thread.is_alive is not asked: interrupted by a signal, it takes the thread for ended for ever after.
        return not self._has_ended and self._process_id == os.getpid()

    def run(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
        """Run `work` there and wait for it here. Interrupting the wait, or its timeout, cancels the work."""
        if threading.current_thread() is self._thread:
            work.close()
            raise IllegalState(
                "a blocking call from a callback is not possible; use the asyncio client, or another thread"
            )
        future = self.submit(work)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def run_first(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run the start of a client; end if it fails."""
        try:
            return self.run(work)
        except BaseException:
            self.close()
            raise

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a plain function there, where all state lives, and wait."""

        async def work() -> Result:
            return function()

        return self.run(work())

    def submit(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        """Run `work` there; the future is its outcome."""
        try:
            self.check_alive()
        except ClientClosed:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def check_alive(self) -> None:
        """Raise ClientClosed unless it still takes work."""
        if not self.is_alive:
            raise ClientClosed("the client is closed" if self._process_id == os.getpid() else FORKED)

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call `function` there, soon."""
        self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """End the loop and the thread. What was left running, because its end was interrupted, ends now."""
        if self.is_alive:
            self._loop.call_soon_threadsafe(self._begin_end)
            if threading.current_thread() is not self._thread:
                self._thread.join(2 * _END_WAIT_S)
                if not self._has_ended:
                    _LOG.warning(
                        "client thread %s did not end within %.0f s and is abandoned: a callback blocks it",
                        self._thread.name,
                        2 * _END_WAIT_S,
                    )

    def run_last(self, work: Coroutine[Any, Any, object], timeout_s: float) -> None:
        """Run the `close` of a client, which takes `timeout_s` at most, and end. A blocked loop is not waited for."""
        try:
            self.run(work, timeout_s + _END_WAIT_S)
        except TimeoutError:
            _LOG.warning("client thread %s does not respond: a callback blocks it", self._thread.name)
        finally:
            self.close()

    def abandon(self) -> None:
        """End soon, whatever is under way; `drop` comes first. The garbage collector calls this, in any thread."""
        if self.is_alive:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._begin_end)

    def wait_ended(self, timeout_s: float) -> None:
        """Wait for the thread to end."""
        self._thread.join(timeout_s)

    def _begin_end(self) -> None:
        self._ending = self._loop.create_task(self._end())

    async def _end(self) -> None:
        try:
            if self._drop is not None:
                async with asyncio.timeout(_END_WAIT_S):
                    await self._drop()
        except TimeoutError:
            _LOG.warning("connections of client thread %s were not closed in time", self._thread.name)
        finally:
            self._loop.stop()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._has_ended = True
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


@atexit.register
def _end_all() -> None:
    """A thread that is still in its loop when the interpreter goes away may complain of what it finds missing."""
    left = [loop for loop in _running if loop.is_alive]
    for loop in left:
        loop.abandon()
    for loop in left:
        loop.wait_ended(_EXIT_WAIT_S)
