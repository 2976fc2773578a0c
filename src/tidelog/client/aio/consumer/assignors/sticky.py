"""Sticky: as even as can be, and as little moved as that allows (KIP-54); cooperative-sticky adds KIP-429's two steps.

Members report the partitions they had: `sticky` puts it into its user data, `cooperative-sticky` reads the owned
partitions of the subscription. A claim from an older generation gives way to a newer one; of two claims from the same
generation neither can be believed.
"""

from collections.abc import Mapping
from struct import Struct

from tidelog.client.aio.consumer.assignors._equal import assign_equally, is_uniform
from tidelog.client.aio.consumer.assignors._general import assign_generally
from tidelog.client.aio.consumer.assignors.base import Plan, RebalanceProtocol, Topics, in_member_order
from tidelog.client.aio.consumer.protocol import (
    Assignment,
    Subscription,
    decode_sticky_user_data,
    encode_sticky_user_data,
)
from tidelog.client.types import TopicPartition

Claim = tuple[tuple[TopicPartition, ...], int]
"""What a member says it had, and in which generation."""

_GENERATION = Struct(">i")


class StickyAssignor:
    """Eager: every member gives up all partitions first, and gets most of them back."""

    __slots__ = ("_generation_id", "_partitions")

    name = "sticky"
    protocols = frozenset({RebalanceProtocol.EAGER})

    def __init__(self) -> None:
        self._partitions: tuple[TopicPartition, ...] | None = None
        self._generation_id = -1

    def user_data(self) -> bytes | None:
        """The last assignment, if there was one."""
        if self._partitions is None:
            return None
        return encode_sticky_user_data(self._partitions, self._generation_id)

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Remember it for the next rebalance."""
        self._partitions = assignment.partitions
        self._generation_id = generation_id

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Plan:
        """Even and sticky."""
        claims = {member: decode_sticky_user_data(each.user_data) for member, each in subscriptions.items()}
        return assign_sticky(topics, subscriptions, claims)


class CooperativeStickyAssignor:
    """Cooperative: members go on reading what they keep; what moves is free for one round in between."""

    __slots__ = ("_generation_id",)

    name = "cooperative-sticky"
    protocols = frozenset({RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER})

    def __init__(self) -> None:
        self._generation_id = -1

    def user_data(self) -> bytes | None:
        """The generation, for leaders that read it here and not in the subscription."""
        return _GENERATION.pack(self._generation_id)

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:  # noqa: ARG002 - as all assignors
        """Remember the generation."""
        self._generation_id = generation_id

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Plan:
        """Even and sticky, without what its last owner has to give up first."""
        claims = {member: (each.owned, _generation(each)) for member, each in subscriptions.items()}
        plan = assign_sticky(topics, subscriptions, claims)
        # A member that claims a partition may be reading it, even if another claim is newer.
        claimed = {partition: member for member, (owned, _) in claims.items() for partition in owned}
        disputed = _claimed_twice(claims)
        return {
            member: [each for each in partitions if each not in disputed and claimed.get(each, member) == member]
            for member, partitions in plan.items()
        }


def assign_sticky(topics: Topics, subscriptions: Mapping[str, Subscription], claims: Mapping[str, Claim]) -> Plan:
    """The even plan that moves least."""
    members = in_member_order(subscriptions)
    wanted = {member: frozenset(each.topics) for member, each in subscriptions.items()}
    existing = {topic: each for topic, each in topics.items() if any(topic in each for each in wanted.values())}
    partitions = [TopicPartition(topic, each.partition) for topic in sorted(existing) for each in existing[topic]]
    believed = _believed(claims, members, wanted, frozenset(partitions))
    if is_uniform(existing, wanted):
        racks = {member: subscription.rack_id for member, subscription in subscriptions.items()}
        return assign_equally(existing, members, believed, racks)
    return assign_generally(partitions, members, wanted, believed)


def _believed(
    claims: Mapping[str, Claim],
    members: list[str],
    wanted: Mapping[str, frozenset[str]],
    partitions: frozenset[TopicPartition],
) -> dict[str, list[TopicPartition]]:
    """Claims of partitions that exist and are still wanted, each by one member: that of the latest generation."""
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in members:
        owned, generation_id = claims[member]
        for partition in owned:
            rival = best.get(partition)
            if rival is None or rival[0] < generation_id:
                best[partition] = (generation_id, member)
            elif rival[0] == generation_id and rival[1] != member:
                best[partition] = (generation_id, None)
    believed: dict[str, list[TopicPartition]] = {member: [] for member in members}
    for partition in sorted(best):
        owner = best[partition][1]
        if owner is not None and partition in partitions and partition.topic in wanted[owner]:
            believed[owner].append(partition)
    return believed


def _claimed_twice(claims: Mapping[str, Claim]) -> set[TopicPartition]:
    seen: set[TopicPartition] = set()
    twice: set[TopicPartition] = set()
    for owned, _ in claims.values():
        for partition in set(owned):
            (twice if partition in seen else seen).add(partition)
    return twice


def _generation(subscription: Subscription) -> int:
    if subscription.generation_id >= 0 or subscription.user_data is None:
        return subscription.generation_id
    data = subscription.user_data
    return int(_GENERATION.unpack_from(data)[0]) if len(data) >= _GENERATION.size else -1
