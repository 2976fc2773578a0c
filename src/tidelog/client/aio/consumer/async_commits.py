"""Asynchronous commits: sent in order; their callbacks run inside the next call of the consumer."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from tidelog.client.aio.consumer.commits import OffsetCommits, Offsets
from tidelog.client.aio.network import NetworkClient

CommitCallback = Callable[[Offsets, Exception | None], Any]
"""Called with the offsets and the error, None for a successful commit."""


class AsyncCommits:
    """Commits under way, and callbacks of those that are done."""

    def __init__(self, client: NetworkClient, commits: OffsetCommits) -> None:
        self._client = client
        self._commits = commits
        self._under_way: set[asyncio.Task[None]] = set()
        self._done: deque[tuple[CommitCallback, Offsets, Exception | None]] = deque()

    def send(self, offsets: Offsets, callback: CommitCallback | None) -> None:
        """Send one commit. It is not repeated: a later one may have overtaken it."""
        task = self._client.spawn(self._commits.commit_once(offsets))
        self._under_way.add(task)
        task.add_done_callback(lambda done: self._finished(done, offsets, callback))

    def pending(self) -> "asyncio.Future[Any] | None":
        """Done when all commits sent so far are; None if they are already."""
        return asyncio.gather(*self._under_way, return_exceptions=True) if self._under_way else None

    async def run_callbacks(self, invoke: Callable[..., Awaitable[None]]) -> None:
        """Call the callbacks of finished commits."""
        while self._done:
            callback, offsets, error = self._done.popleft()
            await invoke(callback, offsets, error)

    def _finished(self, task: "asyncio.Task[None]", offsets: Offsets, callback: CommitCallback | None) -> None:
        self._under_way.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if callback is not None:
            self._done.append((callback, offsets, error if isinstance(error, Exception) else None))
