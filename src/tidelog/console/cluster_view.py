"""The cluster as pages see it: one admin, cached metadata, samples over time, and clients for records.

The admin is connected when it is first needed, so that a console can be started before its cluster. Everything that
grows with the cluster is asked for once for all pages and kept for some seconds, or only for the rows of one page.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from tidelog.client.aio.admin.admin import AdminSettings, AsyncAdmin
from tidelog.client.aio.admin.driver import PartlyRefused
from tidelog.client.aio.admin.types import (
    LATEST,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    DelayedListing,
    GroupListing,
    LogDirectory,
    ResourceType,
    TopicDescription,
)
from tidelog.client.aio.consumer.consumer import AsyncConsumer
from tidelog.client.aio.producer.producer import AsyncProducer
from tidelog.client.aio.settings import CommonSettings
from tidelog.client.errors import ClientError, UnsupportedByBroker
from tidelog.client.types import TopicPartition
from tidelog.console.cached import Cached
from tidelog.console.sampler import Sampler
from tidelog.console.settings import SAMPLE_INTERVAL_S
from tidelog.health import Finding, examine
from tidelog.wire.errors import ApiError, ErrorCode

REFRESH_S: Final = 5.0
METADATA_AGE_S: Final = 15.0
MISSED_AGE_S: Final = 2.0
"""How old the cluster may be in which a topic is missed."""
SIZES_AGE_S: Final = 30.0
CHECKS_AGE_S: Final = 30.0
RECONNECT_S: Final = 1.0
"""How long a failed attempt to connect answers for: the parts of one page should not each wait for another one."""
TOPICS_REMEMBERED_MAX: Final = 2000
DELAY_ENABLE: Final = "tidelog.delay.enable"
API_TIMEOUT_MS: Final = 10_000
"""How long one call may take: a person is waiting."""

Sizes = Mapping[int, Mapping[TopicPartition, int]]
"""The bytes of replicas by broker and partition."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Brokers, topics and partitions at one time."""

    cluster: ClusterDescription
    topics: Mapping[str, TopicDescription]

    def topic(self, name: str) -> TopicDescription:
        """A topic by name; ApiError if it does not exist."""
        found = self.topics.get(name)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        return found

    def partitions(self) -> list[TopicPartition]:
        """Every partition that has a leader."""
        return [
            TopicPartition(topic.name, each.partition)
            for topic in self.topics.values()
            for each in topic.partitions
            if each.leader_id >= 0
        ]


