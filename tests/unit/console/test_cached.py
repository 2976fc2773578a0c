"""One request at a time, however many callers; older values while a newer one is loaded."""

import asyncio

import pytest

from tests.unit.virtual_time import run
from tidelog.console.cached import Cached


class Source:
    """Numbers its answers; each takes a second, or less."""

    def __init__(self, takes_s: float = 1.0) -> None:
        self.asked = 0
        self.takes_s = takes_s
        self.error: Exception | None = None

    async def load(self) -> int:
        self.asked += 1
        await asyncio.sleep(self.takes_s)
        if self.error is not None:
            raise self.error
        return self.asked


def test_callers_share_one_request():
    async def scenario():
        source = Source()
        cached = Cached(source.load, refresh_s=5, age_s_max=15)
        assert await asyncio.gather(*[cached.get() for _ in range(10)]) == [1] * 10
        await asyncio.sleep(3)
        assert await cached.get() == 1
        assert source.asked == 1

    run(scenario())


def test_an_older_value_is_returned_while_a_newer_one_is_loaded_and_none_that_is_too_old():
    async def scenario():
        source = Source(0.02)
        cached = Cached(source.load, refresh_s=5, age_s_max=15)
        await cached.get()
        await asyncio.sleep(6)
        assert await cached.get() == 1
        await asyncio.sleep(2)
        assert await cached.get() == 2
        await asyncio.sleep(20)
        assert await cached.get() == 3

    run(scenario())


def test_who_misses_something_gets_a_newer_value_but_no_newer_one_for_each_miss():
    async def scenario():
        source = Source(0.02)
        cached = Cached(source.load, refresh_s=5, age_s_max=15)
        await cached.get()
        await asyncio.sleep(3)
        assert await cached.get() == 1
        assert await asyncio.gather(*[cached.newer(2) for _ in range(10)]) == [2] * 10
        await asyncio.sleep(1)
        assert await cached.newer(2) == 2

    run(scenario())


def test_errors_are_not_kept_and_a_change_makes_the_next_caller_ask():
    async def scenario():
        source = Source()
        cached = Cached(source.load, refresh_s=5, age_s_max=15)
        source.error = OSError("away")
        with pytest.raises(OSError, match="away"):
            await cached.get()
        source.error = None
        assert await cached.get() == 2
        cached.forget()
        assert await cached.get() == 3

    run(scenario())


def test_a_value_that_takes_long_is_loaded_more_rarely_up_to_a_bound():
    async def scenario():
        for takes_s, rests_s in ((0.01, 5), (0.05, 10), (1.0, 20), (5.0, 20)):
            source = Source(takes_s)
            cached = Cached(source.load, refresh_s=5, age_s_max=15)
            await cached.get()
            await asyncio.sleep(rests_s - takes_s - 0.5)
            assert await cached.get() == 1
            assert source.asked == 1
            await asyncio.sleep(1)
            assert await cached.get() == 1
            await asyncio.sleep(takes_s + 0.1)
            assert await cached.get() == 2

    run(scenario())
