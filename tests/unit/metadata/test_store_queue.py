"""Calls of a store are queued, carried out in order on one thread, and awaited."""

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable

import pytest

from tidelog.metadata.errors import NodeExistsError, SessionExpiredError, StoreUnavailableError
from tidelog.metadata.store import EventKind, Store, WatchEvent
from tidelog.metadata.store_queue import StoreQueue
from tidelog.testing.memory_store import MemoryStore


def in_loop(claim: Callable[[StoreQueue, MemoryStore], Awaitable[None]]) -> None:
    async def run() -> None:
        store = MemoryStore()
        queue = StoreQueue(asyncio.get_running_loop(), store)
        try:
            await claim(queue, store)
        finally:
            await queue.close()

    asyncio.run(run())


def test_what_a_call_returns_or_raises_reaches_its_caller() -> None:
    async def claim(queue: StoreQueue, store: MemoryStore) -> None:
        assert await queue.run(lambda each: each.create("/a", b"data")) == "/a"
        with pytest.raises(NodeExistsError):
            await queue.run(lambda each: each.create("/a"))
        assert store.get("/a")[0] == b"data"

    in_loop(claim)


def test_the_loop_goes_on_while_a_call_waits_and_calls_keep_their_order() -> None:
    """Fails on 4724f6e, which called the store on the event loop."""

    async def claim(queue: StoreQueue, store: MemoryStore) -> None:
        gate = threading.Event()
        order: list[int] = []

        def slow(_store: Store) -> None:
            assert gate.wait(30)
            order.append(1)

        first = asyncio.ensure_future(queue.run(slow))
        second = asyncio.ensure_future(queue.run(lambda _store: order.append(2)))
        await asyncio.sleep(0)
        assert not order
        gate.set()
        await asyncio.gather(first, second)
        assert order == [1, 2]

    in_loop(claim)


def test_what_a_call_raises_after_its_caller_has_gone_is_not_logged() -> None:
    async def claim(queue: StoreQueue, _store: MemoryStore) -> None:
        logged: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: logged.append(context))
        gate = threading.Event()

        def fail(_store: Store) -> None:
            assert gate.wait(30)
            raise StoreUnavailableError("no answer")

        caller = asyncio.ensure_future(queue.run(fail))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        gate.set()
        await queue.run(lambda _store: None)
        del caller
        gc.collect()
        assert not logged

    in_loop(claim)


def test_watches_are_called_on_the_loop() -> None:
    async def claim(queue: StoreQueue, store: MemoryStore) -> None:
        called: asyncio.Future[threading.Thread] = asyncio.get_running_loop().create_future()

        def watcher(_event: WatchEvent) -> None:
            called.set_result(threading.current_thread())

        await queue.run(lambda each: each.children("/", queue.on_loop(watcher)))
        await queue.run(lambda each: each.create("/a"))
        assert await called is threading.current_thread()

    in_loop(claim)


def test_a_caller_that_gives_up_does_not_take_its_call_back() -> None:
    async def claim(queue: StoreQueue, store: MemoryStore) -> None:
        gate = threading.Event()
        before = asyncio.ensure_future(queue.run(lambda _store: gate.wait(30)))
        given_up = asyncio.ensure_future(queue.run(lambda each: each.create("/a")))
        await asyncio.sleep(0)
        given_up.cancel()
        gate.set()
        await before
        assert await queue.run(lambda each: each.exists("/a")) is not None

    in_loop(claim)


def test_it_is_known_whether_the_store_can_be_reached() -> None:
    async def claim(queue: StoreQueue, store: MemoryStore) -> None:
        assert queue.is_reachable
        store.suspend()
        assert not queue.is_reachable
        store.expire()
        store.resume()
        assert queue.is_reachable

    in_loop(claim)


def test_closing_carries_out_what_is_queued_and_refuses_what_comes_later() -> None:
    async def claim(queue: StoreQueue, store: MemoryStore) -> None:
        queued = asyncio.ensure_future(queue.run(lambda each: each.exists("/")))
        await asyncio.sleep(0)
        await queue.close()
        assert await queued is not None
        with pytest.raises(SessionExpiredError):
            await queue.run(lambda each: each.create("/a"))
        await queue.close()

    in_loop(claim)


def test_an_event_after_the_end_of_the_loop_is_dropped() -> None:
    """A broker without a log directory stops at once; the thread of its store may notify it a moment later."""
    loop = asyncio.new_event_loop()
    queue = StoreQueue(loop, MemoryStore())
    events: list[WatchEvent] = []
    watcher = queue.on_loop(events.append)
    loop.close()
    watcher(WatchEvent(EventKind.CHILDREN, "/a"))
    assert events == []
