"""An asyncio event loop in virtual time: one for each simulated process, all of them driven by one `World`.

A turn is asyncio's: sockets that are ready, timers that are due, then every callback that was ready when the turn
began. So code that relies on the order within a turn, as the broker's socket server does, runs unchanged. A turn takes
a little virtual time, which lets the turns of different processes interleave in ways that the seed decides. Functions
for threads run on this thread, each at a time of its own.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events as asyncio_events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import Context
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple, Unpack

from tidelog.metadata.errors import StoreUnavailableError
from tidelog.testing.simulation.world import Event, World

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TURN_SECONDS_MAX: Final = 0.0002
"""How long a turn of a process keeps it from the next one."""
_RETRY_SECONDS: Final = 0.02


class NoAnswerError(StoreUnavailableError):
    """A call to the metadata was carried out, and its answer did not come as long as the store waited for it."""


class Pollable(Protocol):
    """An end of a simulated connection, or a listener, under a number that stands for a descriptor."""

    def is_readable(self) -> bool: ...
    def is_writable(self) -> bool: ...


class SimulatedNetwork(Protocol):
    """What a loop needs of the network."""

    async def open_connection(
        self, loop: SimulatedLoop, protocol: asyncio.BaseProtocol, host: str, port: int
    ) -> asyncio.Transport: ...


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The loop of one process. `stop_for_good` is what kill -9 is to a process."""

    def __init__(self, world: World, name: str, network: SimulatedNetwork) -> None:
        self.world = world
        self.name = name
        self.is_dead = False
        self.failures: list[dict[str, Any]] = []
        """What reached the exception handler: in a simulation each of them is a defect."""
        self._network = network
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_sequence = 0
        self._turn: Event | None = None
        self._busy_until = 0.0
        self._is_paused = False
        self._stalled_seconds = 0.0
        self._readers: dict[int, tuple[Pollable, asyncio.Handle]] = {}
        self._writers: dict[int, tuple[Pollable, asyncio.Handle]] = {}
        self._pollables: dict[int, Pollable] = {}
        self._signalled: set[int] = set()
        """The numbers of sockets that may be ready. All others are not."""
        self._queues: dict[int, deque[Callable[[], bool]]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    # --- life ---

    def pause(self) -> None:
        """SIGSTOP: nothing runs until `resume`, and what happened meanwhile is found then."""
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self.wake()

    def stall(self, seconds: float) -> None:
        """What runs now takes so much longer."""
        self._stalled_seconds += seconds

    def stop_for_good(self) -> None:
        """Nothing of this process runs any more, not even the clean-up of its coroutines."""
        self.is_dead = True
        if self._turn is not None:
            self._turn.cancel()

    def bury(self) -> None:
        """Let go of everything that a dead process held. After the simulation: destructors run here."""
        self.is_dead = True
        self._ready.clear()
        self._timers.clear()
        self._queues.clear()
        before = asyncio_events._get_running_loop()
        asyncio_events._set_running_loop(self)
        try:
            for task in list(self._tasks):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(RuntimeError):  # it may wait for something on its way out, in vain
                    task.get_coro().close()
        finally:
            asyncio_events._set_running_loop(before)
        self._tasks.clear()

    def wake(self) -> None:
        """There is something to do: have a turn as soon as the last one is over."""
        self._turn_at(self.world.now)

    def _turn_at(self, when: float) -> None:
        if self.is_dead or self._is_paused:
            return
        when = max(when, self._busy_until)
        if self._turn is not None:
            if self._turn.when <= when and not self._turn.is_cancelled:
                return
            self._turn.cancel()
        self._turn = self.world.at(when, self._run_turn)

    def _run_turn(self) -> None:
        self._turn = None
        if self.is_dead or self._is_paused:
            return
        world, ready = self.world, self._ready
        self._busy_until = world.now + world.between(0, TURN_SECONDS_MAX)
        self._collect_ready()
        before, world.running_loop = world.running_loop, self
        asyncio_events._set_running_loop(self)
        world.running = world.ran = self.name
        try:
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
                if self.is_dead:
                    return
        finally:
            world.running = ""
            world.running_loop = before
            asyncio_events._set_running_loop(before)
        if self._stalled_seconds:
            self._busy_until += self._stalled_seconds
            self._stalled_seconds = 0.0
        self._schedule_next()

    def _collect_ready(self) -> None:
        if self._signalled:
            self._collect_sockets()
        timers = self._timers
        while timers and timers[0][0] <= self.world.now:
            timer = heapq.heappop(timers)[2]
            if not timer.cancelled():
                self._ready.append(timer)

    def _schedule_next(self) -> None:
        if self._ready or self._has_ready_socket():
            self.wake()
            return
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if timers:
            self._turn_at(timers[0][0])

    def _collect_sockets(self) -> None:
        """As a selector does: a socket is ready in every turn until it is read empty or its window is full."""
        numbers = sorted(self._signalled)
        for number in numbers:
            if (reader := self._readers.get(number)) is not None and reader[0].is_readable():
                self._ready.append(reader[1])
            elif (writer := self._writers.get(number)) is None or not writer[0].is_writable():
                self._signalled.discard(number)
        for number in numbers:
            if (writer := self._writers.get(number)) is not None and writer[0].is_writable():
                self._ready.append(writer[1])

    def _has_ready_socket(self) -> bool:
        for number in self._signalled:
            if (reader := self._readers.get(number)) is not None and reader[0].is_readable():
                return True
            if (writer := self._writers.get(number)) is not None and writer[0].is_writable():
                return True
        return False

    # --- callbacks ---

    def time(self) -> float:
        return self.world.now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        if self.world.running_loop is not self:
            self.wake()
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.world.now + max(delay, 0.0), callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timer_sequence += 1
        heapq.heappush(self._timers, (when, self._timer_sequence, timer))
        if self.world.running_loop is not self:
            self._turn_at(when)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing to do: a cancelled timer is skipped when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- threads ---

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function a little later; those of an executor with one thread in the order in which they came."""
        future: asyncio.Future[T] = asyncio.Future(loop=self)

        def work() -> bool:
            """False if it must be tried again."""
            if future.cancelled():
                return True
            try:
                result = func(*args)
            except NoAnswerError as error:
                future.set_exception(error)
            except StoreUnavailableError:
                return False  # a real store waits for its connection
            except Exception as error:  # noqa: BLE001 - raised again where the call is awaited
                future.set_exception(error)
            else:
                future.set_result(result)
            return True

        # One thread: one queue. Otherwise each function has a queue of its own.
        queue_id = id(executor) if getattr(executor, "_max_workers", 0) == 1 else None
        queue: deque[Callable[[], bool]] = deque() if queue_id is None else self._queues.setdefault(queue_id, deque())
        queue.append(work)
        if len(queue) == 1:
            self.world.after(self._work_seconds(), lambda: self._run_queue(queue))
        return future

    def _run_queue(self, queue: deque[Callable[[], bool]]) -> None:
        if self.is_dead:
            return
        is_done = False
        if not self._is_paused:
            self.world.running = self.world.ran = self.name
            try:
                is_done = queue[0]()
            finally:
                self.world.running = ""
        if is_done:
            queue.popleft()
        if queue:
            seconds = self._work_seconds() if is_done else _RETRY_SECONDS
            self.world.after(seconds, lambda: self._run_queue(queue))

    def _work_seconds(self) -> float:
        return self.world.between(0.00005, 0.002)

    # --- sockets ---

    def add_pollable(self, number: int, pollable: Pollable) -> None:
        """Make a listener or the end of a connection known under its number."""
        self._pollables[number] = pollable

    def signal(self, number: int) -> None:
        """A socket may have become ready: bytes have arrived, or there is room for more."""
        self._signalled.add(number)
        self.wake()

    def remove_pollable(self, number: int) -> None:
        self._signalled.discard(number)
        self._pollables.pop(number, None)
        self._readers.pop(number, None)
        self._writers.pop(number, None)

    def add_reader(self, fd: Any, callback: Callable[[Unpack[Ts]], Any], *args: *Ts) -> None:
        self._readers[fd] = (self._pollables[fd], asyncio.Handle(callback, args, self))
        self.signal(fd)

    def remove_reader(self, fd: Any) -> bool:
        return self._readers.pop(fd, None) is not None

    def add_writer(self, fd: Any, callback: Callable[[Unpack[Ts]], Any], *args: *Ts) -> None:
        self._writers[fd] = (self._pollables[fd], asyncio.Handle(callback, args, self))
        self.signal(fd)

    def remove_writer(self, fd: Any) -> bool:
        return self._writers.pop(fd, None) is not None

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **_options: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        protocol = protocol_factory()
        transport = await self._network.open_connection(self, protocol, host, port)
        return transport, protocol

    # --- the rest of what asyncio asks of a loop ---

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return asyncio_events._get_running_loop() is self

    def is_closed(self) -> bool:
        return self.is_dead

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.is_dead:
            self.failures.append(context)
            self.world.tell(self.name, f"DEFECT {context.get('message')}: {context.get('exception')!r}")

    default_exception_handler = call_exception_handler
