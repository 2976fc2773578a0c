"""Which brokers hold the replicas of partitions: as it is, as it could be, and the way from one to the other.

The brokers place replicas by `tidelog.metadata.placement`; plans made here follow the same rules.
"""

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tidelog.cli._clients import VISIBLE_TIMEOUT_MS
from tidelog.cli.errors import CommandError
from tidelog.cli.progress import progress
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import TopicDescription
from tidelog.client.types import TopicPartition
from tidelog.metadata.placement import Located, change_replication_factor, failure_domains, place_replicas

Plan = dict[TopicPartition, tuple[int, ...]]
"""The brokers that are to have each partition, the preferred leader first."""

_POLL_S: Final = 0.1


class Brokers(NamedTuple):
    """The brokers that a plan may use."""

    ids: Sequence[int]
    racks: Mapping[int, str | None]


def usable_brokers(admin: Admin, chosen: Sequence[int] | None = None) -> Brokers:
    """The brokers that are alive, or those of them that are chosen."""
    racks = failure_domains({node.node_id: Located(node.rack, node.host) for node in admin.describe_cluster().nodes})
    alive = sorted(racks)
    unknown = sorted(set(chosen or ()).difference(alive))
    if unknown:
        raise CommandError(f"--brokers: {unknown} are not alive; alive are {alive}")
    return Brokers(alive if chosen is None else chosen, racks)


def current_plan(admin: Admin, topics: Iterable[str] | None) -> Plan:
    """Where the partitions of topics, or of all, are now. Internal topics come first: all groups depend on them."""
    described = admin.describe_all_topics(include_internal=True) if topics is None else admin.describe_topics(topics)

    def rank(topic: TopicDescription) -> tuple[bool, str]:
        return not topic.is_internal, topic.name

    return {
        TopicPartition(topic.name, partition.partition): partition.replicas
        for topic in sorted(described.values(), key=rank)
        for partition in topic.partitions
    }


def spread(current: Plan, brokers: Brokers) -> Plan:
    """Place each topic as if it were created now on these brokers, with the replication factor it has."""
    return _by_topic(
        current,
        lambda replicas: place_replicas(
            brokers.ids,
            len(replicas),
            len(replicas[0]),
            start_index=random.randrange(len(brokers.ids)),
            follower_shift=random.randrange(len(brokers.ids)),
            racks=brokers.racks,
        ),
    )


def with_replication_factor(current: Plan, brokers: Brokers, factor: int) -> Plan:
    """Add replicas to partitions, or drop their last ones, until each has `factor` of them; leaders stay."""
    return _by_topic(
        current,
        lambda replicas: change_replication_factor(
            replicas,
            brokers.ids,
            factor,
            follower_shift=random.randrange(len(brokers.ids)),
            racks=brokers.racks,
        ),
    )


def _by_topic(current: Plan, place: Callable[[list[tuple[int, ...]]], list[tuple[int, ...]]]) -> Plan:
    plan: Plan = {}
    for topic in dict.fromkeys(where.topic for where in current):
        partitions = [where for where in current if where.topic == topic]
        plan.update(zip(partitions, place([current[where] for where in partitions]), strict=True))
    return plan


def await_moves(admin: Admin, label: str, plan: Plan) -> None:
    """Show progress until every partition of `plan` has its replicas. Raises CommandError if a move was cancelled."""
    shown = 0
    with progress(label, len(plan), unit="partitions") as bar:
        while True:
            moving = admin.list_partition_reassignments(plan)
            done = len(plan) - len(moving)
            bar.advance(max(done - shown, 0))
            shown = max(done, shown)
            if not moving:
                break
            time.sleep(_POLL_S)
    deadline = time.monotonic() + VISIBLE_TIMEOUT_MS / 1000
    while missed := _not_in_place(admin, plan):
        if time.monotonic() > deadline:
            raise CommandError(f"{missed[0]} and {len(missed) - 1} more did not move: the reassignment was cancelled")
        time.sleep(_POLL_S)


def _not_in_place(admin: Admin, plan: Plan) -> list[TopicPartition]:
    current = current_plan(admin, {where.topic for where in plan})
    return [where for where, replicas in plan.items() if current.get(where) != replicas]
