"""Groups of members and topics for tests of assignors."""

from collections.abc import Mapping, Sequence

from tidelog.client.aio.consumer.assignors.base import PartitionRacks, Plan
from tidelog.client.aio.consumer.protocol import Subscription
from tidelog.client.types import TopicPartition


def topics(**counts: int) -> dict[str, list[PartitionRacks]]:
    """Topics with so many partitions, racks not known."""
    return {name: [PartitionRacks(number) for number in range(count)] for name, count in counts.items()}


def members(**wanted: Sequence[str]) -> dict[str, Subscription]:
    """Members by id, each with the topics it wants."""
    return {name: Subscription(tuple(each)) for name, each in wanted.items()}


def shown(plan: Mapping[str, Sequence[TopicPartition]]) -> dict[str, list[str]]:
    """A plan as short texts."""
    return {member: sorted(map(str, partitions)) for member, partitions in plan.items()}


def assert_complete(plan: Plan, subscriptions: Mapping[str, Subscription], counts: Mapping[str, int]) -> None:
    """Every subscribed partition went to exactly one member that subscribes to it."""
    given = [partition for partitions in plan.values() for partition in partitions]
    assert len(given) == len(set(given)), "a partition went to two members"
    wanted = {topic for each in subscriptions.values() for topic in each.topics}
    expected = {TopicPartition(topic, number) for topic in wanted for number in range(counts.get(topic, 0))}
    assert set(given) == expected
    for member, partitions in plan.items():
        assert all(partition.topic in subscriptions[member].topics for partition in partitions)
