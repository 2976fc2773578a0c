"""Small producers' parts for tests: settings, a topic's metadata, an accumulator with its topic queue."""

from typing import Any

from tidelog.client.aio.metadata import MetadataCache
from tidelog.client.aio.producer.accumulator import Accumulator, PartitionQueue, TopicQueue
from tidelog.client.aio.producer.batch import ProducerBatch
from tidelog.client.aio.producer.buffer_pool import BufferPool
from tidelog.client.aio.producer.sequences import ProducerIdentity, SequenceTracker
from tidelog.client.aio.producer.settings import ProducerSettings, load_producer_settings
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

TOPIC = "topic"


def settings_with(**keywords: Any) -> ProducerSettings:
    return load_producer_settings({"bootstrap.servers": "fake:1"}, keywords)


def metadata_of(*leaders: int, epoch: int = 0, brokers: tuple[int, ...] = (1, 2)) -> MetadataCache:
    """A topic whose partitions are led by these brokers."""
    cache = MetadataCache(max_age_ms=1 << 40)
    reply = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=number, host="fake", port=number) for number in brokers],
        topics=[
            MetadataResponseTopic(
                name=TOPIC,
                partitions=[
                    MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=epoch)
                    for index, leader in enumerate(leaders)
                ],
            )
        ],
    )
    cache.update(reply, 0, wanted=[TOPIC])
    return cache


class Bench:
    """An accumulator with one topic."""

    def __init__(
        self, *leaders: int, is_idempotent: bool = False, is_transactional: bool = False, **keywords: Any
    ) -> None:
        self.settings = settings_with(**keywords)
        self.pool = BufferPool(self.settings.buffer_memory, self.settings.batch_size)
        self.sequence_tracker: SequenceTracker | None = None
        if is_idempotent or is_transactional:
            self.sequence_tracker = SequenceTracker(is_transactional=is_transactional)
            self.sequence_tracker.take_identity(ProducerIdentity(7, 0))
        self.accumulator = Accumulator(self.settings, self.pool, self.sequence_tracker)
        self.learn(*leaders)

    def learn(self, *leaders: int, epoch: int = 0) -> None:
        cache = metadata_of(*leaders, epoch=epoch)
        self.topic_queue: TopicQueue = self.accumulator.learn(cache.topics[TOPIC], cache)

    def queue(self, partition: int = 0) -> PartitionQueue:
        return self.topic_queue.queues[partition]

    def add(self, value: bytes = b"value", partition: int = 0, now_ms: int = 0) -> ProducerBatch:
        """One record into the open batch of a partition, or into a new one."""
        queue = self.queue(partition)
        batch = queue.open
        if batch is None or batch.size_bytes + 13 + len(value) > batch.limit_bytes:
            batch = self.accumulator.begin_batch(queue, 13 + len(value), now_ms)
            assert batch is not None, "no memory"
        batch.records.append((1_700_000_000_000, None, value, ()))
        batch.size_bytes += 13 + len(value)
        return batch

    def drain(self, now_ms: int, limit_bytes: int = 1 << 20) -> list[ProducerBatch]:
        """What goes out in one request to each broker."""
        ready = self.accumulator.ready(now_ms)
        return [
            batch for queues in ready.nodes.values() for batch in self.accumulator.drain(queues, now_ms, limit_bytes)
        ]
