"""Which records of each partition are finished, and how far the group may commit. Pure.

Records finish in any order; a partition may be committed up to its first record that is not finished. What has to be
written because a record failed is handed out together with the position after that record, so that one transaction
holds both. A record of a partition that was revoked may still finish; that changes nothing any more.
"""

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.client.retry.order import Change
from tidelog.client.retry.policy import Forward
from tidelog.client.types import OffsetAndMetadata, TopicPartition


@dataclass(slots=True, eq=False)
class Entry:
    """A record that was taken; `forwards` is set when it is finished."""

    partition: TopicPartition
    offset: int
    forwards: tuple[Forward, ...] | None = None
    changes: tuple[Change, ...] = ()
    """Of the order of keys."""


@dataclass(slots=True)
class _Partition:
    entries: deque[Entry] = field(default_factory=deque)
    next_offset: int = -1
    committed: int = -1


class Commit(NamedTuple):
    """What one transaction writes."""

    places: dict[TopicPartition, OffsetAndMetadata]
    forwards: list[Forward]
    changes: list[Change]
    entries: dict[TopicPartition, int]
    """How many records of each partition it finishes."""


class Ledger:
    """The records in memory, by partition."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Partition] = {}

    def __len__(self) -> int:
        return sum(len(each.entries) for each in self._partitions.values())

    def take(self, partition: TopicPartition, offsets: Iterable[int], next_offset: int) -> list[Entry]:
        """Records that were read, and the position after them."""
        found = self._partitions.setdefault(partition, _Partition())
        entries = [Entry(partition, offset) for offset in offsets]
        found.entries.extend(entries)
        found.next_offset = next_offset
        return entries

    def committable(self) -> Commit | None:
        """What can be committed now; None if nothing can."""
        commit = Commit({}, [], [], {})
        for where, each in self._partitions.items():
            finished = 0
            for entry in each.entries:
                if entry.forwards is None:
                    break
                commit.forwards.extend(entry.forwards)
                commit.changes.extend(entry.changes)
                finished += 1
            position = each.entries[finished].offset if finished < len(each.entries) else each.next_offset
            if position > each.committed and (finished or not each.entries):
                commit.places[where] = OffsetAndMetadata(position)
                commit.entries[where] = finished
        return commit if commit.places else None

    def committed(self, commit: Commit) -> None:
        """That transaction is committed."""
        for where, place in commit.places.items():
            found = self._partitions.get(where)
            if found is not None:
                found.committed = place.offset
                for _ in range(commit.entries[where]):
                    found.entries.popleft()

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions that other members read now."""
        for each in partitions:
            self._partitions.pop(each, None)
