"""Between the thread that calls a synchronous consumer and the loop that serves it.

Work goes to the loop and the calling thread waits. While it waits it does what the loop asks of it: the application's
listeners and callbacks run where the application called, may take their time, and may call the consumer again.
"""

import asyncio
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import Any, TypeVar

from tidelog.client.aio.background import BackgroundLoop

Result = TypeVar("Result")
_Inbox = SimpleQueue[Callable[[], None] | None]


class CallerThread:
    """The calling side of one consumer; one thread at a time."""

    def __init__(self, background: BackgroundLoop) -> None:
        self._background = background
        self._inbox: _Inbox | None = None
        """Where the innermost call that waits looks for functions to run."""

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run `work` in the loop and wait for its outcome, running what it asks for. Interrupting cancels the work."""
        inbox: _Inbox = SimpleQueue()
        outer, self._inbox = self._inbox, inbox
        try:
            future = self._background.submit(work)
            future.add_done_callback(lambda _: inbox.put(None))
            try:
                while (serve := inbox.get()) is not None:
                    serve()
            except BaseException:
                future.cancel()
                raise
            return future.result()
        finally:
            self._inbox = outer

    def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a plain function in the loop, where all state lives, and wait."""

        async def work() -> Result:
            return function(*arguments)

        return self.run(work())

    async def invoke(self, function: Callable[..., object], *arguments: object) -> None:
        """Called in the loop: have the calling thread run a function of the application's, and wait for it."""
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[None] = loop.create_future()

        def serve() -> None:
            error: Exception | None = None
            try:
                function(*arguments)
            except Exception as raised:
                error = raised
            loop.call_soon_threadsafe(_settle, reply, error)

        assert self._inbox is not None, "nobody is calling who could run this"
        self._inbox.put(serve)
        await reply


def _settle(reply: "asyncio.Future[None]", error: Exception | None) -> None:
    if reply.done():
        return
    if error is None:
        reply.set_result(None)
    else:
        reply.set_exception(error)
