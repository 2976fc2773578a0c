"""A store off the event loop: calls are queued, run one after the other on a thread, and awaited.

A change of the tree is a sync to disk or a round trip to a quorum; no producer waits for either. A call is a function
of the store, so that what belongs together (look, decide, write) is one entry of the queue, uninterrupted:

    await queue.run(write_topic, plan)

Functions that run here touch the store and their arguments, which must not change meanwhile, and nothing else of the
broker. `on_loop` is for watches: the store calls them on whichever thread it likes.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, Concatenate, ParamSpec, TypeVar

from tidelog.metadata.errors import SessionExpiredError
from tidelog.metadata.store import SessionState, Store, Watcher, WatchEvent
from tidelog.metrics import Distribution

P = ParamSpec("P")
T = TypeVar("T")


def call_on_loop(loop: asyncio.AbstractEventLoop, function: Callable[[T], object], argument: T) -> None:
    """Call a function on the loop, from any thread. Nothing happens once the loop is closed.

    A broker whose last log directory failed stops at once, and its store may live a moment longer.
    """
    try:
        loop.call_soon_threadsafe(function, argument)
    except RuntimeError:
        if not loop.is_closed():
            raise


class StoreQueue:
    """The only user of `store` from now on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, store: Store) -> None:
        self._loop = loop
        self._store = store
        self._is_reachable = True
        self.state = SessionState.CONNECTED
        """The state of the session, as far as is known."""
        self.state_changes: Counter[SessionState] = Counter()
        """How often the session entered each state."""
        self.times = Distribution()
        """How long calls took from when they were queued, in microseconds."""
        store.add_session_listener(self._on_state)
        self._executor: ThreadPoolExecutor | None = ThreadPoolExecutor(1, thread_name_prefix="tidelog-metadata")

    async def run(self, function: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function(store, …)` in its turn; what it returns or raises.

        A caller that is cancelled does not take its call back: that it was carried out can no longer be prevented.
        """
        if self._executor is None:
            raise SessionExpiredError("the metadata store is closed")
        began = monotonic()
        call = self._loop.run_in_executor(self._executor, lambda: function(self._store, *args, **kwargs))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            call.add_done_callback(_ignore_error)
            raise
        finally:
            self.times.record(int((monotonic() - began) * 1e6))

    def on_loop(self, watcher: Watcher) -> Watcher:
        """The watcher, to be called on the event loop whatever thread the store calls it on."""

        def hand_over(event: WatchEvent) -> None:
            call_on_loop(self._loop, watcher, event)

        return hand_over

    @property
    def is_reachable(self) -> bool:
        """Whether the store has a connection, as far as is known; calls wait for one otherwise."""
        return self._is_reachable

    def _on_state(self, state: SessionState) -> None:
        self._is_reachable = state is SessionState.CONNECTED
        self.state = state
        self.state_changes[state] += 1

    def look_after(self) -> None:
        """Replace what keeps the session if that does not work any more, whatever call waits for it."""
        self._store.look_after()

    def limit_waits(self, seconds: float) -> None:
        """Let calls, also the one under way, wait no longer than this for a connection: a shutdown has begun."""
        self._store.limit_waits(seconds)

    async def close(self) -> None:
        """Carry out what is queued, then end the session. Closing twice does nothing."""
        executor, self._executor = self._executor, None
        if executor is not None:
            call = self._loop.run_in_executor(executor, self._store.close)
            try:
                await call
            finally:
                # Once the store is closed, its thread only has to end. A close that was cancelled may still run.
                executor.shutdown(wait=not call.cancelled())


def _ignore_error(call: asyncio.Future[Any]) -> None:
    """Retrieve what a call has raised, since its caller does not: asyncio logs exceptions that are not retrieved."""
    if not call.cancelled():
        call.exception()
