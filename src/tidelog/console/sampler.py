"""Samples end offsets and group lag in the background, in small requests that are spread over time.

A cluster is asked for 50 partitions at a time, so that no broker is kept busy for long by a console that is open. A
round whose requests take long is followed by a longer pause. Nothing is sampled while no page is open. Errors of a
round are kept for the pages to show; the next round tries again.
"""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Final

from tidelog.client.aio.admin.admin import AsyncAdmin
from tidelog.client.aio.admin.driver import PartlyRefused
from tidelog.client.aio.admin.types import LATEST
from tidelog.client.errors import ClientError
from tidelog.client.types import TopicPartition
from tidelog.console.cached import pause_s
from tidelog.console.samples import LagSamples, ThroughputSamples, total_lag
from tidelog.wire.errors import ApiError

if TYPE_CHECKING:
    from tidelog.console.cluster_view import ClusterView

logger = logging.getLogger(__name__)

PARTITIONS_PER_REQUEST: Final = 50
SHARE_OF_INTERVAL: Final = 0.8
"""How much of the interval the requests of one round are spread over."""
ROUNDS_PER_LAG: Final = 3
IDLE_S: Final = 60.0
"""So long after the last page, none is open any more: open ones are loaded again every ten seconds."""


class Sampler:
    """The series of one view, and the task that extends them."""

    def __init__(self, view: "ClusterView", interval_s: float) -> None:
        self._view = view
        self._interval_s = interval_s
        self._task: asyncio.Task[None] | None = None
        self.throughput = ThroughputSamples()
        self.lags = LagSamples()
        self.problem: str | None = None
        self._topic_lags: dict[str, dict[str, int]] | None = None
        self._busy_s = 0.0
        self._looked_at = -inf
        self._is_looked_at = asyncio.Event()

    def look(self) -> None:
        """A page is loaded."""
        self._looked_at = asyncio.get_running_loop().time()
        self._is_looked_at.set()

    @property
    def has_lags(self) -> bool:
        """Whether all groups were looked at once."""
        return self._topic_lags is not None

    def lags_of_topic(self, topic: str) -> dict[str, int]:
        """The groups that have committed offsets of a topic, and how many of its records each has yet to read."""
        return {group: lags[topic] for group, lags in (self._topic_lags or {}).items() if topic in lags}

    def start(self) -> None:
        """Begin to sample."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        # An admin of its own: it refreshes metadata of all topics, which pages then need not wait for.
        admin = self._view.new_admin("tidelog-console-sampler")
        try:
            await self._rounds(admin)
        finally:
            await admin.close()

    async def _rounds(self, admin: AsyncAdmin) -> None:
        loop = asyncio.get_running_loop()
        rounds = 0
        while True:
            if loop.time() - self._looked_at > IDLE_S:
                self._is_looked_at.clear()
                await self._is_looked_at.wait()
            began_at = loop.time()
            self._busy_s = 0.0
            try:
                await admin.start()
                # The first two rounds follow each other closely: the first plot should not take a minute.
                spread_s = self._interval_s * SHARE_OF_INTERVAL if rounds > 1 else 0.0
                await self._sample_ends(admin, spread_s / 2)
                if rounds % ROUNDS_PER_LAG == 0:
                    await self._sample_lags(admin, spread_s / 2)
                self.problem = None
                rounds += 1
            except (ClientError, ApiError) as error:
                if self.problem is None:
                    logger.info("throughput could not be sampled: %s", error)
                self.problem = str(error)
            interval_s = self._interval_s if rounds != 1 else min(2.0, self._interval_s)
            await asyncio.sleep(max(0.05, began_at + pause_s(self._busy_s, interval_s) - loop.time()))

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Count the time of a request: brokers work for it, at most."""
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        try:
            yield
        finally:
            self._busy_s += loop.time() - began_at

    async def _sample_ends(self, admin: AsyncAdmin, spread_s: float) -> None:
        partitions = (await self._view.snapshot.get()).partitions()
        chunks = [
            partitions[start : start + PARTITIONS_PER_REQUEST]
            for start in range(0, len(partitions), PARTITIONS_PER_REQUEST)
        ]
        ends: dict[TopicPartition, int] = {}
        for chunk in chunks:
            try:
                with self._busy():
                    found = await admin.list_offsets(dict.fromkeys(chunk, LATEST))
            except PartlyRefused as refused:
                found = refused.results
            ends.update((where, place.offset) for where, place in found.items())
            await asyncio.sleep(spread_s / len(chunks))
        self.throughput.add(time.time(), ends)

    async def _sample_lags(self, admin: AsyncAdmin, spread_s: float) -> None:
        groups = [each.group_id for each in await self._view.groups.get()]
        found: dict[str, dict[str, int]] = {}
        for group in groups:
            try:
                with self._busy():
                    committed = await admin.list_consumer_group_offsets(group)
            except ApiError:
                continue  # this user may not see it, or it has just gone
            offsets = {where: place.offset for where, place in committed.items()}
            lags: dict[str, int] = {}
            for where, offset in offsets.items():
                lags[where.topic] = lags.get(where.topic, 0) + total_lag({where: offset}, self.throughput.ends)
            found[group] = lags
            self.lags.add(group, time.time(), sum(lags.values()))
            await asyncio.sleep(spread_s / len(groups))
        self.lags.keep_only(groups)
        self._topic_lags = found
