"""Connects the thread that calls a synchronous consumer with the loop that serves it.

Work runs in the loop and the calling thread waits. While it waits, it runs the application's listeners and callbacks
for the loop: they run in the thread of the application, may block, and may call the consumer again.
"""

import asyncio
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import Any, TypeVar

from tidelog.client.aio.background import BackgroundLoop
from tidelog.client.errors import ClientClosed

Result = TypeVar("Result")
_Inbox = SimpleQueue["Callable[[], None] | asyncio.Task[Any]"]
"""Functions to run, and finally the finished work itself."""


class CallerThread:
    """The calling side of one consumer; one thread at a time."""

    def __init__(self, background: BackgroundLoop) -> None:
        self._background = background
        self._inbox: _Inbox | None = None
        """Where the innermost call that waits looks for functions to run."""

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run `work` in the loop and wait for its result, running callbacks for it. Interrupting cancels the work."""
        # Only a queue stands between the threads: it has no lock of Python's that a signal's handler, when it raises,
        # could leave locked.
        inbox: _Inbox = SimpleQueue()
        outer, self._inbox = self._inbox, inbox
        call = _Call(self._background.loop, work, inbox)
        try:
            self._background.check_alive()
            self._background.call_soon(call.start)
            while not isinstance(received := inbox.get(), asyncio.Task):
                received()
        except BaseException:
            call.abandon()
            raise
        finally:
            self._inbox = outer
        if received.cancelled():
            raise ClientClosed("the client was closed during the call")
        result: Result = received.result()
        return result

    def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a plain function in the loop, where all state lives, and wait."""

        async def work() -> Result:
            return function(*arguments)

        return self.run(work())

    async def invoke(self, function: Callable[..., object], *arguments: object) -> None:
        """Called in the loop: run a function of the application in the calling thread, and wait for it."""
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[None] = loop.create_future()

        def serve() -> None:
            error: Exception | None = None
            try:
                function(*arguments)
            except Exception as raised:  # noqa: BLE001 - raised where the callback is awaited
                error = raised
            loop.call_soon_threadsafe(_settle, reply, error)

        assert self._inbox is not None, "no call is waiting that could run this callback"
        self._inbox.put(serve)
        await reply


class _Call:
    """Work that a thread waits for."""

    __slots__ = ("_inbox", "_loop", "_task", "_work")

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], inbox: _Inbox) -> None:
        self._loop = loop
        self._work = work
        self._inbox = inbox
        self._task: asyncio.Task[Any] | None = None

    def start(self) -> None:
        """Called in the loop."""
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._inbox.put)

    def abandon(self) -> None:
        """Called in the thread, which waits no longer."""
        if self._loop.is_closed():
            self._work.close()
        else:
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is None:
            self._work.close()
        else:
            self._task.cancel()


def _settle(reply: "asyncio.Future[None]", error: Exception | None) -> None:
    if reply.done():
        return
    if error is None:
        reply.set_result(None)
    else:
        reply.set_exception(error)
