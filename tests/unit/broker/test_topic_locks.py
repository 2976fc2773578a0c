"""One change of a topic at a time, and nothing kept of topics that do not change."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any, cast

from tidelog.broker.topology.own_topics import OwnTopics


def test_a_lock_lives_as_long_as_a_task_holds_or_awaits_it() -> None:
    """A name is a client's choice: a lock for each name that was ever used would be a leak."""

    async def claim() -> None:
        names = ("broker_id", "settings", "image", "metadata", "replica_manager", "topics")
        base = SimpleNamespace(slices=None, log_manager=None)
        parts = SimpleNamespace(base=base, **dict.fromkeys(names))
        topics = OwnTopics(cast(Any, parts), cast(Any, None))
        order: list[int] = []
        gate = asyncio.Event()

        async def change(number: int) -> None:
            async with topics._lock_of("t"):
                order.append(number)
                await gate.wait()
                order.append(number)

        tasks = [asyncio.create_task(change(number)) for number in range(3)]
        await asyncio.sleep(0)
        gc.collect()
        assert len(topics._topic_locks) == 1
        gate.set()
        await asyncio.gather(*tasks)
        assert order == [0, 0, 1, 1, 2, 2]
        del tasks
        gc.collect()
        assert len(topics._topic_locks) == 0

    asyncio.run(claim())
