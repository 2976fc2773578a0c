"""How a change of topics is checked, planned against this broker's image and settings, and written to the tree.

A single broker and a cluster's controller plan the same way. They differ in what they write (a controller leaves the
states of partitions to its elections) and in what follows. Every method raises ApiError for what cannot be done, in
the order in which Kafka checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tidelog.broker.configuration.settings import warn_of_idle_settings
from tidelog.broker.metadata_errors import metadata_errors_translated
from tidelog.config import ConfigError, LogConfig, topic_config, topic_settings_without_effect
from tidelog.metadata import topics as topic_plans
from tidelog.metadata.image import TopicImage
from tidelog.metadata.placement import failure_domains
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    import random

    from tidelog.broker.configuration.current import CurrentSettings
    from tidelog.broker.runtime.background import BackgroundPool
    from tidelog.metadata.image import ClusterImage
    from tidelog.metadata.store import Store, StoreRunner

T = TypeVar("T")

_PLANNED_AT_ONCE: Final = 500
"""Partitions whose placement takes a millisecond or two."""


class PlannedTopic(NamedTuple):
    """A topic that may be created."""

    plan: topic_plans.NewTopic
    image: TopicImage
    """The topic as a single broker leads it once it is written. In a cluster, the controller elects the leaders."""
    config: LogConfig


class TopicPlanner:
    """Plans changes of topics and writes what was planned."""

    def __init__(
        self,
        settings: CurrentSettings,
        image: ClusterImage,
        metadata: StoreRunner,
        background: BackgroundPool,
        chance: random.Random,
    ) -> None:
        self._settings = settings
        self._image = image
        self._metadata = metadata
        self._background = background
        self._chance = chance

    async def plan_topic(
        self,
        name: str,
        partition_count: int,
        replication_factor: int,
        assignments: Mapping[int, Sequence[int]] | None,
        overrides: Mapping[str, str],
    ) -> PlannedTopic:
        """Check a request for a topic and place its replicas. -1 asks for the broker's default count or factor."""
        image, config, chance = self._image, self._settings.config, self._chance
        broker_count = max(len(image.broker_ids()), 1)
        plan_topic = partial(
            topic_plans.plan_topic,
            name,
            partition_count,
            replication_factor,
            assignments,
            overrides,
            image,
            default_partition_count=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
            start_index=chance.randrange(broker_count),
            follower_shift=chance.randrange(broker_count),
            controller_epoch=image.controller_epoch,
            random_bytes=chance.randbytes,
        )
        plan = await self.made(plan_topic, max(partition_count, config.num_partitions))
        log_config = self._log_config(overrides)
        return PlannedTopic(plan, await self.made(plan.image, len(plan.replicas)), log_config)

    async def write_topic(self, topic: PlannedTopic, write: Callable[[Store, topic_plans.NewTopic], None]) -> None:
        """Write a topic that was planned, and warn of settings of it that this broker accepts and ignores."""
        plan = topic.plan
        warn_of_idle_settings(topic_settings_without_effect(plan.overrides), f"topic {plan.name}")
        with metadata_errors_translated():
            await self._metadata.run(write, plan)

    async def plan_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None
    ) -> topic_plans.NewPartitions:
        """Check a request to let a topic grow to `count` partitions and place the replicas of the new ones."""
        self.existing(name)
        racks = failure_domains({broker.broker_id: broker.location for broker in self._image.brokers()})
        with metadata_errors_translated():
            return await self._metadata.run(
                topic_plans.plan_partitions,
                sorted(racks),
                name,
                count,
                assignments,
                racks=racks,
                controller_epoch=self._image.controller_epoch,
            )

    async def write_partitions(
        self, new: topic_plans.NewPartitions, write: Callable[[Store, topic_plans.NewPartitions], None]
    ) -> None:
        """Write partitions that were planned."""
        with metadata_errors_translated():
            await self._metadata.run(write, new)

    async def mark_for_deletion(self, name: str) -> TopicImage:
        """Write that a topic is to be deleted. A broker that stops before it is gone continues at its next start."""
        topic = self.existing(name)
        with metadata_errors_translated():
            await self._metadata.run(topic_plans.mark_for_deletion, topic.name)
        return topic

    def existing(self, name: str) -> TopicImage:
        """The topic of that name. It is looked up in the image: in the tree, a name with a slash would be a path."""
        topic = self._image.topic(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return topic

    async def made(self, plan: Callable[[], T], partition_count: int) -> T:
        """What `plan` returns. For many partitions it runs on a thread, so it may only read what does not change."""
        if partition_count <= _PLANNED_AT_ONCE:
            return plan()
        return await self._background.run_alone(plan)

    def _log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        try:
            return topic_config(overrides, self._settings.config)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
