"""What only Tidelog's brokers have: compaction on request, and records that wait for their time."""

from collections.abc import Collection, Iterable
from typing import Final

from tidelog.client.aio.admin.driver import Answers, Driver, answer_of
from tidelog.client.aio.admin.types import Compaction, DelayedListing, DelayedRecord, TopicDescription
from tidelog.client.types import TopicPartition
from tidelog.wire.own_messages import (
    AlterDelayedRecordsRequest,
    AlterDelayedRecordsResponse,
    CompactTopic,
    CompactTopicsRequest,
    CompactTopicsResponse,
    ListDelayedRecordsRequest,
    ListDelayedRecordsResponse,
)

Replica = tuple[int, int]
"""A partition, and a broker that has a replica of it."""

CANCEL: Final = -1
"""The time that cancels a record."""
_NO_DELAYED: Final = "has no delayed records"


async def compact_topic(
    driver: Driver, topic: TopicDescription, partitions: Iterable[int], *, only_status: bool
) -> list[Compaction]:
    """Compact every replica of the partitions, or only return the progress."""
    wanted = set(partitions)
    replicas = [
        (each.partition, broker)
        for each in topic.partitions
        if each.partition in wanted
        for broker in each.replicas
        if broker in driver.client.metadata.nodes
    ]

    async def to_broker(replica: Replica) -> int:
        return await driver.to_broker(replica[1])

    async def ask(node_id: int, items: list[Replica]) -> Answers[Replica, Compaction]:
        request = CompactTopicsRequest(
            topics=[CompactTopic(name=topic.name, partitions=[partition for partition, _ in items])],
            only_status=only_status,
        )
        reply = await driver.send_own(node_id, request, CompactTopicsResponse, "does not support compaction requests")
        return {
            (each.partition_index, node_id): answer_of(
                each.error_code,
                each.error_message,
                Compaction(
                    each.partition_index,
                    node_id,
                    each.state,
                    each.error_message or "",
                    each.bytes_before,
                    each.bytes_after,
                    each.bytes_done,
                    each.bytes_total,
                ),
                f"{topic.name}-{each.partition_index}",
            )
            for topic in reply.topics
            for each in topic.partitions
        }

    return list((await driver.run(replicas, to_broker, ask)).values())


async def list_delayed(
    driver: Driver, topic: str, partitions: Collection[int], key: bytes | None, *, limit: int
) -> dict[int, DelayedListing]:
    """What waits in each partition, the next due first."""

    async def ask(node_id: int, items: list[TopicPartition]) -> Answers[TopicPartition, DelayedListing]:
        request = ListDelayedRecordsRequest(
            topic=topic, partitions=[each.partition for each in items], key=key, of_key=key is not None, limit=limit
        )
        reply = await driver.send_own(node_id, request, ListDelayedRecordsResponse, _NO_DELAYED)
        return {
            TopicPartition(topic, each.partition_index): answer_of(
                each.error_code,
                each.error_message,
                DelayedListing(
                    each.waiting,
                    tuple(
                        DelayedRecord(
                            found.deliver_at_ms, each.partition_index, found.offset, found.key, found.value_bytes
                        )
                        for found in each.records
                    ),
                ),
                f"{topic}-{each.partition_index}",
            )
            for each in reply.partitions
        }

    wanted = [TopicPartition(topic, index) for index in partitions]
    return {where.partition: found for where, found in (await driver.run(wanted, driver.to_leader, ask)).items()}


async def alter_delayed(
    driver: Driver,
    topic: str,
    partitions: Collection[int],
    deliver_at_ms: int,
    *,
    key: bytes | None,
    offset: int | None,
) -> int:
    """Give records that wait another time, or cancel them; how many."""

    async def ask(node_id: int, items: list[TopicPartition]) -> Answers[TopicPartition, int]:
        request = AlterDelayedRecordsRequest(
            topic=topic,
            partitions=[each.partition for each in items],
            key=key,
            of_key=key is not None,
            offset=-1 if offset is None else offset,
            deliver_at_ms=deliver_at_ms,
        )
        reply = await driver.send_own(node_id, request, AlterDelayedRecordsResponse, _NO_DELAYED)
        return {
            TopicPartition(topic, each.partition_index): answer_of(
                each.error_code, each.error_message, each.changed, f"{topic}-{each.partition_index}"
            )
            for each in reply.partitions
        }

    wanted = [TopicPartition(topic, index) for index in partitions]
    return sum((await driver.run(wanted, driver.to_leader, ask)).values())
