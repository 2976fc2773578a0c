"""Rates between two looks at a cluster: what is written to topics, what groups read, and how far they are behind."""

import asyncio
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.client.aio.admin.admin import AsyncAdmin
from tidelog.client.aio.admin.types import LATEST, ClusterDescription, TopicDescription
from tidelog.client.types import TopicPartition
from tidelog.health.snapshot import GROUPS_AT_ONCE, GROUPS_MAX


class Look(NamedTuple):
    """What was seen at one time."""

    at_s: float
    cluster: ClusterDescription
    topics: Mapping[str, TopicDescription]
    ends: Mapping[TopicPartition, int]
    states: Mapping[str, str]
    """By group."""
    committed: Mapping[str, Mapping[TopicPartition, int]]
    """By group."""


OFFLINE: Final = "offline"


class BrokerActivity(NamedTuple):
    broker_id: int
    address: str
    """`OFFLINE` if it is not in the cluster."""
    is_controller: bool
    leaders: int
    replicas: int
    out_of_sync: int
    """Replicas of this broker that are not in sync."""
    written_per_s: float | None
    """Records written to the partitions that it leads."""


class TopicActivity(NamedTuple):
    topic: str
    partitions: int
    under_replicated: int
    written_per_s: float | None
    records: int
    """The sum of its end offsets."""


class GroupActivity(NamedTuple):
    group: str
    state: str
    lag: int
    read_per_s: float | None
    lag_per_s: float | None
    """How fast the lag grows; negative while the group catches up."""


async def look(admin: AsyncAdmin) -> Look:
    """One look. Raises ClientError or ApiError."""
    cluster, topics, listed = await asyncio.gather(
        admin.describe_cluster(), admin.describe_all_topics(), admin.list_groups()
    )
    led = [
        TopicPartition(name, each.partition)
        for name, topic in topics.items()
        for each in topic.partitions
        if each.leader_id >= 0
    ]
    room = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def committed(group: str) -> dict[TopicPartition, int]:
        async with room:
            return {where: place.offset for where, place in (await admin.list_consumer_group_offsets(group)).items()}

    names = [each.group_id for each in listed[:GROUPS_MAX]]
    offsets = await asyncio.gather(*map(committed, names))
    ends = await admin.list_offsets(dict.fromkeys(led, LATEST)) if led else {}
    return Look(
        time.monotonic(),
        cluster,
        topics,
        {where: place.offset for where, place in ends.items()},
        {each.group_id: each.state for each in listed},
        dict(zip(names, offsets, strict=True)),
    )


def _rate(now: int, before: int | None, seconds: float) -> float | None:
    return None if before is None or seconds <= 0 else (now - before) / seconds


def _written(before: Look | None, after: Look) -> dict[TopicPartition, float]:
    if before is None:
        return {}
    seconds = after.at_s - before.at_s
    return {
        where: (end - before.ends[where]) / seconds
        for where, end in after.ends.items()
        if where in before.ends and seconds > 0
    }


def brokers(before: Look | None, after: Look) -> list[BrokerActivity]:
    """By id; those that are assigned replicas and are not in the cluster, too."""
    written = _written(before, after)
    addresses = {
        broker: OFFLINE for topic in after.topics.values() for each in topic.partitions for broker in each.replicas
    }
    addresses |= {node.node_id: node.address for node in after.cluster.nodes}
    rows = []
    for broker, address in sorted(addresses.items()):
        leaders = replicas = out_of_sync = 0
        rate = 0.0
        for name, topic in after.topics.items():
            for each in topic.partitions:
                replicas += broker in each.replicas
                out_of_sync += broker in each.replicas and broker not in each.in_sync
                if each.leader_id == broker:
                    leaders += 1
                    rate += written.get(TopicPartition(name, each.partition), 0.0)
        is_controller = broker == after.cluster.controller_id
        rows.append(
            BrokerActivity(broker, address, is_controller, leaders, replicas, out_of_sync, rate if before else None)
        )
    return rows


def topics(before: Look | None, after: Look) -> list[TopicActivity]:
    """The busiest first."""
    written = _written(before, after)
    rows = []
    for name, topic in after.topics.items():
        partitions = [TopicPartition(name, each.partition) for each in topic.partitions]
        rows.append(
            TopicActivity(
                name,
                len(partitions),
                sum(len(each.in_sync) < len(each.replicas) for each in topic.partitions),
                sum(written.get(each, 0.0) for each in partitions) if before else None,
                sum(after.ends.get(each, 0) for each in partitions),
            )
        )
    return sorted(rows, key=lambda row: (-(row.written_per_s or 0), -row.records, row.topic))


def groups(before: Look | None, after: Look) -> list[GroupActivity]:
    """The one that is farthest behind first."""
    seconds = 0.0 if before is None else after.at_s - before.at_s
    rows = []
    for group, committed in after.committed.items():
        earlier = before.committed.get(group) if before else None
        lag = _lag(committed, after)
        lag_before = _lag(earlier, before) if before and earlier is not None else None
        read = _rate(sum(committed.values()), None if earlier is None else sum(earlier.values()), seconds)
        rows.append(GroupActivity(group, after.states.get(group, ""), lag, read, _rate(lag, lag_before, seconds)))
    return sorted(rows, key=lambda row: (-row.lag, -(row.read_per_s or 0), row.group))


def _lag(committed: Mapping[TopicPartition, int], seen: Look) -> int:
    return sum(max(0, seen.ends[where] - offset) for where, offset in committed.items() if where in seen.ends)
