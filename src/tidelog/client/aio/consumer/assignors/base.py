"""What an assignor is, and what the built-in ones share.

The leader of a group calls `assign` with the subscriptions of all members; each member calls `user_data` before it
joins and `on_assignment` after. Assignors of your own implement `Assignor` and go into `partition.assignment.strategy`.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from tidelog.client.aio.consumer.protocol import Assignment, Subscription
from tidelog.client.types import TopicPartition


class RebalanceProtocol(Enum):
    """How members go through a rebalance: EAGER gives up everything first, COOPERATIVE only what moves (KIP-429)."""

    EAGER = 0
    COOPERATIVE = 1


class PartitionRacks(NamedTuple):
    """A partition as assignors see it: its number, and the racks that hold a replica of it."""

    partition: int
    racks: frozenset[str] = frozenset()


Topics = Mapping[str, Sequence[PartitionRacks]]
"""The partitions of each subscribed topic that exists, ascending."""

Plan = dict[str, list[TopicPartition]]
"""The partitions of each member."""


class Assignor(Protocol):
    """Assigns partitions to members."""

    @property
    def name(self) -> str:
        """How members of a group agree on an assignor."""

    @property
    def protocols(self) -> frozenset[RebalanceProtocol]:
        """What the assignor can be used with; the highest that all configured assignors share is used."""

    def user_data(self) -> bytes | None:
        """User data for the leader, sent with the next subscription."""

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Plan:
        """The partitions of each member id in `subscriptions`; every partition goes to one member at most."""

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """This member got `assignment`."""


class StatelessAssignor:
    """The parts that most assignors leave empty."""

    __slots__ = ()

    protocols = frozenset({RebalanceProtocol.EAGER})

    def user_data(self) -> bytes | None:
        """Nothing."""
        return None

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Nothing to remember."""


def in_member_order(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Member ids in the order that all clients agree on: static members by instance id, then the others by id.

    A static member keeps its place, and so its partitions, when it comes back under another member id.
    """
    return sorted(subscriptions, key=lambda member: _place(member, subscriptions[member].group_instance_id))


def _place(member: str, instance_id: str | None) -> tuple[bool, str]:
    return (True, member) if instance_id is None else (False, instance_id)


def subscribed_topics(subscriptions: Iterable[Subscription]) -> set[str]:
    """Every topic that a member subscribed to."""
    return {topic for subscription in subscriptions for topic in subscription.topics}


def empty_plan(subscriptions: Mapping[str, Subscription]) -> Plan:
    """An empty assignment for each member."""
    return {member: [] for member in subscriptions}


def racks_differ(consumer_racks: set[str], partition_racks: Iterable[frozenset[str]]) -> bool:
    """Whether racks matter: a member shares a rack with replicas, and not every rack has every replica.

    (KIP-881.)
    """
    sets = list(partition_racks)
    everywhere = frozenset[str]().union(*sets)
    return bool(consumer_racks & everywhere) and any(racks != everywhere for racks in sets)
