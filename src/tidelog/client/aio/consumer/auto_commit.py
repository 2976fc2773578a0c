"""Automatic commits, at the one point where they are safe.

`poll` moves positions as it returns records, so a position says "returned", not "processed". But a caller that polls
again has processed what it was given before. So the commit is sent at the start of `poll`, before any position moves:
what it commits is what earlier polls returned.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from tidelog.client.aio.consumer.commits import OffsetCommits, Offsets, is_retriable
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.network import NetworkClient
from tidelog.client.errors import ClientError

_LOG: Final = logging.getLogger("tidelog.client.consumer")


class AutoCommit:
    """Commits what was consumed, every `auto.commit.interval.ms`."""

    def __init__(
        self,
        client: NetworkClient,
        settings: ConsumerSettings,
        commits: OffsetCommits,
        consumed: Callable[[], Offsets],
    ) -> None:
        self.is_enabled = settings.commits_automatically
        self._client = client
        self._settings = settings
        self._commits = commits
        self._consumed = consumed
        self._task: asyncio.Task[None] | None = None
        self._next_ms = client.now_ms() + settings.auto_commit_interval_ms

    @property
    def next_ms(self) -> int | None:
        """When the next commit is due; None if never, or if that depends on the one under way."""
        return self._next_ms if self.is_enabled and not self._is_under_way else None

    @property
    def _is_under_way(self) -> bool:
        return self._task is not None and not self._task.done()

    def restart(self) -> None:
        """A new assignment: the interval begins again."""
        self._next_ms = self._client.now_ms() + self._settings.auto_commit_interval_ms

    def run_if_due(self, now_ms: int) -> None:
        """Send a commit, if it is time, and go on."""
        if self.next_ms is None or now_ms < self.next_ms:
            return
        self._next_ms = now_ms + self._settings.auto_commit_interval_ms
        offsets = self._consumed()
        if offsets:
            self._task = self._client.spawn(self._commit(offsets))

    async def commit_now(self, until_ms: int) -> None:
        """Commit and wait, as before partitions are given up. A failure is logged: giving up goes on."""
        offsets = self._consumed()
        if not self.is_enabled or not offsets:
            return
        try:
            await self._commits.commit(offsets, until_ms, awaits_topics=False)
        except ClientError as error:
            _LOG.warning("automatic commit of %s failed: %s", _listed(offsets), error)

    async def _commit(self, offsets: Offsets) -> None:
        try:
            await self._commits.commit_once(offsets)
        except ClientError as error:
            _LOG.info("automatic commit of %s failed: %s", _listed(offsets), error)
            if is_retriable(error):
                self._next_ms = self._client.now_ms() + self._settings.retry_backoff_ms


def _listed(offsets: Offsets) -> str:
    return ", ".join(f"{partition}={place.offset}" for partition, place in offsets.items())
