"""What the synchronous clients have in common: each is a face of an asyncio client, its twin.

    class Admin(Face[AsyncAdmin]):
        create_topics = blocking(AsyncAdmin.create_topics)

Such a call has the arguments, types and docs of the twin's method, for checkers and editors as for `help()`. The twin
runs on a loop in a thread of its own; the caller waits. What must not take that way, because it is done for every
record or answers in the calling thread, a face defines by itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from tidelog.client.aio.background import BackgroundLoop

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Twin = TypeVar("Twin")


class Face(ABC, Generic[Twin]):
    """A synchronous client: a twin, and the loop in which it lives."""

    def __init__(self, twin: Twin, thread_name: str) -> None:
        self._async = twin
        self._background = BackgroundLoop(thread_name)

    @abstractmethod
    def close(self) -> None:
        """End the client; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _calling(self) -> AbstractContextManager[object]:
        """Around each call. Raises if it is not allowed now."""
        return nullcontext()

    def _wait_for(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a call of the twin where it lives, and wait."""
        return self._background.run(work)


def blocking(
    method: Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Arguments], Result]:
    """The twin's coroutine function as a call that waits for it."""

    @wraps(method)
    def call(self: Face[Any], /, *arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        with self._calling():
            return self._wait_for(method(self._async, *arguments, **keywords))

    return call


def called_there(
    method: Callable[Concatenate[Any, Arguments], Result],
) -> Callable[Concatenate[Any, Arguments], Result]:
    """The twin's plain method, called where all its state lives."""

    @wraps(method)
    def call(self: Face[Any], /, *arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        async def work() -> Result:
            return method(self._async, *arguments, **keywords)

        with self._calling():
            return self._wait_for(work())

    return call
