"""Topics of a cluster as clients change them: written to the tree, carried out by the controller, shown by the image.

Only the controller accepts such changes. It plans them against its image and writes the assignment; the watch on the
tree triggers the active controller, on whichever broker it is by then. Topics that brokers themselves need, for
auto-creation or for a coordinator, are written by whichever broker needs them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.broker.topology.internal_topics import NO_OVERRIDES, AutomaticTopic, automatic_topic
from tidelog.broker.topology.metadata_waiters import MetadataWaiters
from tidelog.broker.topology.topic_planning import TopicPlanner
from tidelog.metadata import topics as topic_plans
from tidelog.metadata.image import ClusterImage, TopicImage
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.configuration.current import CurrentSettings
    from tidelog.broker.topology.controller_service import ControllerService
    from tidelog.metadata.store_queue import StoreQueue


class ClusterTopics:
    """Creates, extends and deletes topics of the cluster. Every method raises ApiError."""

    def __init__(
        self,
        settings: CurrentSettings,
        image: ClusterImage,
        metadata: StoreQueue,
        planner: TopicPlanner,
        controller: ControllerService,
        waiters: MetadataWaiters,
    ) -> None:
        self._settings = settings
        self._image = image
        self._metadata = metadata
        self._planner = planner
        self._controller = controller
        self._waiters = waiters
        self._being_written: set[str] = set()
        """Topics that this broker creates at the moment because it or a client needs them."""

    def _check_controller(self) -> None:
        if not self._controller.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")

    # --- changes that clients ask for ---

    async def create(
        self,
        name: str,
        partition_count: int,
        replication_factor: int,
        assignments: Mapping[int, Sequence[int]] | None,
        overrides: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> TopicImage:
        """Write a new topic, or only return what would be written. `wait_created` waits for its leaders."""
        self._check_controller()
        topic = await self._planner.plan_topic(name, partition_count, replication_factor, assignments, overrides)
        if not validate_only:
            await self._planner.write_topic(topic, topic_plans.write_new_assignment)
        return topic.image

    async def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool = False
    ) -> None:
        """Let a topic grow to `count` partitions. `wait_created` waits for their leaders."""
        self._check_controller()
        new = await self._planner.plan_partitions(name, count, assignments)
        if not validate_only:
            await self._planner.write_partitions(new, topic_plans.write_grown_assignment)

    async def delete(self, name: str) -> bytes:
        """Have a topic deleted and return the id it had. `wait_deleted` waits until no client sees it any more."""
        self._check_controller()
        return (await self._planner.mark_for_deletion(name)).topic_id

    async def wait_created(self, counts: Mapping[str, int], timeout_ms: int, /) -> Collection[str]:
        """Of topics that were written with so many partitions: those that have no leaders within the time given."""
        await self._waiters.wait(lambda: not self._without_leaders(counts), timeout_ms)
        return self._without_leaders(counts)

    def _without_leaders(self, counts: Mapping[str, int]) -> list[str]:
        image = self._image
        missing = []
        for name, count in counts.items():
            topic = image.topic(name)
            partitions = () if topic is None else topic.partitions
            if len(partitions) < count or any(partition.leader_id < 0 for partition in partitions):
                missing.append(name)
        return missing

    async def wait_deleted(self, names: Collection[str], timeout_ms: int, /) -> Collection[str]:
        """Of topics that are to be deleted: those that clients still see after the time given."""
        image = self._image
        await self._waiters.wait(lambda: all(image.topic(name) is None for name in names), timeout_ms)
        return [name for name in names if image.topic(name) is not None]

    # --- topics that brokers need ---

    async def create_automatically(self, name: str, overrides: Mapping[str, str] = NO_OVERRIDES, /) -> None:
        """Write a topic that a client named, or that a coordinator needs, unless it exists."""
        count, factor, settings = automatic_topic(name, self._settings.config)
        await self.create_needed(name, AutomaticTopic(count, factor, {**settings, **overrides}))

    async def create_needed(self, name: str, topic: AutomaticTopic, /) -> None:
        """Write this topic unless it exists.

        As in Kafka, this broker need not be the controller, and does not wait for one: the controller elects the
        leaders, and clients retry until they know them.
        """
        if self._image.topic(name) is not None or name in self._being_written:
            return
        if not self._metadata.is_reachable:
            # Rather than to wait: the client may ask another broker, and has other topics.
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name} cannot be written at the moment")
        count, factor, overrides = topic
        self._being_written.add(name)
        try:
            planned = await self._planner.plan_topic(name, count, factor, None, overrides)
            await self._planner.write_topic(planned, topic_plans.write_new_assignment)
        except ApiError as error:
            # The tree has it, and this broker's image does not yet.
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        finally:
            self._being_written.discard(name)
