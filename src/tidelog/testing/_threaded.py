"""A broker inside this process: its own thread, its own event loop."""

import asyncio
import dataclasses
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future

from tidelog.broker.server import Server, new_event_loop
from tidelog.broker.surroundings import Surroundings, SystemClock
from tidelog.config import load_broker_config
from tidelog.testing.runner import BrokerFailed


class TravelClock:
    """The machine's clocks, set forward by as much as a test has asked for."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self.forward_ms = 0

    def wall_ms(self) -> int:
        return self._clock.wall_ms() + self.forward_ms

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms() + self.forward_ms


class ThreadRunner:
    """Runs a `Server` in a thread. The thread is a daemon, so that a test that forgets it can still end."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_asked: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._started: Future[tuple[str, int]] = Future()
        self._ended: Future[None] = Future()
        self._clock = TravelClock()
        self._server: Server | None = None

    @property
    def pid(self) -> int:
        """This process."""
        return os.getpid()

    def start(self, properties: Mapping[str, str]) -> tuple[str, int]:
        """Start the thread and wait until the server serves."""
        config = load_broker_config(properties)
        surroundings = dataclasses.replace(Surroundings.of_this_machine(config), clock=self._clock)
        self._server = Server(config, surroundings)
        self._thread = threading.Thread(target=self._run, args=(self._server,), name="tidelog-broker", daemon=True)
        self._thread.start()
        try:
            return self._started.result(self._timeout_s)
        except TimeoutError:
            raise BrokerFailed(f"the broker was not ready within {self._timeout_s} s") from None

    def stop(self) -> None:
        """Ask the loop to stop the server, and wait for it."""
        assert self._thread is not None, "the thread was not started"
        assert self._loop is not None, "the loop was not started"
        assert self._stop_asked is not None, "the loop was not started"
        self._loop.call_soon_threadsafe(self._stop_asked.set)
        self._thread.join(self._timeout_s)
        if self._thread.is_alive():
            raise BrokerFailed(f"the broker did not stop within {self._timeout_s} s")
        self._ended.result()

    def kill(self) -> None:
        """Not offered: a thread cannot be killed."""
        raise RuntimeError("an in-process broker cannot be killed")

    def travel(self, forward_ms: int) -> None:
        """Set the clocks forward, and let the timer see it."""
        assert self._loop is not None, "the loop was started"
        assert self._server is not None, "the server was made"
        moved: Future[None] = Future()

        def move(server: Server) -> None:
            self._clock.forward_ms += forward_ms
            server.node.timer_driver.wake()
            moved.set_result(None)

        self._loop.call_soon_threadsafe(move, self._server)
        moved.result(self._timeout_s)

    def signal(self, number: int) -> None:
        """Not offered: the signal would reach the test, too."""
        raise RuntimeError(f"an in-process broker cannot be sent signal {number}")

    def logs(self) -> str:
        """Nothing: it logs through `logging`, where the test can see it."""
        return ""

    def _run(self, server: Server) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve(server))
        except BaseException as error:  # noqa: BLE001 - raised again where the server was started
            if not self._started.done():
                self._started.set_exception(error)
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _serve(self, server: Server) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop_asked = asyncio.Event()
        await server.start()
        self._started.set_result(server.address)
        await self._stop_asked.wait()
        await server.stop()
