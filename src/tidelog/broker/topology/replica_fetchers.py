"""Runs the fetchers of this broker's followers: one task for each, which sends what its core builds.

A task lives as long as its fetcher follows something. Responses are taken in slices, so that a leader's ten megabytes
do not keep this broker's own clients waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.topology.channels import BrokerChannels, BrokerUnreachable
from tidelog.replication.fetcher import Fetcher, FetcherSettings
from tidelog.replication.fetchers import FetcherKey, FetcherManager

if TYPE_CHECKING:
    from tidelog.broker.runtime.slices import TimeSlices
    from tidelog.quotas import ReplicationQuota
    from tidelog.replication.partition import Partition
    from tidelog.replication.replica_manager import ReplicaManager
    from tidelog.timing import Clock
    from tidelog.wire.messages.fetch import FetchResponse
    from tidelog.wire.messages.list_offsets import ListOffsetsResponse
    from tidelog.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
    from tidelog.wire.schema import Message

logger = logging.getLogger(__name__)

_PAUSE_AFTER_FAILURE_S: Final = 0.05
"""A fetcher whose own code fails retries after this long: a defect must not end replication."""


class ReplicaFetchers:
    """Follows leaders, on the event loop."""

    def __init__(
        self,
        broker_id: int,
        channels: BrokerChannels,
        settings: FetcherSettings,
        replica_manager: ReplicaManager,
        slices: TimeSlices,
        clock: Clock,
        broker_epoch: Callable[[], int],
        *,
        count: int = 1,
        request_timeout_ms: int = 30_000,
        quota: ReplicationQuota | None = None,
    ) -> None:
        """`request_timeout_ms` is `replica.socket.timeout.ms`, `count` is `num.replica.fetchers`."""
        self._channels = channels
        self._slices = slices
        self._clock = clock
        self._request_timeout_ms = request_timeout_ms
        self._tasks: dict[FetcherKey, _FetcherTask] = {}
        self._is_closed = False

        def new_fetcher(leader_id: int) -> Fetcher:
            return Fetcher(
                broker_id,
                leader_id,
                settings,
                replica_manager,
                clock.wall_ms,
                broker_epoch=broker_epoch,
                quota=quota,
            )

        self._manager = FetcherManager(new_fetcher, self._wake, count)

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its leader."""
        if not self._is_closed:
            self._manager.follow(partition)

    def unfollow(self, keys: Iterable[tuple[str, int]]) -> None:
        """Fetch these partitions no more."""
        self._manager.unfollow(keys)

    def set_count(self, count: int) -> None:
        """Follow a changed `num.replica.fetchers`."""
        self._manager.set_count(count)

    def _wake(self, key: FetcherKey, fetcher: Fetcher) -> None:
        running = self._tasks.get(key)
        if running is None or running.fetcher is not fetcher:
            running = self._tasks[key] = _FetcherTask(
                fetcher, key, self._channels, self._slices, self._clock, self._request_timeout_ms, self._retire
            )
        running.wake()

    def _retire(self, key: FetcherKey) -> bool:
        """Whether the task of a fetcher may end."""
        if self._is_closed or self._manager.retire(key):
            self._tasks.pop(key, None)
            return True
        return False

    def bytes_fetched(self) -> tuple[int, int]:
        """What was fetched from leaders since the start, and how much of it for partitions that a reassignment adds."""
        return self._manager.bytes_fetched()

    def fetchers(self) -> Iterator[tuple[FetcherKey, Fetcher]]:
        """All fetchers, each with its leader and number."""
        return iter(self._manager)

    async def close(self) -> None:
        """Fetch nothing more; what was fetched and not appended is dropped."""
        self._is_closed = True
        tasks = [running.task for running in self._tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._tasks.clear()


class _FetcherTask:
    """Sends the requests of one fetcher, one after the other."""

    def __init__(
        self,
        fetcher: Fetcher,
        key: FetcherKey,
        channels: BrokerChannels,
        slices: TimeSlices,
        clock: Clock,
        request_timeout_ms: int,
        may_end: Callable[[FetcherKey], bool],
    ) -> None:
        self.fetcher = fetcher
        self._key = key
        self._channels = channels
        self._slices = slices
        self._clock = clock
        self._request_timeout_ms = request_timeout_ms
        self._may_end = may_end
        self._purpose = f"replica fetcher {key[1]}"
        self._news = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        """Partitions were added or removed."""
        self._news.set()

    async def _run(self) -> None:
        while True:
            try:
                self._news.clear()
                if not len(self.fetcher) and self._may_end(self._key):
                    return
                if not await self._step():
                    await self._rest()
            except Exception:
                logger.exception("the fetcher %d from broker %d failed", self._key[1], self._key[0])
                await asyncio.sleep(_PAUSE_AFTER_FAILURE_S)

    async def _rest(self) -> None:
        """Wait until something is due, or changes."""
        now_ms = self._clock.monotonic_ms()
        due_ms = self.fetcher.next_due_ms(now_ms)
        wait_s = None if due_ms is None else max(due_ms - now_ms, 1) / 1000
        try:
            async with asyncio.timeout(wait_s):
                await self._news.wait()
        except TimeoutError:
            return

    async def _step(self) -> bool:
        """Send what is due; whether anything was."""
        has_sent = False
        if self.fetcher.has_others:
            has_sent = await self._compare_epochs() | await self._look_up_offsets()
        return await self._fetch() or has_sent

    async def _compare_epochs(self) -> bool:
        fetcher = self.fetcher
        request = fetcher.build_epochs(self._clock.monotonic_ms())
        if request is None:
            return False
        try:
            response: OffsetForLeaderEpochResponse = await self._send(request)
        except BrokerUnreachable:
            fetcher.on_epochs_failed(request, self._clock.monotonic_ms())
        else:
            fetcher.on_epochs(request, response, self._clock.monotonic_ms())
        return True

    async def _look_up_offsets(self) -> bool:
        fetcher = self.fetcher
        requests = fetcher.build_lookups(self._clock.monotonic_ms())
        if requests is None:
            return False
        try:
            latest: ListOffsetsResponse = await self._send(requests[0])
            earliest: ListOffsetsResponse = await self._send(requests[1])
        except BrokerUnreachable:
            fetcher.on_lookups_failed(self._clock.monotonic_ms())
        else:
            fetcher.on_lookups(latest, earliest, self._clock.monotonic_ms())
        return True

    async def _fetch(self) -> bool:
        fetcher = self.fetcher
        request = fetcher.build_fetch(self._clock.monotonic_ms())
        if request is None:
            return False
        try:
            response: FetchResponse = await self._send(request)
        except BrokerUnreachable as error:
            logger.info("fetching from broker %d failed: %s", fetcher.leader_id, error.reason)
            fetcher.on_fetch_failed(self._clock.monotonic_ms())
        else:
            await self._slices.run(fetcher.on_fetch(response, self._clock.monotonic_ms()))
        return True

    async def _send(self, request: Message) -> Any:
        return await self._channels.send(
            self._key[0], request, purpose=self._purpose, timeout_ms=self._request_timeout_ms
        )
