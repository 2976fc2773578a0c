"""The retry service for tests, in their own process."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from tests.integration.redis_support import RedisServer
from tidelog.client import AsyncAdmin, AsyncConsumer, AsyncProducer, RedisQueue, RetryPolicy
from tidelog.client.retry.redis_worker import end, work
from tidelog.client.retry.service import CONSUMER_SETTINGS, RetryService

SECONDS = 45.0


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + SECONDS
    while not await condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def serving(
    servers: str, redis: RedisServer, topic: str, members: int = 1, policy: RetryPolicy | None = None
) -> AsyncIterator[RedisQueue]:
    """The retry service in this process; the names of its keys in Redis begin with the topic."""
    settings = {"bootstrap.servers": servers}
    stopping = asyncio.Event()
    async with AsyncExitStack() as stack:
        queue = RedisQueue(redis.url, prefix=topic, lease_s=1)
        stack.push_async_callback(queue.close)
        producer = await stack.enter_async_context(AsyncProducer[bytes, bytes](settings))
        admin = await stack.enter_async_context(AsyncAdmin(settings))
        tasks = [asyncio.create_task(work(queue, producer, stopping))]
        for _ in range(members):
            consumer = AsyncConsumer[bytes, bytes]({**settings, **CONSUMER_SETTINGS, "group.id": topic})
            await stack.enter_async_context(consumer)
            service = RetryService(consumer, admin, queue, [f"{topic}.retry"], policy or RetryPolicy())
            tasks.append(asyncio.create_task(service.work(stopping)))
        try:
            yield queue
        finally:
            await end(tasks, stopping)
            for task in tasks:
                task.result()
