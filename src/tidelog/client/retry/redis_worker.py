"""Moves due records from Redis to their topics: claim, write, remove. Any number of workers may run."""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from tidelog.client.aio.producer.delivery import Delivery
from tidelog.client.aio.producer.producer import AsyncProducer
from tidelog.client.errors import ClientError
from tidelog.client.retry.redis_queue import ClaimedRecord, RedisQueue

LOG: Final = logging.getLogger("tidelog.client.retry")

CLAIM_RECORDS_MAX: Final = 200
MAX_BLOCK_MS: Final = 5_000
"""For the producer of a worker: a record whose topic does not exist must not use up the lease of the others."""
_IDLE_S: Final = 0.05
_FAILED_S: Final = 0.5
_END_S: Final = 10.0


async def work(
    queue: RedisQueue,
    producer: AsyncProducer[bytes, bytes],
    stopping: asyncio.Event,
    on_moved: Callable[[int], object] | None = None,
    *,
    limit: int = CLAIM_RECORDS_MAX,
) -> None:
    """Move records until `stopping` is set; `on_moved` is called with the number after each round.

    Outages are waited for. A round that has begun is finished, so that what it wrote is removed from Redis.
    """
    while not stopping.is_set():
        try:
            moved = await move(queue, producer, limit)
        except ClientError as error:
            if error.fatal:
                raise
            LOG.warning("due records are not moved now: %s", error)
            await asyncio.sleep(_FAILED_S)
            continue
        if moved and on_moved is not None:
            on_moved(moved)
        if not moved:
            await asyncio.sleep(_IDLE_S)


async def end(workers: Collection["asyncio.Task[None]"], stopping: asyncio.Event) -> None:
    """Let workers finish their rounds, within a time; then cancel them, again if a connection loses the first one."""
    stopping.set()
    left: Collection[asyncio.Task[None]] = workers
    for timeout_s in (_END_S, *[0.5] * 5):
        if not left:
            return
        _, left = await asyncio.wait(left, timeout=timeout_s)
        for each in left:
            each.cancel()


async def move(queue: RedisQueue, producer: AsyncProducer[bytes, bytes], limit: int = CLAIM_RECORDS_MAX) -> int:
    """One round; returns how many records are in their topics now. Those that failed are claimed again later."""
    claimed = await queue.claim(limit)
    sent: list[tuple[ClaimedRecord, Delivery]] = []
    done: list[bytes] = []
    for each in claimed:
        if each.record is None:
            LOG.warning("%r in Redis is not a record: it is moved to %s", each.id, queue.unreadable_key)
            continue
        topic, value, key, headers, partition = each.record
        try:
            sent.append((each, await producer.send(topic, value, key, partition=partition, headers=headers)))
        except ClientError as error:
            LOG.warning("%r was not written to %s: %s", each.id, topic, error)
    for each, delivery in sent:
        try:
            await delivery
        except ClientError as error:
            LOG.warning("%r was not written: %s", each.id, error)
        else:
            done.append(each.id)
    await queue.finish(done)
    await queue.set_aside([each.id for each in claimed if each.record is None])
    return len(done)
