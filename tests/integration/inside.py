"""A broker in this process whose parts a test can see and tamper with; `tidelog.testing.Broker` shows only its face."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar

import uvloop

from tidelog.broker.server import Server
from tidelog.broker.serving.node import Node
from tidelog.config import load_broker_config
from tidelog.testing._settings import broker_properties

T = TypeVar("T")
_TIMEOUT_S = 30.0


class Inside:
    """Starts with `with`, on a thread and an event loop of its own."""

    def __init__(self, data_dir: object, config: Mapping[str, object] | None = None) -> None:
        self._server = Server(load_broker_config(broker_properties(config or {}, str(data_dir), None)))
        self._thread = threading.Thread(target=self._run, name="inside", daemon=True)
        self._started: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop
        self._stop_asked: asyncio.Event
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(_TIMEOUT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop_asked.set)
        self._thread.join(_TIMEOUT_S)
        assert not self._thread.is_alive(), "the broker did not stop"
        if self.failure is not None:
            raise self.failure

    @property
    def port(self) -> int:
        return self._server.address[1]

    @property
    def node(self) -> Node:
        """Its parts. Look, but touch only through `on_loop`."""
        return self._server.node

    def on_loop(self, function: Callable[[], T]) -> T:
        """Call `function` on the broker's own thread."""

        async def call() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(_TIMEOUT_S)

    def run(self, work: Callable[[], Coroutine[object, object, T]]) -> T:
        """Carry out `work` on the broker's own thread, to its end."""
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(_TIMEOUT_S)

    def task_count(self) -> int:
        """The tasks of its loop, this question's own not counted."""
        return self.on_loop(lambda: len(asyncio.all_tasks()) - 1)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self.failure = error
            if not self._started.done():
                self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop_asked = asyncio.Event()
        await self._server.start()
        self._started.set_result(None)
        await self._stop_asked.wait()
        await self._server.stop()
