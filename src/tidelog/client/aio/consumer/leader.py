"""The work of a group leader: read all subscriptions, call the assignor, encode the assignments.

Pure; `GroupCoordinator` calls it between JoinGroup and SyncGroup.
"""

from collections.abc import Collection, Mapping, Sequence

from tidelog.client.aio.consumer.assignors.base import Assignor, PartitionRacks, Plan, RebalanceProtocol, Topics
from tidelog.client.aio.consumer.protocol import Assignment, Subscription, decode_subscription, encode_assignment
from tidelog.client.aio.metadata import MetadataCache
from tidelog.client.errors import IllegalState
from tidelog.client.types import TopicPartition
from tidelog.wire.messages.join_group import JoinGroupResponseMember

Snapshot = Mapping[str, Sequence[PartitionRacks]]
"""What an assignment was made from; when that changes, the leader has the group rebalance."""


def read_subscriptions(members: Sequence[JoinGroupResponseMember]) -> dict[str, Subscription]:
    """The subscription of each member; raises WireError for an invalid one."""
    return {each.member_id: decode_subscription(each.metadata, each.group_instance_id) for each in members}


def snapshot_of(metadata: MetadataCache, topics: Collection[str]) -> Snapshot:
    """The partitions of `topics` that exist, with the racks of their replicas."""
    return {topic: _partitions(metadata, topic) for topic in topics if metadata.partition_count(topic)}


def assign(
    assignor: Assignor, protocol: RebalanceProtocol, topics: Topics, subscriptions: Mapping[str, Subscription]
) -> dict[str, bytes]:
    """The assignment of each member, as SyncGroup carries it."""
    plan = assignor.assign(topics, subscriptions)
    if protocol is RebalanceProtocol.COOPERATIVE:
        _check_cooperative(assignor, plan, subscriptions)
    return {member: encode_assignment(Assignment(tuple(partitions))) for member, partitions in plan.items()}


def _partitions(metadata: MetadataCache, topic: str) -> tuple[PartitionRacks, ...]:
    found = metadata.topic(topic)
    assert found is not None, f"{topic} has partitions and no metadata"
    return tuple(
        PartitionRacks(
            each.partition,
            frozenset(
                node.rack
                for replica in each.replicas
                if (node := metadata.nodes.get(replica)) is not None and node.rack is not None
            ),
        )
        for each in found.partitions
    )


def _check_cooperative(assignor: Assignor, plan: Plan, subscriptions: Mapping[str, Subscription]) -> None:
    """A partition may not go to its next reader before its last one has given it up: two would read it at once."""
    owners: dict[TopicPartition, set[str]] = {}
    for member, subscription in subscriptions.items():
        for partition in subscription.owned:
            owners.setdefault(partition, set()).add(member)
    for member, partitions in plan.items():
        for partition in partitions:
            others = owners.get(partition, set()) - {member}
            if others:
                raise IllegalState(
                    f"assignor {assignor.name!r} gave {partition} to {member} while {', '.join(sorted(others))} owns "
                    "it: with the cooperative protocol it must be free for one round first"
                )
