"""A value that is expensive to obtain, kept for a while: however many pages need it, one request at a time asks.

What takes long to load is loaded more rarely, so that brokers work for it a small share of the time (`pause_s`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Final, Generic, TypeVar

Value = TypeVar("Value")

PAUSE_FACTOR: Final = 200
"""A load that takes 50 ms is repeated after ten seconds at the earliest."""
LONGER_MAX: Final = 4
"""Pauses are at most so many times as long as usual: a broker that was slow once must not leave pages out of date."""


def pause_s(took_s: float, usual_s: float) -> float:
    """How long after the beginning of a load that took so long the next one may begin."""
    return min(max(usual_s, took_s * PAUSE_FACTOR), usual_s * LONGER_MAX)


class Cached(Generic[Value]):
    """The result of `load`, at most `age_s_max` old. Errors are not kept: the next caller asks again.

    From `refresh_s` on, callers get the value that is there, and a newer one is loaded meanwhile. Both times are longer
    for a value that takes long to load.
    """

    def __init__(self, load: Callable[[], Awaitable[Value]], refresh_s: float, age_s_max: float) -> None:
        self._load = load
        self._refresh_s = refresh_s
        self._age_s_max = age_s_max
        self._value: tuple[float, Value] | None = None
        self._took_s = 0.0
        self._loading: asyncio.Task[Value] | None = None

    async def get(self) -> Value:
        """The value, loaded if there is none or it is too old."""
        refresh_s = pause_s(self._took_s, self._refresh_s)
        return await self._aged(refresh_s, self._age_s_max * refresh_s / self._refresh_s)

    async def newer(self, age_s_max: float) -> Value:
        """The value at most so old: for something that is not in the one that `get` returned."""
        return await self._aged(age_s_max, age_s_max)

    async def _aged(self, refresh_s: float, age_s_max: float) -> Value:
        now = asyncio.get_running_loop().time()
        age_s = inf if self._value is None else now - self._value[0]
        if age_s > refresh_s and self._loading is None:
            self._loading = asyncio.create_task(self._reload())
            self._loading.add_done_callback(_look_at_error)
        if self._value is not None and age_s <= age_s_max:
            return self._value[1]
        assert self._loading is not None, "it was started above"
        # Shielded, because other pages wait for the same request.
        return await asyncio.shield(self._loading)

    def forget(self) -> None:
        """Make the next caller load it: something was changed."""
        self._value = None
        self._loading = None

    async def _reload(self) -> Value:
        task = asyncio.current_task()
        began_at = asyncio.get_running_loop().time()
        try:
            value = await self._load()
            if self._loading is task:
                self._value = began_at, value
                self._took_s = asyncio.get_running_loop().time() - began_at
            return value
        finally:
            if self._loading is task:
                self._loading = None


def _look_at_error(task: "asyncio.Task[Any]") -> None:
    """Callers who got the older value do not wait for the task; asyncio would log its error as never retrieved."""
    if not task.cancelled():
        task.exception()