class ClusterView:
    """One cluster, seen with one set of credentials."""

    def __init__(self, client: Mapping[str, Any], sample_interval_s: float = SAMPLE_INTERVAL_S) -> None:
        self._client = {**client, "client.id": "tidelog-console"}
        self._admin: AsyncAdmin | None = None
        self._connecting = asyncio.Lock()
        self._failure: tuple[float, ClientError] | None = None
        self.snapshot = Cached(self._load_snapshot, REFRESH_S, METADATA_AGE_S)
        self.groups = Cached(self._load_groups, REFRESH_S, METADATA_AGE_S)
        self.broker_settings = Cached(self._load_broker_settings, SIZES_AGE_S, SIZES_AGE_S)
        self.findings = Cached(self._load_findings, CHECKS_AGE_S, CHECKS_AGE_S)
        self.sampler = Sampler(self, sample_interval_s)
        self._sizes: dict[str, tuple[float, Sizes]] = {}

    @property
    def client_settings(self) -> Mapping[str, Any]:
        """The settings of its clients; they hold secrets."""
        return self._client

    async def close(self) -> None:
        """Stop sampling and close the connections."""
        await self.sampler.stop()
        if self._admin is not None:
            await self._admin.close()

    async def admin(self) -> AsyncAdmin:
        """The admin, connected. Raises BootstrapFailed or AuthenticationFailed if it cannot connect."""
        async with self._connecting:
            if self._admin is None:
                now = asyncio.get_running_loop().time()
                if self._failure is not None and now - self._failure[0] < RECONNECT_S:
                    raise self._failure[1]
                try:
                    self._admin = await self.new_admin("tidelog-console").start()
                except ClientError as error:
                    self._failure = asyncio.get_running_loop().time(), error
                    raise
                self.sampler.start()
        return self._admin

    def new_admin(self, client_id: str) -> AsyncAdmin:
        """Another admin with the same credentials, not started."""
        # Pages ask any broker: an act ends when all of them show what it changed.
        own = {
            "default.api.timeout.ms": API_TIMEOUT_MS,
            "visible.timeout.ms": API_TIMEOUT_MS,
            "client.id": client_id,
        }
        return AsyncAdmin({**self._common(AdminSettings), **own})

    def _common(self, group: type[CommonSettings]) -> dict[str, Any]:
        return {name: value for name, value in self._client.items() if name in group.settings}

    def forget(self) -> None:
        """Ask the cluster again for everything that is cached: something was changed."""
        self.snapshot.forget()
        self.groups.forget()
        self._sizes.clear()

    def forget_sizes(self) -> None:
        """Ask for sizes again: they are about to change."""
        self._sizes.clear()

    # Metadata.

    async def _load_snapshot(self) -> Snapshot:
        admin = await self.admin()
        cluster, topics = await asyncio.gather(
            admin.describe_cluster(), admin.describe_all_topics(include_internal=True)
        )
        return Snapshot(cluster, topics)

    async def topic(self, name: str) -> TopicDescription:
        """A topic by name; ApiError if it does not exist. One that others made just now is not in the cache yet."""
        snapshot = await self.snapshot.get()
        if name not in snapshot.topics:
            snapshot = await self.snapshot.newer(MISSED_AGE_S)
        return snapshot.topic(name)

    async def _load_groups(self) -> list[GroupListing]:
        return await (await self.admin()).list_groups()

    async def _load_broker_settings(self) -> Mapping[int, Mapping[str, ConfigEntry]]:
        """The settings of each broker that gives them."""
        nodes = (await self.snapshot.get()).cluster.nodes
        asked = {ConfigResource(ResourceType.BROKER, str(node.node_id)): node.node_id for node in nodes}
        try:
            found = await (await self.admin()).describe_configs(asked)
        except PartlyRefused as refused:
            found = refused.results
        except ApiError:
            found = {}
        return {asked[resource]: settings for resource, settings in found.items()}

    async def _load_findings(self) -> list[Finding]:
        # An admin of its own: it asks about all topics, whose metadata the pages' admin should not keep refreshing.
        async with self.new_admin("tidelog-console-checks") as admin:
            return await examine(admin)

    async def directories(self) -> dict[int, list[LogDirectory]]:
        """The log directories of all brokers, without their partitions."""
        return await (await self.admin()).describe_log_dirs(None, [])

    async def sizes(self, topics: Sequence[TopicDescription]) -> dict[str, Sizes]:
        """The bytes of each replica of topics, by broker; those that are too old or missing are asked for together.

        Empty for topics that this user may not see.
        """
        now = asyncio.get_running_loop().time()
        missing = [each for each in topics if self._sizes.get(each.name, (-inf, {}))[0] < now - SIZES_AGE_S]
        if missing:
            if len(self._sizes) > TOPICS_REMEMBERED_MAX:
                self._sizes.clear()
            for name, found in (await self._load_sizes(missing)).items():
                self._sizes[name] = now, found
        return {each.name: self._sizes.get(each.name, (0.0, {}))[1] for each in topics}

    async def _load_sizes(self, topics: Sequence[TopicDescription]) -> dict[str, Sizes]:
        wanted = [TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions]
        alive = {node.node_id for node in (await self.snapshot.get()).cluster.nodes}
        holding = {broker for topic in topics for each in topic.partitions for broker in each.replicas}
        admin = await self.admin()
        directories: Mapping[int, Sequence[LogDirectory]]
        try:
            directories = await admin.describe_log_dirs(sorted(holding & alive), wanted)
        except PartlyRefused as refused:
            directories = refused.results
        except ApiError:
            directories = {}
        found: dict[str, dict[int, dict[TopicPartition, int]]] = {topic.name: {} for topic in topics}
        for broker, those in directories.items():
            for directory in those:
                for where, replica in directory.replicas.items():
                    if where.topic in found and not replica.is_future:
                        found[where.topic].setdefault(broker, {})[where] = replica.size_bytes
        return dict(found)

    async def end_offsets(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions end; those that do not exist or have no leader are left out."""
        snapshot = await self.snapshot.get()
        known = set(snapshot.partitions())
        asked = [each for each in wanted if each in known]
        return await self.offsets_at(asked, LATEST)

    async def offsets_at(self, wanted: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """The offsets of partitions at a time, or EARLIEST or LATEST; partitions that fail are left out."""
        asked = dict.fromkeys(wanted, time_ms)
        if not asked:
            return {}
        try:
            found = await (await self.admin()).list_offsets(asked)
        except PartlyRefused as refused:
            found = refused.results
        except ApiError:
            found = {}
        return {where: place.offset for where, place in found.items()}

    # Delayed records.

    async def waiting(self, topic: TopicDescription) -> int | None:
        """How many records of a topic wait for their time; None if none do and none can, or this user may not see."""
        resource = ConfigResource(ResourceType.TOPIC, topic.name)
        try:
            found = (await (await self.admin()).describe_configs([resource], names=[DELAY_ENABLE]))[resource]
            # A broker without the setting is not Tidelog's: it would close the connection on which it is asked.
            if DELAY_ENABLE not in found:
                return None
            count = sum(each.waiting for each in (await self.delayed(topic, limit=0)).values())
        except (ApiError, PartlyRefused, UnsupportedByBroker):
            return None
        return count if count or found[DELAY_ENABLE].value == "true" else None

    async def delayed(
        self, topic: TopicDescription, partitions: Iterable[int] | None = None, *, key: bytes | None = None, limit: int
    ) -> Mapping[int, DelayedListing]:
        """What waits in partitions (None: all) of a topic, the next due first; those without a leader are left out."""
        led = [each.partition for each in topic.partitions if each.leader_id >= 0]
        asked = led if partitions is None else [each for each in partitions if each in led]
        return await (await self.admin()).list_delayed_records(topic.name, asked, key=key, limit=limit)

    # Records.

    @asynccontextmanager
    async def consumer(self, **settings: Any) -> AsyncIterator["AsyncConsumer[bytes, bytes]"]:
        """A consumer without a group, for one page."""
        from tidelog.client.aio.consumer.settings import ConsumerSettings

        config = {**self._common(ConsumerSettings), "default.api.timeout.ms": API_TIMEOUT_MS, **settings}
        consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer(config)
        try:
            await consumer.start()
            yield consumer
        finally:
            await consumer.close(0)

    @asynccontextmanager
    async def producer(self) -> AsyncIterator["AsyncProducer[bytes, bytes]"]:
        """A producer for one record."""
        from tidelog.client.aio.producer.settings import ProducerSettings

        config = {
            **self._common(ProducerSettings),
            "linger.ms": 0,
            "delivery.timeout.ms": API_TIMEOUT_MS,
            "request.timeout.ms": API_TIMEOUT_MS - 1000,
            "max.block.ms": API_TIMEOUT_MS,
            "allow.auto.create.topics": False,
        }
        producer: AsyncProducer[bytes, bytes] = AsyncProducer(config)
        async with producer:
            yield producer
