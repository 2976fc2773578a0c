"""The built-in partitioners, and the interface for custom ones.

Built in, as in Kafka's Java client: keys by murmur2; records without key stick to one partition for about a batch and
then move on, more often to partitions whose brokers keep up (KIP-794). An own partitioner is anything with

    def partition(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int

or a plain function of these arguments.
"""

import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tidelog.client.aio.producer.accumulator import PartitionQueue, TopicQueue
from tidelog.client.errors import ClientConfigError
from tidelog.client.partitioner import partition_for_key

Choose = Callable[[str, bytes | None, bytes | None, int], int]


class Partitioner(Protocol):
    """An own partitioner."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        """The partition of a record, from 0 to `partition_count` - 1."""
        ...


class RoundRobinPartitioner:
    """One record after the other to the next partition, keys or not."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        """The partition after the one before."""
        del key, value
        chosen = self._next.get(topic, 0) % partition_count
        self._next[topic] = chosen + 1
        return chosen


class ConsistentRandomPartitioner:
    """As librdkafka and the clients on it do by default: CRC-32 of the key, and anywhere without one."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        """The partition of the key, or any."""
        del topic, value
        if key:
            return zlib.crc32(key) % partition_count
        return random.randrange(partition_count)


class Murmur2RandomPartitioner:
    """Keys as the built-in one puts them; each record without key anywhere, whatever the batches."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        """The partition of the key, or any."""
        del topic, value
        return random.randrange(partition_count) if key is None else partition_for_key(key, partition_count)


def own_partitioner(given: Any) -> Choose | None:
    """The function behind what `partitioner.class` holds: an object, a class or a function."""
    if given is None:
        return None
    if isinstance(given, type):
        given = given()
    method = getattr(given, "partition", given)
    if not callable(method):
        raise ClientConfigError(f"partitioner.class={given!r} has no method partition and is not a function")
    chosen: Choose = method
    return chosen


def choose_sticky(
    topic_queue: TopicQueue, *, is_adaptive: bool, random_unit: Callable[[], float] = random.random
) -> PartitionQueue:
    """Where records without key go next: any partition with a leader, those with short queues more likely."""
    queues: Sequence[PartitionQueue] = topic_queue.available or topic_queue.queues[: topic_queue.partition_count]
    if len(queues) == 1:
        return queues[0]
    if not is_adaptive:
        return queues[int(random_unit() * len(queues))]
    longest = max(len(queue.batches) for queue in queues)
    weights = [longest + 1 - len(queue.batches) for queue in queues]
    mark = random_unit() * sum(weights)
    for queue, weight in zip(queues, weights, strict=True):
        mark -= weight
        if mark < 0:
            return queue
    return queues[-1]
