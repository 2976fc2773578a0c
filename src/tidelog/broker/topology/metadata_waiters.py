"""Requests that wait until the cluster image shows something: a topic with leaders, a topic gone, a new leader.

The controller decides, every broker is informed by UpdateMetadata, and only then is the client answered: its next
request finds the change here. Kafka's DelayedCreatePartitions, DelayedDeleteTopics and DelayedElectLeader do the same.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

TOPIC: Final = "topic"
ELECT_LEADER: Final = "ElectLeader"
"""What is waited for, by Kafka's names of its purgatories."""


class MetadataWaiters:
    """Conditions over the image, looked at after each change of it."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self._counts = Counter({TOPIC: 0, ELECT_LEADER: 0})

    @property
    def counts(self) -> Mapping[str, int]:
        """How many requests wait, by what they wait for."""
        return self._counts

    async def wait(self, condition: Callable[[], bool], timeout_ms: int, kind: str = TOPIC) -> bool:
        """Whether `condition` holds within the time given."""
        if condition():
            return True
        if timeout_ms <= 0:
            return False
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = condition
        self._counts[kind] += 1
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await future
        except TimeoutError:
            return condition()
        finally:
            del self._waiting[future]
            self._counts[kind] -= 1
        return True

    def check(self) -> None:
        """The image has changed."""
        for future, condition in self._waiting.items():
            if not future.done() and condition():
                future.set_result(None)
