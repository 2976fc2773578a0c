"""What a request to a coordinator becomes: its response, now or when everything that it depends on is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from tidelog.wire.errors import ApiError

T = TypeVar("T")
U = TypeVar("U")


class Reply(Generic[T]):
    """Takes the outcome of one request and makes its response, now or later.

    A later one goes to the callback of `then`, within the turn in which the outcome arrives; code that collects several
    replies may await it instead. An error of `shape` belongs to the reply: it is raised where the response is read, not
    where the outcome came from.

    `has_effect_pending` is set for a request whose effect is visible only with its reply: until then, its connection's
    next request waits.
    """

    __slots__ = ("_error", "_response", "_shape", "_then", "has_effect_pending")

    def __init__(self, shape: Callable[[Any], T]) -> None:
        self._shape = shape
        self._response: T | None = None
        self._error: Exception | None = None
        self._then: Callable[[Reply[T]], None] | None = None
        self.has_effect_pending = False

    def __call__(self, outcome: Any) -> None:
        if isinstance(outcome, ApiError):
            # The frames of its traceback hold this reply, and would until the next garbage collection.
            outcome.__traceback__ = None
        try:
            self._response = self._shape(outcome)
        except Exception as error:  # noqa: BLE001 - it is raised where the response is read
            self._error = error
        if self._then is not None:
            self._then(self)

    @property
    def is_there(self) -> bool:
        return self._response is not None or self._error is not None

    def result(self) -> Eventual[T]:
        """The response, or this reply itself as long as there is none; raises what went wrong in making it."""
        if self._error is not None:
            raise self._error
        return self if self._response is None else self._response

    def response(self) -> T:
        """The response, which is there; raises what went wrong in making it."""
        found = self.result()
        assert not isinstance(found, Reply), "the outcome has come"
        return found

    def then(self, callback: Callable[[Reply[T]], None]) -> None:
        """Call `callback` with this reply as soon as it has a result. One may wait."""
        assert not self.is_there, "there is nothing to wait for"
        self._then = callback

    def __await__(self) -> Generator[Any, None, T]:
        if not self.is_there:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.then(lambda _: None if future.done() else future.set_result(None))
            yield from future
        return self.response()


Eventual: TypeAlias = T | Reply[T]
"""A response now, or a reply that has it later."""


async def settled(found: Eventual[T]) -> T:
    """A response, once it is there."""
    return await found if isinstance(found, Reply) else found


def gather(results: Sequence[Eventual[T]], shape: Callable[[list[T]], U]) -> Eventual[U]:
    """One response of several results, some of which may be replies that come later; then it is a reply itself."""

    def shape_all(_: None) -> U:
        return shape([result.response() if isinstance(result, Reply) else result for result in results])

    waiting = [result for result in results if isinstance(result, Reply) and not result.is_there]
    if not waiting:
        return shape_all(None)
    together: Reply[U] = Reply(shape_all)
    missing = len(waiting)

    def one_is_there(_reply: Reply[T]) -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            together(None)

    for reply in waiting:
        reply.then(one_is_there)
    return together.result()
