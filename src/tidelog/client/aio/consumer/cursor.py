"""Tracks which records of one poll an iterating application has received.

`poll` moves positions behind all records it returns. An iteration is given them one at a time, so until then those
that follow must be neither committed nor skipped if the iteration ends early.
"""

from collections.abc import Iterator
from typing import Generic

from tidelog.client.aio.consumer.types import ConsumerRecord, ConsumerRecords
from tidelog.client.serialization import K, V
from tidelog.client.types import OffsetAndMetadata, TopicPartition


class Cursor(Generic[K, V]):
    """Walks through `records`."""

    __slots__ = ("_current", "_waiting")

    def __init__(self, records: ConsumerRecords[K, V]) -> None:
        self._waiting = dict(records.items())
        self._current: ConsumerRecord[K, V] | None = None

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        while self._waiting:
            partition, records = next(iter(self._waiting.items()))
            for record in records:
                self._current = record
                yield record
            # The position is behind the last record by now, and past markers that may follow it.
            del self._waiting[partition]
            self._current = None

    def held_back(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where to go on, for each partition with records that were not handed out yet."""
        places: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, records in self._waiting.items():
            current = self._current
            if current is None or (current.topic, current.partition) != partition:
                places[partition] = OffsetAndMetadata(records[0].offset)
            elif current is not records[-1]:
                places[partition] = OffsetAndMetadata(current.offset + 1, "", current.leader_epoch)
        return places
