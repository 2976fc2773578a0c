"""Compactions that an operator requested (`tidelog topic compact --now`), and their results.

`LogCleaner` handles them first. The result of the last request for each partition is kept, so that the client can poll
for it.
"""

from enum import StrEnum
from typing import NamedTuple

from tidelog.wire.partitions import PartitionKey


class RequestState(StrEnum):
    """State of a request."""

    WAITING = "waiting"
    CLEANING = "cleaning"
    DONE = "done"
    FAILED = "failed"


class CompactionRequest(NamedTuple):
    """A request, with the size of the log before and after it."""

    state: RequestState
    bytes_before: int
    bytes_after: int = -1
    message: str = ""


class CompactionRequests:
    """Requests by partition, oldest first."""

    __slots__ = ("_requests",)

    def __init__(self) -> None:
        self._requests: dict[PartitionKey, CompactionRequest] = {}

    def get(self, key: PartitionKey) -> CompactionRequest | None:
        """The last request for a partition."""
        return self._requests.get(key)

    def waiting(self) -> list[PartitionKey]:
        """The partitions whose requests have not begun."""
        return [key for key, request in self._requests.items() if request.state is RequestState.WAITING]

    def add(self, key: PartitionKey, size_bytes: int) -> None:
        """Add a request for a partition, whose log has `size_bytes` now."""
        self._requests.pop(key, None)
        self._requests[key] = CompactionRequest(RequestState.WAITING, size_bytes)

    def begin(self, key: PartitionKey) -> None:
        self._change(key, RequestState.WAITING, RequestState.CLEANING)

    def wait_again(self, key: PartitionKey) -> None:
        """One job could not clean all of the log: wait for another."""
        self._change(key, RequestState.CLEANING, RequestState.WAITING)

    def finish(self, key: PartitionKey, size_bytes: int) -> None:
        """A cleaning is over. One that began before the request was made does not count."""
        request = self._requests.get(key)
        if request is not None and request.state is RequestState.CLEANING:
            self._requests[key] = request._replace(state=RequestState.DONE, bytes_after=size_bytes)

    def fail(self, key: PartitionKey, message: str) -> None:
        request = self._requests.get(key)
        if request is not None and request.state is RequestState.CLEANING:
            self._requests[key] = request._replace(state=RequestState.FAILED, message=message)

    def _change(self, key: PartitionKey, before: RequestState, after: RequestState) -> None:
        request = self._requests.get(key)
        if request is not None and request.state is before:
            self._requests[key] = request._replace(state=after)
