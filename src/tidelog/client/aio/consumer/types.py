"""The plain data that a consumer takes and gives."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Generic, NamedTuple

from tidelog.client.serialization import Headers, K, V
from tidelog.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from tidelog.records.header import TimestampType

__all__ = [
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "ConsumerRecords",
    "FetchedBatches",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TimestampType",
    "TopicPartition",
]


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a time."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """One record, as `poll` returns it. Key and value are bytes unless deserializers were given."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: K | None
    value: V | None
    headers: Headers
    timestamp_type: TimestampType
    leader_epoch: int
    """The epoch of the leader that appended the record; -1 for what was written before epochs were kept."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Where the record is."""
        return TopicPartition(self.topic, self.partition)


class ConsumerRecords(Generic[K, V]):
    """What one `poll` returned: the records of each partition in order. Iterates over all of them."""

    __slots__ = ("_by_partition", "_next_offsets")

    def __init__(
        self,
        by_partition: Mapping[TopicPartition, Sequence[ConsumerRecord[K, V]]],
        next_offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> None:
        self._by_partition = by_partition
        self._next_offsets = next_offsets

    def __len__(self) -> int:
        return sum(map(len, self._by_partition.values()))

    def __bool__(self) -> bool:
        return bool(self._by_partition)

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        return chain.from_iterable(self._by_partition.values())

    def __repr__(self) -> str:
        return f"ConsumerRecords({ {str(each): len(records) for each, records in self._by_partition.items()} })"

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that records came from."""
        return tuple(self._by_partition)

    def of(self, partition: TopicPartition) -> Sequence[ConsumerRecord[K, V]]:
        """The records of one partition; empty if none came."""
        return self._by_partition.get(partition, ())

    def of_topic(self, topic: str) -> Iterator[ConsumerRecord[K, V]]:
        """The records of all partitions of a topic."""
        for partition, records in self._by_partition.items():
            if partition.topic == topic:
                yield from records

    def items(self) -> Iterator[tuple[TopicPartition, Sequence[ConsumerRecord[K, V]]]]:
        """Partitions with their records."""
        return iter(self._by_partition.items())

    @property
    def next_offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """What to commit once all these records are processed. Goes past markers and gaps that have no record."""
        return self._next_offsets


NO_RECORDS: Final[ConsumerRecords[Any, Any]] = ConsumerRecords({}, {})


class FetchedBatches(NamedTuple):
    """Whole record batches of one partition, not decoded: what `poll_batches` returns."""

    topic: str
    partition: int
    data: memoryview
    """One or more whole batches as they were stored. The first may begin before `first_offset`."""
    first_offset: int
    """Records before this offset were not requested and must be dropped."""
    next_offset: int
    """The position after these batches."""
    aborted: tuple[tuple[int, int], ...]
    """With read_committed: (producer id, first offset) of aborted transactions, whose records are to be left out."""
