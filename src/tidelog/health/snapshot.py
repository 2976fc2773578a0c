"""A look at a whole cluster through an admin: plain data for the checks.

A part that the client may not read, or that the brokers do not serve, is left empty and named in `unread`.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tidelog.client.aio.admin.admin import AsyncAdmin
from tidelog.client.aio.admin.types import (
    EARLIEST,
    LATEST,
    ClusterDescription,
    ConfigResource,
    GroupDescription,
    LogDirectory,
    Reassignment,
    ResourceType,
    TopicDescription,
    TransactionDescription,
)
from tidelog.client.errors import ClientError
from tidelog.client.types import TopicPartition
from tidelog.health.hanging import OpenTransaction, hanging_transactions
from tidelog.wire.errors import ApiError

Settings = Mapping[str, str | None]
T = TypeVar("T")

GROUPS_MAX: Final = 2_000
"""So many groups are looked at; each takes a request."""

GROUPS_AT_ONCE: Final = 16

PART_SECONDS_MAX: Final = 5.0
"""A broker that has just died is asked again and again. A look at what is wrong must not wait for the minute that the
client gives it."""

TOPIC_SETTINGS: Final = ("min.insync.replicas", "unclean.leader.election.enable", "retention.ms", "cleanup.policy")
THROTTLES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
BROKER_SETTINGS: Final = (
    "listeners",
    "listener.security.protocol.map",
    "log.dirs",
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.max.timeout.ms",
    "authorizer.class.name",
    *THROTTLES,
)


@dataclass
class Snapshot:
    """What was seen, at `taken_ms`."""

    taken_ms: int
    cluster: ClusterDescription
    topics: dict[str, TopicDescription] = field(default_factory=dict)
    topic_settings: dict[str, Settings] = field(default_factory=dict)
    broker_settings: dict[int, Settings] = field(default_factory=dict)
    log_dirs: dict[int, list[LogDirectory]] = field(default_factory=dict)
    reassignments: dict[TopicPartition, Reassignment] = field(default_factory=dict)
    groups: dict[str, GroupDescription] = field(default_factory=dict)
    committed: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    """Committed offsets by group."""
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    transactions: dict[str, TransactionDescription] = field(default_factory=dict)
    hanging: list[OpenTransaction] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    """Parts that could not be read, and why."""

    @property
    def broker_ids(self) -> list[int]:
        return sorted(node.node_id for node in self.cluster.nodes)

    @property
    def machines(self) -> dict[int, str]:
        """What fails at once, by broker: its host, if it has a rack, as the cores of a machine have; else itself."""
        return {node.node_id: str(node.node_id) if node.rack is None else node.host for node in self.cluster.nodes}


async def take(admin: AsyncAdmin, now_ms: int) -> Snapshot:
    """Look at everything. Raises ClientError only if the cluster cannot be reached at all."""
    seen = Snapshot(now_ms, await admin.describe_cluster())
    seen.topics = await _part(seen, "topics", admin.describe_all_topics(include_internal=True), {})
    await asyncio.gather(
        _settings(seen, admin), _storage(seen, admin), _groups(seen, admin), _transactions(seen, admin)
    )
    return seen


async def _part(seen: Snapshot, name: str, reading: Awaitable[T], empty: T) -> T:
    try:
        async with asyncio.timeout(PART_SECONDS_MAX):
            return await reading
    except TimeoutError:
        seen.unread[name] = f"not all brokers answered within {PART_SECONDS_MAX:g} s"
    except (ClientError, ApiError) as error:
        seen.unread[name] = str(error)
    return empty


async def _settings(seen: Snapshot, admin: AsyncAdmin) -> None:
    brokers = [ConfigResource(ResourceType.BROKER, str(each)) for each in seen.broker_ids]
    topics = [ConfigResource(ResourceType.TOPIC, name) for name in seen.topics]
    of_brokers, of_topics = await asyncio.gather(
        _part(seen, "settings of brokers", admin.describe_configs(brokers, names=BROKER_SETTINGS), {}),
        _part(seen, "settings of topics", admin.describe_configs(topics, names=TOPIC_SETTINGS), {}),
    )
    seen.broker_settings = {
        int(each.name): {name: entry.value for name, entry in found.items()} for each, found in of_brokers.items()
    }
    seen.topic_settings = {
        each.name: {name: entry.value for name, entry in found.items()} for each, found in of_topics.items()
    }


async def _storage(seen: Snapshot, admin: AsyncAdmin) -> None:
    seen.log_dirs, seen.reassignments = await asyncio.gather(
        _part(seen, "log directories", admin.describe_log_dirs(), {}),
        _part(seen, "reassignments", admin.list_partition_reassignments(), {}),
    )


async def _groups(seen: Snapshot, admin: AsyncAdmin) -> None:
    listed = await _part(seen, "groups", admin.list_groups(), [])
    names = [each.group_id for each in listed[:GROUPS_MAX]]
    seen.groups = await _part(seen, "members of groups", admin.describe_groups(names), {})
    await read_offsets(seen, admin, names)


async def read_offsets(seen: Snapshot, admin: AsyncAdmin, groups: list[str]) -> None:
    """Read what groups have committed, and where the partitions of it begin and end."""
    room = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def committed(group: str) -> None:
        async with room:
            offsets = await _part(seen, f"offsets of group {group}", admin.list_consumer_group_offsets(group), {})
        seen.committed[group] = {where: place.offset for where, place in offsets.items()}

    await asyncio.gather(*map(committed, groups))
    wanted = {
        where
        for offsets in seen.committed.values()
        for where in offsets
        if where.topic in seen.topics and where.partition < len(seen.topics[where.topic].partitions)
        if seen.topics[where.topic].partitions[where.partition].leader_id >= 0
    }
    ends, starts = await asyncio.gather(
        _part(seen, "end offsets", admin.list_offsets(dict.fromkeys(wanted, LATEST)), {}),
        _part(seen, "start offsets", admin.list_offsets(dict.fromkeys(wanted, EARLIEST)), {}),
    )
    seen.ends = {where: place.offset for where, place in ends.items()}
    seen.starts = {where: place.offset for where, place in starts.items()}


async def _transactions(seen: Snapshot, admin: AsyncAdmin) -> None:
    listed = await _part(seen, "transactions", admin.list_transactions(states=["Ongoing"]), [])
    names = [each.transactional_id for each in listed]
    seen.transactions = await _part(seen, "transactions in detail", admin.describe_transactions(names), {})
    led = [
        TopicPartition(name, each.partition)
        for name, topic in seen.topics.items()
        for each in topic.partitions
        if each.leader_id >= 0
    ]
    seen.hanging = await _part(seen, "open transactions", hanging_transactions(admin, led, seen.taken_ms), [])
