"""Round robin: all partitions of all topics in order, dealt in order to the members that subscribe to them."""

from collections.abc import Mapping
from itertools import cycle

from tidelog.client.aio.consumer.assignors.base import (
    Plan,
    StatelessAssignor,
    Topics,
    empty_plan,
    in_member_order,
    subscribed_topics,
)
from tidelog.client.aio.consumer.protocol import Subscription
from tidelog.client.types import TopicPartition


class RoundRobinAssignor(StatelessAssignor):
    """Even over all topics together, but every change of the group moves most partitions."""

    __slots__ = ()

    name = "roundrobin"

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Plan:
        """Deal the partitions, by topic and number."""
        plan = empty_plan(subscriptions)
        wanted = {member: frozenset(subscription.topics) for member, subscription in subscriptions.items()}
        members = cycle(in_member_order(subscriptions))
        for topic in sorted(subscribed_topics(subscriptions.values())):
            for partition in topics.get(topic, ()):
                member = next(members)
                while topic not in wanted[member]:
                    member = next(members)
                plan[member].append(TopicPartition(topic, partition.partition))
        return plan
