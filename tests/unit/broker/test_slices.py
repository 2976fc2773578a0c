"""Long work is cut into slices; between two of them everything else of the loop runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.broker.client_quotas import ClientQuotaManager
from tidelog.broker.runtime import slices as module
from tidelog.broker.runtime.slices import SLICE_SECONDS, TimeSlices
from tidelog.quotas import QuotaEntity
from tidelog.timing import ManualClock


class Time:
    """A clock that work advances itself: every step takes a millisecond."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def step(self) -> None:
        self.now += 0.001


STEPS_PER_SLICE = round(SLICE_SECONDS * 1000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    clock = Time()
    monkeypatch.setattr(module.TimeSlices.__init__, "__defaults__", (clock,))
    return clock


def in_loop(body: Callable[[TimeSlices], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(10):
            await body(TimeSlices(asyncio.get_running_loop()))

    asyncio.run(main())


class Outcome:
    """What became of work."""

    def __init__(self) -> None:
        self.results: list[object] = []
        self.errors: list[Exception] = []

    def start(self, slices: TimeSlices, work: Coroutine[Any, Any, object]) -> bool:
        return slices.start(work, self.results.append, self.errors.append)


def test_short_work_is_over_before_start_returns(clock: Time) -> None:
    async def body(slices: TimeSlices) -> None:
        async def work() -> str:
            for _ in range(STEPS_PER_SLICE - 1):
                clock.step()
                await slices.pause()
            return "done"

        outcome = Outcome()
        assert outcome.start(slices, work())
        assert outcome.results == ["done"]
        assert slices.unfinished == 0

    in_loop(body)


def test_a_turn_of_the_loop_holds_one_slice_however_much_work_there_is(clock: Time) -> None:
    """And each of three takes its turn."""

    async def body(slices: TimeSlices) -> None:
        ran: list[tuple[int, str]] = []
        turns = 0

        async def work(name: str) -> str:
            for _ in range(3 * STEPS_PER_SLICE):
                clock.step()
                ran.append((turns, name))
                await slices.pause()
            return name

        outcome = Outcome()
        assert [outcome.start(slices, work(name)) for name in "abc"] == [False] * 3
        while slices.unfinished:
            turns += 1
            await asyncio.sleep(0)
        assert sorted(outcome.results) == ["a", "b", "c"]  # type: ignore[type-var]
        for turn in range(1, turns + 1):
            names = [name for number, name in ran if number == turn]
            assert len(set(names)) <= 1
            assert len(names) <= STEPS_PER_SLICE + 1
        order = [name for _, name in ran[2 * STEPS_PER_SLICE :]]
        first_slices = [name for position, name in enumerate(order) if not position or order[position - 1] != name]
        assert set(first_slices[:3]) == {"a", "b", "c"}, "round robin"

    in_loop(body)


def test_a_step_that_is_longer_than_a_slice_does_not_get_another_in_the_same_turn(clock: Time) -> None:
    async def body(slices: TimeSlices) -> None:
        turns = 0
        seen: list[int] = []

        async def work() -> None:
            for _ in range(3):
                await slices.pause()
                clock.now += 1
                seen.append(turns)

        outcome = Outcome()
        outcome.start(slices, work())
        while slices.unfinished:
            turns += 1
            await asyncio.sleep(0)
        assert len(set(seen)) == 3

    in_loop(body)


@pytest.mark.parametrize("waits", [False, True])
def test_an_error_in_any_slice_is_the_outcome(clock: Time, waits: bool) -> None:
    async def body(slices: TimeSlices) -> None:
        async def work() -> None:
            if waits:
                await asyncio.sleep(0)
            raise ZeroDivisionError

        outcome = Outcome()
        assert outcome.start(slices, work()) is not waits
        await slices.drain()
        assert [type(error) for error in outcome.errors] == [ZeroDivisionError]

    in_loop(body)


def test_work_may_wait_for_a_thread_between_slices() -> None:
    async def body(slices: TimeSlices) -> None:
        async def work() -> list[int]:
            found = []
            for number in range(3):
                found.append(await asyncio.get_running_loop().run_in_executor(None, lambda: number))  # noqa: B023
                await slices.pause()
            return found

        outcome = Outcome()
        assert not outcome.start(slices, work())
        await slices.drain()
        assert outcome.results == [[0, 1, 2]]

    in_loop(body)


def test_work_that_is_cancelled_while_it_waits_holds_up_no_other(clock: Time) -> None:
    async def body(slices: TimeSlices) -> None:
        async def work(name: str) -> str:
            for _ in range(2 * STEPS_PER_SLICE):
                clock.step()
                await slices.pause()
            return name

        outcome = Outcome()
        for name in "abc":
            outcome.start(slices, work(name))
        (cancelled, *_) = slices._tasks
        cancelled.cancel()
        await slices.drain()
        assert len(outcome.results) == 2
        assert outcome.errors == []

    in_loop(body)


def test_a_generator_is_driven_to_its_result(clock: Time) -> None:
    async def body(slices: TimeSlices) -> None:
        def steps() -> Generator[None, None, str]:
            for _ in range(5 * STEPS_PER_SLICE):
                clock.step()
                yield
            return "done"

        outcome = Outcome()
        assert not outcome.start(slices, slices.run(steps()))
        await slices.drain()
        assert outcome.results == ["done"]

    in_loop(body)


def test_every_slice_is_measured_for_the_client_whose_work_it_is(clock: Time) -> None:
    """Request quotas count the whole of a long request, not only what was done when it came."""
    config: Any = SimpleNamespace(
        quota_window_num=11,
        quota_window_size_seconds=1,
        controller_quota_window_num=11,
        controller_quota_window_size_seconds=1,
    )

    async def body(slices: TimeSlices) -> None:
        nothing: Any = None
        manager = ClientQuotaManager(config, nothing, ManualClock(), nothing, slices, nothing, lambda _charge: None)
        counted: dict[object, float] = {}

        def count_time(connection: Any, seconds: float) -> None:
            counted[connection] = counted.get(connection, 0.0) + seconds

        manager.count_time = count_time  # type: ignore[method-assign]
        manager._request.set_limit(QuotaEntity("alice", None), 1.0)
        manager._hook()
        first: Any = "first"
        second: Any = "second"
        outcome = Outcome()

        async def work(steps: int) -> int:
            for _ in range(steps):
                clock.step()
                await slices.pause()
            return steps

        for connection, steps in ((first, 5 * STEPS_PER_SLICE), (second, 3 * STEPS_PER_SLICE)):
            manager.switch(connection)
            slices.start(work(steps), outcome.results.append, outcome.results.append)
        manager.end_turn()
        await slices.drain()
        assert set(outcome.results) == {3 * STEPS_PER_SLICE, 5 * STEPS_PER_SLICE}
        assert counted[first] == pytest.approx(5 * SLICE_SECONDS)
        assert counted[second] == pytest.approx(3 * SLICE_SECONDS)
        assert manager.current() is None

    in_loop(body)


def test_work_whose_request_took_a_slice_goes_on_in_a_later_turn(clock: Time) -> None:
    done: list[str] = []

    async def work(slices: TimeSlices) -> None:
        done.append("begun")
        await slices.pause()
        done.append("ended")

    async def body(slices: TimeSlices) -> None:
        slices.use_up()
        assert not Outcome().start(slices, work(slices))
        assert done == ["begun"]
        await slices.drain()
        assert done == ["begun", "ended"]
        await asyncio.sleep(0)
        assert Outcome().start(slices, work(slices)), "a later turn has its slice again"

    in_loop(body)
