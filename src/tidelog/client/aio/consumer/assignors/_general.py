"""Sticky assignment where members subscribed to different topics: a semi-matching made optimal by shortest paths.

Every member keeps its partitions. Each free partition goes to the least loaded member that wants it. Then, while some
member has at least two partitions more than another, and a chain of hand-overs leads from the one to the other, the
shortest such chain is carried out: each member on it hands one partition to the next. When no such chain is left, the
sum of the squares of the loads is the least possible (Harvey, Ladner, Lovász and Tamir, "Semi-matchings for bipartite
graphs and load balancing", 2006). `sticky` is the caller.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from tidelog.client.aio.consumer.assignors.base import Plan
from tidelog.client.types import TopicPartition


def assign_generally(
    partitions: Sequence[TopicPartition],
    members: Sequence[str],
    wanted: Mapping[str, frozenset[str]],
    claims: Mapping[str, Sequence[TopicPartition]],
) -> Plan:
    """The plan for `members`; `claims` hold only partitions that exist and that their owner still wants, each once."""
    return _Balance(members, wanted, claims).plan(partitions)


class _Balance:
    """Loads of members while they are evened out. Partitions of one topic differ only in their last owner."""

    __slots__ = ("_before", "_holdings", "_loads", "_members", "_readers", "_wanted")

    def __init__(
        self,
        members: Sequence[str],
        wanted: Mapping[str, frozenset[str]],
        claims: Mapping[str, Sequence[TopicPartition]],
    ) -> None:
        self._members = members
        self._wanted = wanted
        self._holdings: dict[str, dict[str, list[int]]] = {member: {} for member in members}
        self._loads = dict.fromkeys(members, 0)
        self._readers: dict[str, list[str]] = {}
        for member in members:
            for topic in sorted(wanted[member]):
                self._readers.setdefault(topic, []).append(member)
        self._before = {partition: member for member, owned in claims.items() for partition in owned}

    def plan(self, partitions: Sequence[TopicPartition]) -> Plan:
        """Give out everything, then even it out."""
        free: list[TopicPartition] = []
        for partition in partitions:
            owner = self._before.get(partition)
            if owner is None:
                free.append(partition)
            else:
                self._give(owner, partition)
        # Partitions with few subscribers go first, while those still have room.
        free.sort(key=lambda partition: (len(self._readers.get(partition.topic, ())), partition))
        for partition in free:
            if readers := self._readers.get(partition.topic):
                self._give(min(readers, key=self._loads.__getitem__), partition)
        self._even_out()
        return {
            member: sorted(
                TopicPartition(topic, number) for topic, numbers in self._holdings[member].items() for number in numbers
            )
            for member in self._members
        }

    def _give(self, member: str, partition: TopicPartition) -> None:
        self._holdings[member].setdefault(partition.topic, []).append(partition.partition)
        self._loads[member] += 1

    def _even_out(self) -> None:
        """Carry out chains, fullest member first, until none is left.

        A member from which no chain leads down is settled for good: every member reachable from it has at most one
        less, so no chain of a member that is emptier, as all that come later are, can lead through any of those.
        """
        unsettled = set(self._members)
        while unsettled:
            fullest = max(unsettled, key=lambda member: (self._loads[member], member))
            chain = self._chain_from(fullest)
            if chain is None:
                unsettled.discard(fullest)
            else:
                self._hand_over(fullest, chain)

    def _chain_from(self, start: str) -> list[tuple[str, str]] | None:
        """The shortest chain of (topic, next member) to a member with at least two partitions less than `start`."""
        goal = self._loads[start] - 2
        came: dict[str, tuple[str, str] | None] = {start: None}
        seen_topics: set[str] = set()
        queue = deque([start])
        while queue:
            member = queue.popleft()
            for topic, numbers in self._holdings[member].items():
                if not numbers or topic in seen_topics:
                    continue
                seen_topics.add(topic)
                for reader in self._readers[topic]:
                    if reader in came:
                        continue
                    came[reader] = (topic, member)
                    if self._loads[reader] <= goal:
                        return _walk_back(came, reader)
                    queue.append(reader)
        return None

    def _hand_over(self, start: str, chain: Sequence[tuple[str, str]]) -> None:
        giver = start
        for topic, taker in chain:
            number = self._choose(topic, giver, taker)
            self._holdings[giver][topic].remove(number)
            self._holdings[taker].setdefault(topic, []).append(number)
            giver = taker
        self._loads[start] -= 1
        self._loads[giver] += 1

    def _choose(self, topic: str, giver: str, taker: str) -> int:
        """Which partition changes hands: best one the taker had before, then one the giver had not, then the last."""
        return max(self._holdings[giver][topic], key=lambda number: (self._likes(topic, number, giver, taker), number))

    def _likes(self, topic: str, number: int, giver: str, taker: str) -> int:
        owner = self._before.get(TopicPartition(topic, number))
        return 2 if owner == taker else 0 if owner == giver else 1


def _walk_back(came: Mapping[str, tuple[str, str] | None], end: str) -> list[tuple[str, str]]:
    chain: list[tuple[str, str]] = []
    member = end
    while (step := came[member]) is not None:
        topic, before = step
        chain.append((topic, member))
        member = before
    chain.reverse()
    return chain
