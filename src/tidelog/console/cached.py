"""A value that is expensive to obtain, kept for a while: however many pages need it, one request at a time asks."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Cached(Generic[Value]):
    """The result of `load`, at most `age_s_max` old. Errors are not kept: the next caller asks again."""

    def __init__(self, load: Callable[[], Awaitable[Value]], age_s_max: float) -> None:
        self._load = load
        self._age_s_max = age_s_max
        self._value: tuple[float, Value] | None = None
        self._loading: asyncio.Task[Value] | None = None

    async def get(self) -> Value:
        """The value, loaded if there is none or it is too old."""
        now = asyncio.get_running_loop().time()
        if self._value is not None and now - self._value[0] <= self._age_s_max:
            return self._value[1]
        if self._loading is None:
            self._loading = asyncio.create_task(self._reload())
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
            return value
        finally:
            if self._loading is task:
                self._loading = None
