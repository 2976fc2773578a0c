"""Range: of each topic by itself, neighbouring partitions to each member, the first members getting one more.

Topics with equally many partitions are divided alike, so the member that reads partition 3 of one reads that of the
other: what joins need. Where racks are known, members are first offered partitions that have a replica in their rack,
without changing the number of partitions per member (KIP-881).
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from tidelog.client.aio.consumer.assignors.base import (
    PartitionRacks,
    Plan,
    StatelessAssignor,
    Topics,
    empty_plan,
    in_member_order,
    racks_differ,
)
from tidelog.client.aio.consumer.protocol import Subscription
from tidelog.client.types import TopicPartition

Racks = Mapping[str, str | None]


class RangeAssignor(StatelessAssignor):
    """Kafka's default."""

    __slots__ = ()

    name = "range"

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Plan:
        """Divide each topic among its subscribers."""
        plan = empty_plan(subscriptions)
        racks = {member: subscription.rack_id or None for member, subscription in subscriptions.items()}
        divisions = [
            _Division(topic, topics[topic], members, racks, plan)
            for topic, members in _members_by_topic(subscriptions).items()
            if topics.get(topic)
        ]
        if any(division.racks_matter for division in divisions):
            _match_racks(divisions)
        for division in divisions:
            division.fill(lambda _member, _partition: True)
        for partitions in plan.values():
            partitions.sort()
        return plan


def _members_by_topic(subscriptions: Mapping[str, Subscription]) -> dict[str, tuple[str, ...]]:
    members: dict[str, list[str]] = {}
    for member in in_member_order(subscriptions):
        for topic in dict.fromkeys(subscriptions[member].topics):
            members.setdefault(topic, []).append(member)
    return {topic: tuple(members[topic]) for topic in sorted(members)}


def _match_racks(divisions: Sequence["_Division"]) -> None:
    """Give out what matches by rack. Topics read by the same members with as many partitions are matched as one."""
    alike: dict[tuple[tuple[str, ...], int], list[_Division]] = {}
    for division in divisions:
        alike.setdefault((division.members, len(division.partitions)), []).append(division)
    for (members, _), group in alike.items():
        if len(group) == 1:
            if group[0].racks_matter:
                group[0].fill(group[0].racks_match)
        else:
            _match_together(members, group)


def _match_together(members: tuple[str, ...], divisions: Sequence["_Division"]) -> None:
    for place in range(len(divisions[0].partitions)):
        for member in members:
            if all(each.room(member) and each.racks_match(member, each.partitions[place]) for each in divisions):
                for each in divisions:
                    each.give(member, each.partitions[place])
                break


class _Division:
    """One topic while it is divided."""

    __slots__ = (
        "_each",
        "_extra",
        "_given",
        "_left",
        "_plan",
        "_racks",
        "members",
        "partitions",
        "racks_matter",
        "topic",
    )

    def __init__(
        self, topic: str, partitions: Sequence[PartitionRacks], members: tuple[str, ...], racks: Racks, plan: Plan
    ) -> None:
        self.topic = topic
        self.partitions = partitions
        self.members = members
        self._racks = racks
        self._plan = plan
        self._each, self._extra = divmod(len(partitions), len(members))
        self._given = dict.fromkeys(members, 0)
        self._left = {each.partition: each for each in partitions}
        consumer_racks = {rack for member in members if (rack := racks[member])}
        self.racks_matter = bool(consumer_racks) and racks_differ(consumer_racks, [each.racks for each in partitions])

    def racks_match(self, member: str, partition: PartitionRacks) -> bool:
        """Whether the member reads nearby; always, where its rack is not known."""
        rack = self._racks[member]
        return rack is None or rack in partition.racks

    def room(self, member: str) -> int:
        """How many more the member may get."""
        return max(0, self._each + (1 if self._extra > 0 else 0) - self._given[member])

    def give(self, member: str, partition: PartitionRacks) -> None:
        """Decide one partition."""
        self._plan[member].append(TopicPartition(self.topic, partition.partition))
        self._given[member] += 1
        if self._given[member] == self._each + 1:
            self._extra -= 1
        del self._left[partition.partition]

    def fill(self, may_have: Callable[[str, PartitionRacks], bool]) -> None:
        """Go through the members and give each its share of what it may have."""
        for member in self.members:
            room = self.room(member)
            if not self._left:
                return
            if room:
                offered = (each for each in self._left.values() if may_have(member, each))
                for partition in list(islice(offered, room)):
                    self.give(member, partition)
