"""The assignors that run on the broker (KIP-848).

uniform   members have equal numbers of partitions, within one; a member keeps its partitions if possible
range     members get consecutive partitions of each topic, so that the same members read co-partitioned topics
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import Final, NamedTuple, TypeAlias

from tidelog.groups.consumer.schemas import Assignment

Partition: TypeAlias = tuple[bytes, int]


class Subscriber(NamedTuple):
    """A member as assignors see it: the ids of the topics it reads, and its previous target."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    before: Assignment


Assignor = Callable[[Sequence[Subscriber], Mapping[bytes, int]], dict[str, Assignment]]
"""Takes members and the number of partitions by topic id; returns each member's target."""


def assign_range(members: Sequence[Subscriber], partition_counts: Mapping[bytes, int]) -> dict[str, Assignment]:
    """Split each topic among its members in order: static ones first, by instance id."""
    ordered = sorted(members, key=lambda member: (member.instance_id is None, member.instance_id or member.member_id))
    result: dict[str, dict[bytes, frozenset[int]]] = {member.member_id: {} for member in members}
    for topic_id, count in partition_counts.items():
        readers = [member for member in ordered if topic_id in member.topic_ids]
        if not readers:
            continue
        share, extra = divmod(count, len(readers))
        start = 0
        for position, member in enumerate(readers):
            end = start + share + (position < extra)
            if end > start:
                result[member.member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(result)


def assign_uniform(members: Sequence[Subscriber], partition_counts: Mapping[bytes, int]) -> dict[str, Assignment]:
    """Keep partitions where possible, give free ones to the members with the fewest, then even out the rest."""
    if len({member.topic_ids for member in members}) == 1 and _is_one_assignment(members, partition_counts):
        return assign_alike(members, partition_counts)
    return assign_unlike(members, partition_counts)


def _is_one_assignment(members: Sequence[Subscriber], partition_counts: Mapping[bytes, int]) -> bool:
    """Whether the previous targets do not overlap and have only partitions that exist."""
    for topic_id in {topic_id for member in members for topic_id in member.before}:
        parts = [member.before[topic_id] for member in members if topic_id in member.before]
        together = frozenset[int]().union(*parts)
        if len(together) != sum(map(len, parts)) or max(together, default=-1) >= partition_counts.get(topic_id, 0):
            return False
        if topic_id not in members[0].topic_ids:
            return False
    return True


def assign_alike(members: Sequence[Subscriber], partition_counts: Mapping[bytes, int]) -> dict[str, Assignment]:
    """For equal subscriptions. Only moved partitions cost time, because a thousand members join one after the other."""
    ordered = sorted(members, key=lambda member: member.member_id)
    topic_ids = [topic_id for topic_id in sorted(partition_counts) if topic_id in ordered[0].topic_ids]
    limit, spare = divmod(sum(partition_counts[topic_id] for topic_id in topic_ids), len(ordered))
    result: dict[str, Assignment] = {}
    sizes: list[tuple[int, str]] = []
    for member in ordered:
        size, kept, room = sum(map(len, member.before.values())), member.before, limit
        if size > limit and spare > 0:
            room, spare = limit + 1, spare - 1
        if size > room:
            size, kept = room, _first(kept, room)
        result[member.member_id] = kept
        sizes.append((size, member.member_id))
    gains: dict[str, dict[bytes, set[int]]] = {}
    heapify(sizes)
    for topic_id in topic_ids:
        held = frozenset[int]().union(*[kept[topic_id] for kept in result.values() if topic_id in kept])
        for index in sorted(frozenset(range(partition_counts[topic_id])) - held):
            size, member_id = sizes[0]
            gains.setdefault(member_id, {}).setdefault(topic_id, set()).add(index)
            heapreplace(sizes, (size + 1, member_id))
    for member_id, gained in gains.items():
        kept = result[member_id]
        result[member_id] = {
            topic_id: kept.get(topic_id, frozenset()) | gained.get(topic_id, set()) for topic_id in {*kept, *gained}
        }
    return result


def _first(assignment: Assignment, count: int) -> Assignment:
    """The first `count` partitions, in the order of topics and numbers."""
    found: dict[bytes, frozenset[int]] = {}
    for topic_id in sorted(assignment):
        part = sorted(assignment[topic_id])[:count]
        count -= len(part)
        if part:
            found[topic_id] = frozenset(part)
    return found


def assign_unlike(members: Sequence[Subscriber], partition_counts: Mapping[bytes, int]) -> dict[str, Assignment]:
    """For any subscriptions, partition by partition."""
    holdings = _Holdings(members, partition_counts)
    holdings.keep_what_was()
    holdings.hand_out_free()
    holdings.even_out()
    return holdings.result()


class _Holdings:
    """The partitions of each member while an assignment is computed."""

    def __init__(self, members: Sequence[Subscriber], partition_counts: Mapping[bytes, int]) -> None:
        self._members = {member.member_id: member for member in sorted(members, key=lambda member: member.member_id)}
        self._counts = partition_counts
        self._held: dict[str, set[Partition]] = {member_id: set() for member_id in self._members}
        self._owner: dict[Partition, str] = {}
        self._readers: dict[bytes, list[str]] = {
            topic_id: [name for name, member in self._members.items() if topic_id in member.topic_ids]
            for topic_id in partition_counts
        }

    def keep_what_was(self) -> None:
        """A member keeps its previous target; with equal subscriptions, no more than its share."""
        limit, spare = self._shares()
        for member_id, member in self._members.items():
            wanted = [
                (topic_id, partition)
                for topic_id in sorted(member.before)
                if topic_id in member.topic_ids
                for partition in sorted(member.before[topic_id])
                if partition < self._counts.get(topic_id, 0) and (topic_id, partition) not in self._owner
            ]
            room = limit
            if len(wanted) > limit and spare > 0:
                room, spare = limit + 1, spare - 1
            for partition in wanted[:room]:
                self._give(partition, member_id)

    def _shares(self) -> tuple[int, int]:
        """Partitions each member may hold, and how many may hold one more; no limit if subscriptions differ."""
        subscriptions = {member.topic_ids for member in self._members.values()}
        total = sum(count for topic_id, count in self._counts.items() if self._readers[topic_id])
        if len(subscriptions) == 1:
            return divmod(total, len(self._members))
        return total, 0

    def hand_out_free(self) -> None:
        """Assign free partitions, topics with few readers first: those have the least choice."""
        for topic_id in sorted(self._counts, key=lambda topic_id: (len(self._readers[topic_id]), topic_id)):
            readers = self._readers[topic_id]
            free = [index for index in range(self._counts[topic_id]) if (topic_id, index) not in self._owner]
            if not readers or not free:
                continue
            by_size = [(self._size(member_id), member_id) for member_id in readers]
            heapify(by_size)
            for index in free:
                size, member_id = by_size[0]
                self._give((topic_id, index), member_id)
                heapreplace(by_size, (size + 1, member_id))

    def even_out(self) -> None:
        """Move partitions from members with more to members with at least two fewer, while there are any.

        With equal subscriptions there is nothing to do: no member kept more than its share.
        """
        while len({member.topic_ids for member in self._members.values()}) > 1 and any(
            self._even_out(topic_id, readers) for topic_id, readers in self._readers.items() if readers
        ):
            continue

    def _even_out(self, topic_id: bytes, readers: Sequence[str]) -> bool:
        """Within one topic; whether anything was moved."""
        has_moved = False
        poorest = min(readers, key=self._size)
        for index in range(self._counts[topic_id]):
            owner = self._owner[topic_id, index]
            if self._size(owner) > self._size(poorest) + 1:
                self._held[owner].discard((topic_id, index))
                self._give((topic_id, index), poorest)
                poorest = min(readers, key=self._size)
                has_moved = True
        return has_moved

    def result(self) -> dict[str, Assignment]:
        found: dict[str, Assignment] = {}
        for member_id, partitions in self._held.items():
            by_topic: dict[bytes, set[int]] = {}
            for topic_id, partition in partitions:
                by_topic.setdefault(topic_id, set()).add(partition)
            found[member_id] = {topic_id: frozenset(indexes) for topic_id, indexes in by_topic.items()}
        return found

    def _give(self, partition: Partition, member_id: str) -> None:
        self._held[member_id].add(partition)
        self._owner[partition] = member_id

    def _size(self, member_id: str) -> int:
        return len(self._held[member_id])


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}
"""By the names that clients send; the first is the default."""
