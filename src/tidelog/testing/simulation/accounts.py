"""Balances in a compacted topic, written in transactions: the last committed value of each key stays.

Segments are small and the cleaner is quick, so that compaction meets open and aborted transactions and their markers.
One producer writes all keys. A transaction whose outcome it does not learn leaves two values that each may be right.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from tidelog.client import AsyncConsumer, AsyncProducer, TopicPartition
from tidelog.testing.simulation.workload import Workload

ACCOUNTS_TOPIC: Final = "accounts"
ACCOUNTS_SETTINGS: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": "600",
    "delete.retention.ms": "100",
}
EXPECTED_ACCOUNTS: Final = ("account transactions committed", "account transactions aborted")
"""What happens in every run of many seeds."""
_KEYS: Final = 4


class Accounts:
    """The producer, and what it may have left for each key."""

    def __init__(self, workload: Workload, seed: int) -> None:
        self._workload = workload
        self._random = random.Random(f"accounts {seed}")
        self._possible: dict[bytes, set[bytes]] = {}
        """The values that may be the last committed one of a key."""

    async def life(self) -> None:
        """What a client does, from its start to its end or its first error."""
        settings = self._workload.producer_settings | {
            "transactional.id": "tx-accounts",
            "transaction.timeout.ms": 10_000,
        }
        async with AsyncProducer(settings) as producer:
            await producer.init_transactions()
            while not self._workload.is_stopping:
                await self._change(producer)
                await asyncio.sleep(self._random.uniform(0.02, 0.4))

    async def _change(self, producer: AsyncProducer) -> None:
        keys = [b"account-%d" % each for each in self._random.sample(range(_KEYS), self._random.randrange(1, _KEYS))]
        changes = {key: self._workload.new_value("balance") for key in keys}
        await producer.begin()
        for key, value in changes.items():
            await producer.send_and_wait(ACCOUNTS_TOPIC, value, key=key, partition=0)
            if self._random.random() < 0.3:
                await asyncio.sleep(self._random.uniform(0.1, 1.0))
        if self._random.random() < 0.4:
            await producer.abort()
            self._workload.count("account transactions aborted")
            return
        for key, value in changes.items():
            self._possible.setdefault(key, {b""}).add(value)
        await producer.commit()
        for key, value in changes.items():
            self._possible[key] = {value}
        self._workload.count("account transactions committed")

    async def anomalies(self, servers: str) -> list[str]:
        """Keys whose last committed value is not one that was written last."""
        last: dict[bytes, bytes] = {}
        place = TopicPartition(ACCOUNTS_TOPIC, 0)
        settings: dict[str, Any] = {
            "bootstrap.servers": servers,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        async with AsyncConsumer(settings) as consumer:
            await consumer.assign([place])
            end = (await consumer.end_offsets(place))[place]
            while await consumer.position(place) < end:
                for record in await consumer.poll(timeout_s=1):
                    last[record.key or b""] = record.value or b""
        return [
            f"lost write: the last committed value of {key!r} is {last.get(key, b'')!r}, expected {sorted(values)}"
            for key, values in sorted(self._possible.items())
            if last.get(key, b"") not in values
        ]
