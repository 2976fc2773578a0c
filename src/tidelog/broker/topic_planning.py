"""How a change of topics is checked, planned against this broker's image and settings, and written to the tree.

A single broker and a cluster's controller plan the same way. They differ in what they write (a controller leaves the
states of partitions to its elections) and in what follows. Every function raises ApiError for what cannot be done, in
the order in which Kafka checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tidelog.broker.metadata_errors import metadata_errors_translated
from tidelog.broker.settings import warn_of_idle_settings
from tidelog.config import ConfigError, LogConfig, topic_config, topic_settings_without_effect
from tidelog.metadata import topics as topic_plans
from tidelog.metadata.image import INTERNAL_TOPICS, TopicImage
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.metadata.store import Store

T = TypeVar("T")

_PLANNED_AT_ONCE: Final = 500
"""Partitions whose placement takes a millisecond or two."""


class PlannedTopic(NamedTuple):
    """A topic that may be created."""

    plan: topic_plans.NewTopic
    image: TopicImage
    """The topic as a single broker leads it once it is written. In a cluster, the controller elects the leaders."""
    config: LogConfig


async def plan_new_topic(
    node: Node,
    name: str,
    partition_count: int,
    replication_factor: int,
    assignments: Mapping[int, Sequence[int]] | None,
    overrides: Mapping[str, str],
) -> PlannedTopic:
    """Check a request for a topic and place its replicas. -1 asks for the broker's default count or factor."""
    chance = node.surroundings.random
    broker_count = max(len(node.image.broker_ids()), 1)
    plan_topic = partial(
        topic_plans.plan_topic,
        name,
        partition_count,
        replication_factor,
        assignments,
        overrides,
        node.image,
        default_partition_count=node.config.num_partitions,
        default_replication_factor=node.config.default_replication_factor,
        start_index=chance.randrange(broker_count),
        follower_shift=chance.randrange(broker_count),
        controller_epoch=node.image.controller_epoch,
        random_bytes=chance.randbytes,
    )
    plan = await planned(node, plan_topic, max(partition_count, node.config.num_partitions))
    config = check_topic_config(node, overrides)
    return PlannedTopic(plan, await planned(node, plan.image, len(plan.replicas)), config)


async def write_new_topic(
    node: Node, topic: PlannedTopic, write: Callable[[Store, topic_plans.NewTopic], None]
) -> None:
    """Write a topic that was planned, and warn of settings of it that this broker accepts and ignores."""
    plan = topic.plan
    warn_of_idle_settings(topic_settings_without_effect(plan.overrides), f"topic {plan.name}")
    with metadata_errors_translated():
        await node.metadata.run(write, plan)


async def plan_more_partitions(
    node: Node, name: str, count: int, assignments: Sequence[Sequence[int]] | None
) -> topic_plans.NewPartitions:
    """Check a request to let a topic grow to `count` partitions and place the replicas of the new ones."""
    existing_topic(node, name)
    racks = {broker.broker_id: broker.rack for broker in node.image.brokers()}
    with metadata_errors_translated():
        return await node.metadata.run(
            topic_plans.plan_partitions,
            sorted(racks),
            name,
            count,
            assignments,
            racks=racks,
            controller_epoch=node.image.controller_epoch,
        )


async def write_more_partitions(
    node: Node, new: topic_plans.NewPartitions, write: Callable[[Store, topic_plans.NewPartitions], None]
) -> None:
    """Write partitions that were planned."""
    with metadata_errors_translated():
        await node.metadata.run(write, new)


async def mark_for_deletion(node: Node, topic: TopicImage) -> None:
    """Write that a topic is to be deleted. A broker that stops before it is gone continues at its next start."""
    with metadata_errors_translated():
        await node.metadata.run(topic_plans.mark_for_deletion, topic.name)


def existing_topic(node: Node, name: str) -> TopicImage:
    """The topic of that name. It is looked up in the image: in the tree, a name with a slash would be a path."""
    topic = node.image.topic(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return topic


def check_automatic(name: str) -> None:
    """Check the name of a topic that is to be created because a client used it."""
    topic_plans.check_topic_name(name)
    if name in INTERNAL_TOPICS:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")


def check_topic_config(node: Node, overrides: Mapping[str, str]) -> LogConfig:
    """The settings of a topic with these overrides."""
    try:
        return topic_config(overrides, node.config)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


async def planned(node: Node, plan: Callable[[], T], partition_count: int) -> T:
    """What `plan` returns. For many partitions it runs on a thread, so it may only read what does not change."""
    if partition_count <= _PLANNED_AT_ONCE:
        return plan()
    return await node.background.run_alone(plan)
