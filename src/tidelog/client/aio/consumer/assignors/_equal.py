"""Sticky assignment where every member subscribed to the same topics: quotas decide, one pass over the partitions.

Every member gets P/M partitions, and P mod M members one more. A member keeps its partitions up to its quota; the rest
is dealt to members below their quota. `sticky` is the caller.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from tidelog.client.aio.consumer.assignors.base import PartitionRacks, Plan, Topics, racks_differ
from tidelog.client.types import TopicPartition

Claims = Mapping[str, Sequence[TopicPartition]]


def assign_equally(
    topics: Mapping[str, Sequence[PartitionRacks]],
    members: Sequence[str],
    claims: Claims,
    racks: Mapping[str, str | None],
) -> Plan:
    """The plan for `members`, all subscribed to all `topics`; `claims` hold only partitions that exist, each once."""
    partitions = {TopicPartition(topic, each.partition): each.racks for topic in topics for each in topics[topic]}
    quotas = _Quotas(len(partitions), len(members))
    plan = {member: quotas.keep(list(claims.get(member, ()))) for member in members}
    kept = {partition for owned in plan.values() for partition in owned}
    free = [partition for partition in sorted(partitions) if partition not in kept]
    consumer_racks = {rack for member in members if (rack := racks.get(member))}
    if consumer_racks and racks_differ(consumer_racks, partitions.values()):
        free = _match_racks(free, partitions, plan, racks, quotas)
    _deal(free, plan, quotas)
    return plan


class _Quotas:
    """How many partitions a member may have. `extra` members may have one more than the others."""

    __slots__ = ("each", "extra")

    def __init__(self, partition_count: int, member_count: int) -> None:
        self.each, self.extra = divmod(partition_count, member_count)

    def keep(self, owned: list[TopicPartition]) -> list[TopicPartition]:
        """What a member keeps of what it had."""
        if len(owned) > self.each and self.extra:
            self.extra -= 1
            return owned[: self.each + 1]
        return owned[: self.each]

    def has_room(self, count: int) -> bool:
        """Whether a member with `count` partitions may get another one."""
        return count < self.each or (count == self.each and self.extra > 0)

    def take(self, count: int) -> None:
        """A member with `count` partitions gets another one."""
        if count == self.each:
            self.extra -= 1


def _match_racks(
    free: list[TopicPartition],
    partitions: Mapping[TopicPartition, frozenset[str]],
    plan: Plan,
    racks: Mapping[str, str | None],
    quotas: _Quotas,
) -> list[TopicPartition]:
    """Assign partitions with a replica in the rack of a member with room; returns the others."""
    waiting: dict[str, deque[str]] = {}
    for member in sorted(plan, key=lambda member: len(plan[member])):
        if rack := racks.get(member):
            waiting.setdefault(rack, deque()).append(member)
    left: list[TopicPartition] = []
    for partition in free:
        for rack in sorted(partitions[partition]):
            queue = waiting.get(rack)
            # A member below its quota comes before any of the extras is given away.
            if queue and len(plan[queue[0]]) < quotas.each:
                plan[queue[0]].append(partition)
                queue.rotate(-1)
                break
        else:
            left.append(partition)
    return left


def _deal(free: Sequence[TopicPartition], plan: Plan, quotas: _Quotas) -> None:
    """Go round among the members that have room, those below their quota first."""
    below = deque(member for member, owned in plan.items() if len(owned) < quotas.each)
    at_quota = deque(member for member, owned in plan.items() if len(owned) == quotas.each)
    for partition in free:
        queue = below or at_quota
        member = queue.popleft()
        owned = plan[member]
        assert quotas.has_room(len(owned)), "more partitions are left than there is room for"
        quotas.take(len(owned))
        owned.append(partition)
        if len(owned) < quotas.each:
            below.append(member)
        elif len(owned) == quotas.each:
            at_quota.append(member)


def is_uniform(topics: Topics, wanted: Mapping[str, frozenset[str]]) -> bool:
    """Whether all members subscribe to the same existing topics."""
    sets = {frozenset(topic for topic in each if topic in topics) for each in wanted.values()}
    return len(sets) == 1
