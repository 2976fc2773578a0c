"""Writes what follows from handled records: retries, dead letters and offsets, in one transaction."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.client.aio.producer.producer import AsyncProducer
from tidelog.client.errors import ClientError, IllegalState
from tidelog.client.retry.policy import Forward
from tidelog.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

# A member that was killed inside a transaction delays those who read its partitions next by this long.
TRANSACTION_TIMEOUT_MS = 10_000


class Writer:
    """One transactional producer, replaced when it can only be closed. Brokers fence members by their generation."""

    def __init__(self, group: str, settings: Mapping[str, Any]) -> None:
        self._group = group
        self._settings = settings
        self._producer: AsyncProducer[bytes, bytes] | None = None

    async def write(
        self,
        forwards: Iterable[Forward],
        places: Mapping[TopicPartition, OffsetAndMetadata],
        member: ConsumerGroupMetadata,
    ) -> None:
        """All or nothing. Raises ClientError; what a write that failed left is undone."""
        producer = await self.start()
        try:
            async with producer.transaction():
                for each in forwards:
                    await producer.send(
                        each.topic, each.value, each.key, partition=each.partition, headers=each.headers
                    )
                await producer.send_offsets_to_transaction(places, member)
        except ClientError as error:
            if error.fatal or isinstance(error, IllegalState):
                await self.close()
            raise

    async def start(self) -> AsyncProducer[bytes, bytes]:
        """The producer, ready for transactions."""
        if self._producer is None:
            producer: AsyncProducer[bytes, bytes] = AsyncProducer(
                {
                    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                    **self._settings,
                    "transactional.id": f"{self._group}-retry-{uuid.uuid4()}",
                }
            )
            await producer.start()
            try:
                await producer.init_transactions()
            except BaseException:
                await producer.close(0)
                raise
            self._producer = producer
        return self._producer

    async def close(self) -> None:
        """End; nothing is under way."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close(5)
