"""The faults that a test has asked for, and what became of them.

Requests are named as in Kafka's protocol: `Produce`, `Fetch`, `OffsetCommit`. Each call arms a fault for the next
request of its kind, or for the next `times`; faults of one kind are used in the order in which they were armed. Methods
may be called from any thread while requests come.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ErrorCode
from tidelog.wire.schema import Message

_BY_NAME: Final = {each.name.replace("_", "").lower(): each for each in ApiKey}


@dataclass(slots=True, kw_only=True)
class Fault:
    """What happens to one request."""

    api_key: ApiKey
    error_code: ErrorCode | None = None
    """The request does not reach the broker, and is answered with this error."""
    seconds: float = 0.0
    """It reaches the broker that much later."""
    loses_request: bool = False
    """It does not reach the broker, and the connection is closed."""
    loses_reply: bool = False
    """It takes effect, and the connection is closed instead of a reply."""
    change: Callable[[Any], None] | None = None
    """The broker's response is changed before it goes out."""
    left: int = field(default=1)


class Faults:
    """What is to happen to the next requests of a broker's clients."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._armed: list[Fault] = []
        self._is_cut = False
        self._on_cut: Callable[[], None] = _nothing
        self.happened: list[str] = []
        """The names of the requests that a fault happened to, in order."""

    def fail_next(self, request: str, error: str | int, *, times: int = 1) -> None:
        """Answer with an error, such as `NOT_LEADER_OR_FOLLOWER`, for everything that the request is about.

        The broker does not see the request.
        """
        self._arm(request, times, error_code=_error_code(error))

    def delay_next(self, request: str, seconds: float, *, times: int = 1) -> None:
        """Let the broker have the request later; later requests of its connection wait behind it."""
        if seconds <= 0:
            raise ValueError(f"seconds={seconds}: a delay is longer than 0")
        self._arm(request, times, seconds=seconds)

    def lose_next(self, request: str, *, times: int = 1) -> None:
        """Close the connection instead of handing the request to the broker: it never takes effect."""
        self._arm(request, times, loses_request=True)

    def lose_reply_of_next(self, request: str, *, times: int = 1) -> None:
        """Close the connection instead of sending the reply: the request takes effect and its client cannot know."""
        self._arm(request, times, loses_reply=True)

    def change_next(self, request: str, change: Callable[[Any], None], *, times: int = 1) -> None:
        """Call `change` with the broker's response, a message of `tidelog.wire.messages`, then send it."""
        self._arm(request, times, change=change)

    def cut(self) -> None:
        """Close every connection and refuse new ones, until `heal`."""
        self._is_cut = True
        self._on_cut()

    def heal(self) -> None:
        """Let connections through again, and forget the faults that are armed."""
        with self._lock:
            self._armed.clear()
        self._is_cut = False

    @property
    def is_cut(self) -> bool:
        """Whether no connection gets through."""
        return self._is_cut

    @property
    def waiting(self) -> list[str]:
        """The names of the requests that a fault still waits for."""
        with self._lock:
            return [request_name(each.api_key) for each in self._armed for _ in range(each.left)]

    def call_when_cut(self, action: Callable[[], None]) -> None:
        """What closes the connections; for the proxy."""
        self._on_cut = action

    def take(self, api_key: int) -> Fault | None:
        """The fault that happens to a request; None if none does."""
        with self._lock:
            for fault in self._armed:
                if fault.api_key == api_key:
                    fault.left -= 1
                    if not fault.left:
                        self._armed.remove(fault)
                    self.happened.append(request_name(fault.api_key))
                    return fault
        return None

    def _arm(self, request: str, times: int, **what: Any) -> None:
        if times < 1:
            raise ValueError(f"times={times}: a fault happens at least once")
        fault = Fault(api_key=_api_key(request), left=times, **what)
        with self._lock:
            self._armed.append(fault)


def request_name(api_key: ApiKey) -> str:
    """The name of a request in Kafka's protocol, without the word itself."""
    return "".join(word.capitalize() for word in api_key.name.split("_"))


def message_class(api_key: ApiKey, which: str) -> type[Message]:
    """The declaration of a `Request` or `Response`."""
    from tidelog.wire import messages

    found: type[Message] = getattr(messages, request_name(api_key) + which)
    return found


def _api_key(request: str) -> ApiKey:
    name = request.removesuffix("Request")
    found = _BY_NAME.get(name.replace("_", "").lower())
    if found is None:
        raise ValueError(f"{request!r} is no request of Kafka's protocol, such as 'Produce' or 'OffsetCommit'")
    return found


def _error_code(error: str | int) -> ErrorCode:
    try:
        return ErrorCode[error] if isinstance(error, str) else ErrorCode(error)
    except (KeyError, ValueError):
        raise ValueError(f"{error!r} is no error of Kafka's protocol, such as 'NOT_LEADER_OR_FOLLOWER'") from None


def _nothing() -> None:
    return
