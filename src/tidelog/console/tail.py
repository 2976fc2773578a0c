"""Live tails: the records of a topic as they are appended, for pages that stay open.

A tail reads a bounded number of records a tick. Where more are appended it skips to the end and says how many it left
out: it follows a busy topic without being a load that grows with it. It reads in a task of its own, because a page that
is closed ends its response at any point; it ends with the response, after `SECONDS_MAX`, or with the console.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from tidelog.client.types import TopicPartition
from tidelog.console.cluster_view import ClusterView
from tidelog.console.errors import PageError
from tidelog.console.scan import Cursor, Matches, Record, size_of

TICK_S: Final = 0.5
TICK_RECORDS_MAX: Final = 2_500
TICK_BYTES_MAX: Final = 4 * 1024 * 1024
TICK_ROWS_MAX: Final = 25
"""What a tick shows at most: more cannot be read as it passes."""
SECONDS_MAX: Final = 15 * 60
COUNT_MAX: Final = 8
_CONSUMER: Final[Mapping[str, Any]] = {
    # Few large responses: a busy topic would answer at once, again and again.
    "fetch.min.bytes": 64 * 1024,
    "fetch.max.wait.ms": 400,
    "max.poll.records": 500,
    "max.partition.fetch.bytes": 256 * 1024,
    "auto.offset.reset": "latest",
    "enable.auto.commit": False,
}


class Tick(NamedTuple):
    """What was read in one tick."""

    shown: Sequence[Record] = ()
    """The last of those that match, by time."""
    seen: int = 0
    matched: int = 0
    skipped: int = 0
    """Records that were left out, because more were appended than a tick reads."""
    seconds: float = 0.0
    cursor: Cursor = {}  # noqa: RUF012 - the default of a NamedTuple; never changed


class Tails:
    """The tails of one console."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def open(
        self, view: ClusterView, topic: str, begin: Cursor, matches: Matches | None, is_wanted: Callable[[], bool]
    ) -> AsyncIterator[AsyncIterator[Tick]]:
        """The ticks of a tail from `begin` on, while `is_wanted`. Raises PageError if there are too many tails."""
        if len(self._tasks) >= COUNT_MAX:
            raise PageError(429, "Too many live pages", f"{COUNT_MAX} live pages are open; pause or close one of them.")
        queue: asyncio.Queue[Tick | Exception | None] = asyncio.Queue(2)
        task = asyncio.create_task(_pump(queue, _ticks(view, topic, begin, matches), is_wanted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            yield _drain(queue)
        finally:
            task.cancel()

    async def close(self) -> None:
        """End all tails, and the responses that show them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(
    queue: "asyncio.Queue[Tick | Exception | None]", ticks: AsyncGenerator[Tick, None], is_wanted: Callable[[], bool]
) -> None:
    """Hand ticks on; last of all why there are no more."""
    until = asyncio.get_running_loop().time() + SECONDS_MAX
    last: Exception | None = None
    try:
        async for tick in ticks:
            await queue.put(tick)
            if not is_wanted() or asyncio.get_running_loop().time() > until:
                break
    except Exception as error:  # noqa: BLE001 - the page shows it
        last = error
    finally:
        # The page must learn of the end even if it was slow to take what came before.
        while queue.qsize() >= queue.maxsize:
            queue.get_nowait()
        queue.put_nowait(last)
        await ticks.aclose()


async def _drain(queue: "asyncio.Queue[Tick | Exception | None]") -> AsyncIterator[Tick]:
    while (taken := await queue.get()) is not None:
        if isinstance(taken, Exception):
            raise taken
        yield taken


async def _ticks(view: ClusterView, topic: str, begin: Cursor, matches: Matches | None) -> AsyncGenerator[Tick, None]:
    loop = asyncio.get_running_loop()
    cursor = dict(begin)
    partitions = [TopicPartition(topic, each) for each in sorted(cursor)]
    async with view.consumer(**_CONSUMER) as consumer:
        await consumer.assign(partitions)
        for where in partitions:
            consumer.seek(where, cursor[where.partition])
        while True:
            began_at = loop.time()
            found: list[Record] = []
            seen = size_bytes = 0
            while (left_s := began_at + TICK_S - loop.time()) > 0:
                if seen >= TICK_RECORDS_MAX or size_bytes >= TICK_BYTES_MAX:
                    await asyncio.sleep(left_s)
                    break
                polled = await consumer.poll(left_s)
                seen += len(polled)
                size_bytes += sum(size_of(each) for each in polled)
                found += [each for each in polled if matches is None or matches(each)]
                cursor |= {where.partition: place.offset for where, place in polled.next_offsets.items()}
            skipped = 0
            if seen >= TICK_RECORDS_MAX or size_bytes >= TICK_BYTES_MAX:
                ends = await consumer.end_offsets(*partitions)
                skipped = sum(max(0, end - cursor[where.partition]) for where, end in ends.items())
                for where, end in ends.items():
                    cursor[where.partition] = end
                    consumer.seek(where, end)
            found.sort(key=lambda each: (each.timestamp, each.partition, each.offset))
            shown = found[-TICK_ROWS_MAX:]
            yield Tick(shown, seen, len(found), skipped, loop.time() - began_at, dict(cursor))
