"""The queue of fetched records that `poll` has not returned yet, as `CompletedFetch`.

Of each partition up to two fetches are kept: the one that is being taken, and the next, which was asked for while the
first was still there. A fetch is of use only as long as it begins where the partition's position is; after a seek or a
reset it is dropped. Pure; the engine takes, `Fetcher` adds and asks where to fetch from.
"""

from collections import deque
from typing import Any, Final

from tidelog.client.aio.consumer.completed_fetch import CompletedFetch
from tidelog.client.aio.consumer.partition_state import PartitionState, Position
from tidelog.client.aio.consumer.subscription import SubscriptionState
from tidelog.client.aio.consumer.types import ConsumerRecord, ConsumerRecords, FetchedBatches
from tidelog.client.errors import ClientError
from tidelog.client.types import OffsetAndMetadata, TopicPartition

FETCHES_PER_PARTITION_MAX: Final = 2


class FetchBuffer:
    """The fetches of all partitions, in order of arrival."""

    __slots__ = ("_by_partition", "_queue", "_subscription", "bytes_fetched", "records_returned")

    def __init__(self, subscription: SubscriptionState) -> None:
        self._subscription = subscription
        self._queue: deque[CompletedFetch] = deque()
        self.records_returned = 0
        self.bytes_fetched = 0
        """Of all partitions, also those that are no longer assigned."""
        self._by_partition: dict[TopicPartition, deque[CompletedFetch]] = {}

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, fetch: CompletedFetch) -> bool:
        """Keep `fetch`, unless the partition is read elsewhere by now."""
        state = self._subscription.partitions.get(fetch.topic_partition)
        if state is None or state.position is None or self.next_offset(state) != fetch.next_offset:
            return False
        state.bytes_fetched += fetch.size_bytes
        self.bytes_fetched += fetch.size_bytes
        self._queue.append(fetch)
        self._by_partition.setdefault(fetch.topic_partition, deque()).append(fetch)
        return True

    def next_offset(self, state: PartitionState) -> int | None:
        """Where the next fetch of a partition begins; None if enough was fetched ahead."""
        position = state.position
        assert position is not None, f"{state.topic_partition} is {state.state} and has no position"
        waiting = self._by_partition.get(state.topic_partition)
        if not waiting:
            return position.offset
        if waiting[0].next_offset != position.offset:
            self.drop(state.topic_partition)
            return position.offset
        return waiting[-1].end_offset if len(waiting) < FETCHES_PER_PARTITION_MAX else None

    def count_for(self, partition: TopicPartition) -> int:
        """How many fetches of a partition are waiting."""
        return len(self._by_partition.get(partition, ()))

    def drop(self, partition: TopicPartition) -> None:
        """Forget what was fetched of a partition."""
        for fetch in self._by_partition.pop(partition, ()):
            self._queue.remove(fetch)

    def drop_unassigned(self) -> None:
        """Forget what was fetched of partitions that are no longer assigned."""
        for partition in [each for each in self._by_partition if each not in self._subscription.partitions]:
            self.drop(partition)

    def take(self, limit: int) -> ConsumerRecords[Any, Any] | None:
        """Up to `limit` records, in order of arrival, positions moved behind them. None if no position moved.

        What a broken record raises comes out alone: records before it are returned first.
        """
        taken: dict[TopicPartition, list[ConsumerRecord[Any, Any]]] = {}
        moved: dict[TopicPartition, OffsetAndMetadata] = {}
        for fetch in list(self._queue):
            if limit <= 0:
                break
            state = self._usable(fetch)
            if state is None:
                continue
            try:
                records = fetch.take(limit)
            except ClientError:
                if moved:
                    break
                if fetch.is_failed:
                    self._finish(fetch)
                raise
            self._move(state, fetch, moved)
            if records:
                limit -= len(records)
                state.records_returned += len(records)
                self.records_returned += len(records)
                taken.setdefault(fetch.topic_partition, []).extend(records)
        return ConsumerRecords(taken, moved) if moved else None

    def take_batches(self) -> list[FetchedBatches]:
        """Everything that may be returned now, as whole batches. As with `take`, an error comes out alone."""
        taken: list[FetchedBatches] = []
        for fetch in list(self._queue):
            state = self._usable(fetch)
            if state is None:
                continue
            try:
                batches = fetch.take_batches()
            except ClientError:
                if taken:
                    break
                if fetch.is_failed:
                    self._finish(fetch)
                raise
            taken.append(batches)
            self._move(state, fetch, {})
        return taken

    def _usable(self, fetch: CompletedFetch) -> PartitionState | None:
        """The state of the partition, if its records may be returned: stale ones are dropped, paused ones wait."""
        waiting = self._by_partition.get(fetch.topic_partition)
        if not waiting or waiting[0] is not fetch:
            return None
        state = self._subscription.partitions.get(fetch.topic_partition)
        position = None if state is None else state.position
        if state is None or position is None or position.offset != fetch.next_offset:
            self.drop(fetch.topic_partition)
            return None
        return state if state.is_fetchable else None

    def _move(
        self, state: PartitionState, fetch: CompletedFetch, moved: dict[TopicPartition, OffsetAndMetadata]
    ) -> None:
        before = state.position
        assert before is not None, f"{fetch.topic_partition} has records but no position"
        if fetch.is_done:
            self._finish(fetch)
        if fetch.next_offset != before.offset:
            epoch = fetch.next_epoch if fetch.next_epoch >= 0 else before.epoch
            state.position = Position(fetch.next_offset, epoch)
            moved[fetch.topic_partition] = OffsetAndMetadata(fetch.next_offset, "", epoch)

    def _finish(self, fetch: CompletedFetch) -> None:
        self._queue.remove(fetch)
        waiting = self._by_partition[fetch.topic_partition]
        waiting.remove(fetch)
        if not waiting:
            del self._by_partition[fetch.topic_partition]
