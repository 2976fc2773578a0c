"""Topics of a broker that is alone: it writes them to the tree, changes the image and opens or closes their logs.

Every change goes the same way: plan against the image, write to the tree, change the image, then open or close logs.
The tree is written first because it decides: should the broker stop in between, the next start makes logs and image
follow it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from tidelog.broker.metadata_errors import metadata_errors_translated
from tidelog.broker.topology.internal_topics import NO_OVERRIDES, AutomaticTopic, automatic_topic
from tidelog.broker.topology.topic_planning import TopicPlanner
from tidelog.metadata import topics as topic_plans
from tidelog.metadata.elections import begin_new_epochs
from tidelog.metadata.image import PartitionImage, TopicImage
from tidelog.storage.errors import LogDirFailure
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.topology.topology import BrokerParts
    from tidelog.config import LogConfig
    from tidelog.metadata.store import Store
    from tidelog.storage.log import Log
    from tidelog.wire.partitions import PartitionKey

logger = logging.getLogger(__name__)


class OwnTopics:
    """Creates, grows and deletes topics on this broker."""

    def __init__(self, parts: BrokerParts, planner: TopicPlanner) -> None:
        self._broker_id = parts.broker_id
        self._settings = parts.settings
        self._image = parts.image
        self._metadata = parts.metadata
        self._slices = parts.base.slices
        self._log_manager = parts.base.log_manager
        self._replica_manager = parts.replica_manager
        self._hosted = parts.topics
        self._planner = planner
        self._lock = asyncio.Lock()
        """One change of the tree at a time: nothing comes between what is planned and what is written."""
        self._topic_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One change of a topic at a time, its logs included; they are opened and closed in slices."""

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
        """Make a topic, or only say what would be made; raises ApiError."""
        async with self._lock_of(name):
            return await self._create(
                name, partition_count, replication_factor, assignments, overrides, validate_only=validate_only
            )

    async def create_needed(self, name: str, topic: AutomaticTopic, /) -> None:
        """Create a topic that an application needs, unless it exists. Raises ApiError. It can be used at once."""
        async with self._lock_of(name):
            if self._image.topic(name) is None:  # another client may have asked for it in the same moment
                await self._create(name, topic.partition_count, topic.replication_factor, None, topic.overrides)

    async def _create(
        self,
        name: str,
        partition_count: int,
        replication_factor: int,
        assignments: Mapping[int, Sequence[int]] | None,
        overrides: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> TopicImage:
        async with self._lock:
            new = await self._planner.plan_topic(name, partition_count, replication_factor, assignments, overrides)
            topic = new.image
            self._refuse_orphans(topic)
            if validate_only:
                return topic
            await self._planner.write_topic(new, topic_plans.write_topic)
            self._image.set_topic(topic)
            self._image.set_overrides(name, overrides)
        await self._open_new(topic, topic.partitions, new.config)
        logger.info("created topic %s with %d partitions", name, len(topic.partitions))
        return topic

    def _refuse_orphans(self, topic: TopicImage) -> None:
        """A log that no topic accounts for belongs to an earlier topic of that name, and would not be overwritten."""
        for partition in topic.partitions:
            log = self._log_manager.get_log(topic.name, partition.index)
            if log is not None:
                raise ApiError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"{log.directory} holds a log of an earlier topic '{topic.name}' that the metadata does not know: "
                    "adopt it with `tidelog adopt --orphans`, or move it away and restart the broker.",
                )

    async def create_automatically(self, name: str, overrides: Mapping[str, str] = NO_OVERRIDES, /) -> None:
        """Create a topic that a client named, or that a coordinator needs. Raises ApiError. It can be used at once."""
        count, factor, settings = automatic_topic(name, self._settings.config, is_alone=True)
        await self.create_needed(name, AutomaticTopic(count, factor, {**settings, **overrides}))

    async def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool = False
    ) -> None:
        """Let a topic grow to `count` partitions; raises ApiError."""
        async with self._lock_of(name):
            async with self._lock:
                grown = await self._write_added(name, count, assignments, validate_only)
            if grown is not None:
                await self._open_new(*grown, self._hosted.config_of(name))

    async def _write_added(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, validate_only: bool
    ) -> tuple[TopicImage, Sequence[PartitionImage]] | None:
        """The topic as it is then, and the partitions that were added."""
        plan = await self._planner.plan_partitions(name, count, assignments)
        if validate_only:
            return None
        await self._planner.write_partitions(plan, topic_plans.write_partitions)
        before = self._image.topic(name)
        assert before is not None, f"{name} is in the tree and must be in the image"
        added = await self._planner.made(plan.images, len(plan.states))
        topic = TopicImage(name, before.topic_id, [*before.partitions, *added])
        self._image.set_topic(topic)
        return topic, added

    async def delete(self, name: str) -> bytes:
        """Delete a topic and return the id it had; raises ApiError."""
        async with self._lock_of(name):
            async with self._lock:
                topic = await self._planner.mark_for_deletion(name)
            with metadata_errors_translated():
                await self._slices.run(self._removing(topic))
                await self._hosted.forget_deleted(name)
                async with self._lock:
                    await self._metadata.run(topic_plans.delete_topic, name)
            self._hosted.on_deleted((name,))
            logger.info("deleted topic %s", name)
            return topic.topic_id

    async def wait_created(self, _counts: Mapping[str, int], _timeout_ms: int, /) -> Collection[str]:
        """A topic of a single broker can be used when `create` returns."""
        return ()

    async def wait_deleted(self, _names: Collection[str], _timeout_ms: int, /) -> Collection[str]:
        """A topic of a single broker is gone when `delete` returns."""
        return ()

    def _lock_of(self, name: str) -> asyncio.Lock:
        """Taken before the lock of the tree, never after it."""
        lock = self._topic_locks.get(name)
        if lock is None:
            lock = self._topic_locks[name] = asyncio.Lock()
        return lock

    # --- logs ---

    def open_all(self, store: Store, *, is_unclean: bool) -> None:
        """At start-up: finish deletions that were under way, then open the logs of every topic.

        After an unclean shutdown a tail may have been cut, so leaders begin a new epoch: readers beyond the cut detect
        the truncation (KIP-320).
        """
        for name in topic_plans.topics_marked_for_deletion(store):
            topic = self._image.topic(name)
            if topic is not None:
                _exhaust(self._removing(topic))
                self._log_manager.forget_deleted(name)()
            topic_plans.delete_topic(store, name)
        if is_unclean:
            begin_new_epochs(store, self._image, self._broker_id, self._image.controller_epoch)
        for topic in list(self._image.topics()):
            _exhaust(self._opening(topic, topic.partitions, None, is_new=False))

    async def _open_new(self, topic: TopicImage, partitions: Sequence[PartitionImage], config: LogConfig) -> None:
        """Open the logs of new partitions. Requests for those that are not open yet are refused, and sent again."""
        await self._slices.run(self._opening(topic, partitions, config, is_new=True))
        if self._hosted.config_of(topic.name) != config:
            await self._hosted.apply_config(topic.name)  # the settings were changed meanwhile

    def _opening(
        self, topic: TopicImage, partitions: Sequence[PartitionImage], config: LogConfig | None, *, is_new: bool
    ) -> Generator[None, None, None]:
        """Open the logs of partitions, one a step; those that are not new may lie in a directory that is offline."""
        for partition in list(partitions):
            yield
            if self._broker_id not in partition.replicas:
                continue
            try:
                log = self._log_manager.get_log(topic.name, partition.index)
                if log is None or log.topic_id != topic.topic_id:
                    # Also where the log does not know its topic's id: a crash may have come before it was written.
                    config = config or self._hosted.config_of(topic.name)
                    log = self._hosted.create_log(topic.name, partition.index, topic.topic_id, config, is_new=is_new)
                else:
                    self._hosted.use_log(log)
            except LogDirFailure as failure:
                self._replica_manager.fail_log_dir(failure)
                self._stays_offline(topic.name, partition.index, failure)
            except ApiError as error:
                self._stays_offline(topic.name, partition.index, error)
            else:
                self._open(topic, partition, log)

    def _open(self, topic: TopicImage, partition: PartitionImage, log: Log) -> None:
        hosted = self._replica_manager.add_partition(topic.name, partition.index, topic.topic_id, log)
        if partition.leader_id == self._broker_id:
            hosted.make_leader(partition.leader_epoch, partition.replicas, partition.isr)
            for listener in self._hosted.leadership_listeners:
                listener.lead(hosted)

    def _stays_offline(self, name: str, index: int, why: Exception) -> None:
        logger.error("%s-%d stays offline: %s", name, index, why)
        self._replica_manager.add_offline(name, index)
        self.show_offline([(name, index)])

    def show_offline(self, keys: Iterable[PartitionKey]) -> None:
        """The disk of these partitions failed: metadata responses list their replicas here as offline."""
        for name, index in keys:
            partition = self._image.partition(name, index)
            if partition is not None:
                failed = PartitionImage(
                    index,
                    partition.leader_id,
                    partition.leader_epoch,
                    partition.replicas,
                    partition.isr,
                    (self._broker_id,),
                    partition.state_version,
                )
                self._image.set_partition(name, failed)
                # Not now: it may be a coordinator's own write that has failed, and it is in the middle of it.
                asyncio.get_running_loop().call_soon(self._hosted.resign, name, index)

    def _removing(self, topic: TopicImage) -> Generator[None, None, None]:
        """Forget a topic and delete its logs, one a step."""
        self._image.remove_topic(topic.name)
        for partition in topic.partitions:
            self._replica_manager.remove_partition(topic.name, partition.index)
            self._hosted.resign(topic.name, partition.index)
            try:
                self._hosted.delete_log(topic.name, partition.index)
            except LogDirFailure as failure:
                self._replica_manager.fail_log_dir(failure)
            yield


def _exhaust(steps: Generator[None, None, None]) -> None:
    """All steps at once, for start-up."""
    for _ in steps:
        pass
