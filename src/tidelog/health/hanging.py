"""Transactions that are open in a partition and that no coordinator will end.

A transaction hangs if its producer has been silent for longer than any timeout allows and its coordinator does not know
that the partition takes part in it. read_committed consumers and compaction stop at it.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from tidelog.client.aio.admin.admin import AsyncAdmin
from tidelog.client.aio.admin.types import ActiveProducer
from tidelog.client.types import TopicPartition

SILENT_MS: Final = 15 * 60_000
"""The default of transaction.max.timeout.ms."""


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition."""

    where: TopicPartition
    producer: ActiveProducer


async def hanging_transactions(
    admin: AsyncAdmin, partitions: Collection[TopicPartition], now_ms: int, silent_ms: int = SILENT_MS
) -> list[OpenTransaction]:
    """Those of these partitions whose producers have written nothing for `silent_ms`."""
    if not partitions:
        return []
    producers = await admin.describe_producers(partitions)
    candidates = [
        OpenTransaction(where, each)
        for where, found in sorted(producers.items())
        for each in found
        if each.transaction_start_offset >= 0 and each.last_timestamp < now_ms - silent_ms
    ]
    if not candidates:
        return []
    listed = await admin.list_transactions(producer_ids={each.producer.producer_id for each in candidates})
    described = await admin.describe_transactions([each.transactional_id for each in listed]) if listed else {}
    known = {(each.producer_id, where) for each in described.values() for where in each.partitions}
    return [each for each in candidates if (each.producer.producer_id, each.where) not in known]
