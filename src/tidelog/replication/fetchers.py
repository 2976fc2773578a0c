"""The fetchers of a follower: one for each leader and number, up to `num.replica.fetchers` for each leader.

A partition always goes to the fetcher of the same number, so that two of them never write to one log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from zlib import crc32

from tidelog.replication.fetcher import Fetcher
from tidelog.replication.partition import Partition
from tidelog.wire.partitions import PartitionKey

FetcherKey = tuple[int, int]
"""The leader, and the number of the fetcher."""


class FetcherManager:
    """Decides which fetcher follows which partition."""

    def __init__(
        self, new_fetcher: Callable[[int], Fetcher], wake: Callable[[FetcherKey, Fetcher], None], count: int = 1
    ) -> None:
        """`wake` is called when a fetcher has new work, and for each new fetcher."""
        self._new_fetcher = new_fetcher
        self._wake = wake
        self._count = count
        self._fetchers: dict[FetcherKey, Fetcher] = {}
        self._places: dict[PartitionKey, FetcherKey] = {}
        self.retired_bytes = 0
        """What fetchers have fetched that are no more."""
        self.retired_reassignment_bytes = 0

    def bytes_fetched(self) -> tuple[int, int]:
        """What was fetched from leaders since the start, and how much of it for partitions that a reassignment adds."""
        fetchers = self._fetchers.values()
        return (
            self.retired_bytes + sum(each.bytes_fetched for each in fetchers),
            self.retired_reassignment_bytes + sum(each.reassignment_bytes_fetched for each in fetchers),
        )

    def __iter__(self) -> Iterator[tuple[FetcherKey, Fetcher]]:
        return iter(list(self._fetchers.items()))

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its leader, in its leader epoch; no longer from the one before."""
        key = partition.leader_id, self._number_of(partition.key)
        if self._places.get(partition.key, key) != key:
            self.unfollow((partition.key,))
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = self._new_fetcher(partition.leader_id)
        self._places[partition.key] = key
        fetcher.add(partition)
        self._wake(key, fetcher)

    def unfollow(self, keys: Iterable[PartitionKey]) -> None:
        """Fetch these partitions no more."""
        for key in keys:
            place = self._places.pop(key, None)
            if place is not None:
                self._fetchers[place].remove((key,))

    def retire(self, key: FetcherKey) -> bool:
        """Forget a fetcher that follows nothing; whether that is so."""
        fetcher = self._fetchers.get(key)
        if fetcher is not None and len(fetcher):
            return False
        retired = self._fetchers.pop(key, None)
        if retired is not None:
            self.retired_bytes += retired.bytes_fetched
            self.retired_reassignment_bytes += retired.reassignment_bytes_fetched
        return True

    def set_count(self, count: int) -> None:
        """Follow a changed `num.replica.fetchers`: every partition goes to the fetcher of its new number."""
        self._count = count
        moved = [
            (place, partition)
            for place, fetcher in self._fetchers.items()
            for partition in fetcher.partitions()
            if self._number_of(partition.key) != place[1]
        ]
        for _, partition in moved:
            self.follow(partition)

    def _number_of(self, key: PartitionKey) -> int:
        return (crc32(key[0].encode()) * 31 + key[1]) % self._count
