"""Moves records from retry topics into Redis, where they wait until they are due.

    retry topic  →  Redis, with the position in the topic  →  the topic that the record goes back to
                this module                         redis_worker

Redis stores records and the position after them in one script. The position in Redis decides where a partition is read
on, not the offsets of the group, which are committed for tools that show lag, and for a Redis that has no position. So
each record is stored once, however often it is read; and when Redis has lost its last writes, they are read
again. Only committed records are read.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final

from tidelog.client.aio.admin.admin import AsyncAdmin
from tidelog.client.aio.consumer.consumer import AsyncConsumer
from tidelog.client.aio.consumer.listeners import RebalanceListener
from tidelog.client.aio.consumer.types import ConsumerRecord, ConsumerRecords
from tidelog.client.errors import ClientError
from tidelog.client.retry.policy import RetryPolicy
from tidelog.client.retry.redis_queue import RedisQueue
from tidelog.client.retry.returning import arrival
from tidelog.client.types import TopicPartition

LOG: Final = logging.getLogger("tidelog.client.retry")

GROUP: Final = "tidelog-retry"
CONSUMER_SETTINGS: Final = {
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    # A retry topic that does not exist yet is created by the consumers that write to it, with the right settings.
    "allow.auto.create.topics": False,
}
_POLL_S: Final = 0.25


class RetryService(RebalanceListener):
    """One member of the group that reads retry topics. Partitions are paused until their position is known."""

    def __init__(
        self,
        consumer: AsyncConsumer[bytes, bytes],
        admin: AsyncAdmin,
        queue: RedisQueue,
        topics: Collection[str],
        policy: RetryPolicy,
    ) -> None:
        self._consumer = consumer
        self._admin = admin
        self._queue = queue
        self._topics = topics
        self._policy = policy
        self._places: dict[TopicPartition, str] = {}
        self._positions: dict[TopicPartition, int | None] = {}
        """Of the partitions that are read; the others of the assignment are paused."""

    async def work(self, stopping: asyncio.Event, on_stored: Callable[[int], object] | None = None) -> None:
        """Move records until `stopping` is set; `on_stored` is called with the number after each poll."""
        await self._consumer.subscribe(self._topics, listener=self)
        while not stopping.is_set():
            try:
                await self._find_positions()
            except ClientError as error:
                if error.fatal or not error.retriable:
                    raise
                # The next poll keeps the membership, returns nothing of the held partitions, and takes its time.
                LOG.warning("failed records are not moved to Redis now: %s", error)
            stored = await self._store(await self._consumer.poll(_POLL_S))
            if stored and on_stored is not None:
                on_stored(stored)

    async def _store(self, records: ConsumerRecords[bytes, bytes]) -> int:
        stored: dict[TopicPartition, int] = {}
        for partition, rows in records.items():
            end = records.next_offsets[partition].offset
            if await self._take_over(partition, rows, end):
                stored[partition] = end
        if stored:
            self._consumer.commit_async(stored)
        return sum(len(records.of(each)) for each in stored)

    async def _take_over(
        self, partition: TopicPartition, rows: Sequence[ConsumerRecord[bytes, bytes]], end: int
    ) -> bool:
        if partition not in self._positions:
            return False
        arrivals = [arrival(row, self._policy) for row in rows]
        try:
            is_stored = await self._queue.take_over(self._places[partition], self._positions[partition], end, arrivals)
        except ClientError as error:
            LOG.warning("failed records of %s are read again: %s", partition, error)
            is_stored = False
        if is_stored:
            self._positions[partition] = end
        else:
            self._hold([partition])
        return is_stored

    async def _find_positions(self) -> None:
        """Read partitions on from where Redis has their records."""
        held = [each for each in self._consumer.assignment if each not in self._positions]
        if not held:
            return
        topics = await self._admin.describe_topics({each.topic for each in held})
        for each in held:
            # A topic that was deleted and created again has a new id, and no position.
            self._places[each] = f"{each.topic}/{each.partition}/{topics[each.topic].topic_id.hex()}"
        found = dict(zip(held, await self._queue.positions([self._places[each] for each in held]), strict=True))
        ends = await self._consumer.end_offsets(*held)
        for partition, position in found.items():
            self._positions[partition] = await self._seek(partition, position, ends[partition])
        # What a member that was killed had stored and not committed is no lag.
        self._consumer.commit_async({each: at for each, at in self._positions.items() if at is not None})
        self._consumer.resume(*held)

    async def _seek(self, partition: TopicPartition, position: int | None, end: int) -> int | None:
        if position is None:
            await self._consumer.seek_to_committed(partition)
            return None
        if position > end:
            LOG.warning("%s was cut from %d to %d: it is read on there", partition, position, end)
            await self._queue.reset_position(self._places[partition], end)
        self._consumer.seek(partition, min(position, end))
        return min(position, end)

    def _hold(self, partitions: Collection[TopicPartition]) -> None:
        for each in partitions:
            self._positions.pop(each, None)
        self._consumer.pause(*partitions)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Read nothing before the position is known."""
        self._hold(partitions)

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Another member reads these on from the position in Redis."""
        for each in partitions:
            self._positions.pop(each, None)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """The same."""
        await self.on_revoked(partitions)
