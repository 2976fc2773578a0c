"""An event loop in a thread of its own: what the synchronous clients run their asyncio twins on.

uvloop is used where it is installed. The thread is a daemon, so a program that forgets to close a client still ends.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from tidelog.client.errors import ClientClosed, IllegalState

Result = TypeVar("Result")


class BackgroundLoop:
    """Runs coroutines for other threads."""

    def __init__(self, name: str) -> None:
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, for `call_soon_threadsafe` on hot paths."""
        return self._loop

    @property
    def is_alive(self) -> bool:
        """Whether it still takes work."""
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run `work` there and wait for it here. Interrupting the wait cancels the work."""
        if threading.current_thread() is self._thread:
            work.close()
            raise IllegalState("a blocking call was made from a callback; use the asyncio client, or another thread")
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        """Run `work` there; the future is its outcome."""
        if not self._thread.is_alive():
            work.close()
            raise ClientClosed("the client is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call `function` there, soon."""
        self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """End the loop and the thread. Nothing must be running any more."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            if threading.current_thread() is not self._thread:
                self._thread.join()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
