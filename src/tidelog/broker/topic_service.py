"""Topics as a whole: what the tree says, what the image shows, and which logs this broker keeps for them.

Handlers and start-up call it. Every change goes the same way: plan against the image, write to the tree, change the
image, then open or close logs. The tree is written first because it decides: should the broker stop in between, the
next start makes logs and image follow it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

from tidelog.broker.metadata_errors import metadata_errors_translated
from tidelog.broker.topic_planning import (
    check_automatic,
    existing_topic,
    mark_for_deletion,
    plan_more_partitions,
    plan_new_topic,
    planned,
    write_more_partitions,
    write_new_topic,
)
from tidelog.config import ConfigError, LogConfig, topic_config
from tidelog.metadata import topics as topic_plans
from tidelog.metadata.elections import begin_new_epochs
from tidelog.metadata.image import PartitionImage, TopicImage
from tidelog.replication.partition import Partition
from tidelog.storage.errors import LogDirFailure
from tidelog.storage.log import Log
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.metadata.store import Store

logger = logging.getLogger(__name__)


class LeadershipListener(Protocol):
    """Has state for some of the partitions that this broker leads."""

    def lead(self, partition: Partition) -> None:
        """This broker leads a partition from now on: load what belongs to it."""

    def resign(self, topic: str, index: int) -> None:
        """It does not lead the partition any more, if it ever did: unload what belongs to it."""


class TopicChanges(Protocol):
    """Topics as clients change them. Every method raises ApiError."""

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
        """Make a topic, or only say what would be made."""

    async def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool = False
    ) -> None:
        """Let a topic grow to `count` partitions."""

    async def delete(self, name: str) -> bytes:
        """Delete a topic and return the id it had."""

    async def wait_created(self, counts: Mapping[str, int], timeout_ms: int, /) -> Collection[str]:
        """Of topics with so many partitions: those that cannot be used within the time given."""

    async def wait_deleted(self, names: Collection[str], timeout_ms: int, /) -> Collection[str]:
        """Of topics that are deleted: those that clients still see after the time given."""

    async def create_automatically(self, name: str) -> TopicImage:
        """Make a topic that a client named and that does not exist."""

    async def create_internal(
        self, name: str, partition_count: int, replication_factor: int, overrides: Mapping[str, str]
    ) -> object:
        """Make a topic of a coordinator's own, or have it made."""


class TopicService:
    """Creates, grows and deletes topics on this broker."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lock = asyncio.Lock()
        """One change of the tree at a time: nothing comes between what is planned and what is written."""
        self._topic_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One change of a topic at a time, its logs included; they are opened and closed in slices."""
        self.leadership_listeners: list[LeadershipListener] = []
        self._deletion_listeners: list[Callable[[Sequence[str]], None]] = []
        self._opened: set[str] = set()
        """Topics whose settings are known from their first log on; used in a cluster."""

    def add_leadership_listener(self, listener: LeadershipListener) -> None:
        """Call `listener` for every partition whose leadership this broker takes or gives up from now on."""
        self.leadership_listeners.append(listener)

    def add_deletion_listener(self, listener: Callable[[Sequence[str]], None]) -> None:
        """Call `listener` with the names of topics that are deleted from now on."""
        self._deletion_listeners.append(listener)

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
        node = self._node
        async with self._lock:
            new = await plan_new_topic(node, name, partition_count, replication_factor, assignments, overrides)
            topic = new.image
            self._refuse_orphans(topic)
            if validate_only:
                return topic
            await write_new_topic(node, new, topic_plans.write_topic)
            node.image.set_topic(topic)
            node.image.set_overrides(name, overrides)
        await self._open_new(topic, topic.partitions, new.config)
        logger.info("created topic %s with %d partitions", name, len(topic.partitions))
        return topic

    def _refuse_orphans(self, topic: TopicImage) -> None:
        """A log that no topic accounts for belongs to an earlier topic of that name, and would not be overwritten."""
        for partition in topic.partitions:
            log = self._node.log_manager.get_log(topic.name, partition.index)
            if log is not None:
                raise ApiError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"{log.directory} holds a log of an earlier topic '{topic.name}' that the metadata does not know: "
                    "adopt it with `tidelog adopt --orphans`, or move it away and restart the broker.",
                )

    async def create_automatically(self, name: str) -> TopicImage:
        """Make a topic that a client named and that does not exist. Raises ApiError, for internal topics too."""
        check_automatic(name)
        config = self._node.config
        async with self._lock_of(name):
            found = self._node.image.topic(name)  # another client may have asked for it in the same moment
            return found or await self._create(name, config.num_partitions, config.default_replication_factor, None, {})

    async def create_internal(
        self, name: str, partition_count: int, replication_factor: int, overrides: Mapping[str, str]
    ) -> TopicImage:
        """A topic of a coordinator's own, made at its first use; fewer brokers than replicas wanted is no obstacle."""
        async with self._lock_of(name):
            factor = min(replication_factor, len(self._node.image.broker_ids()))
            found = self._node.image.topic(name)
            return found or await self._create(name, partition_count, factor, None, overrides)

    async def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool = False
    ) -> None:
        """Let a topic grow to `count` partitions; raises ApiError."""
        async with self._lock_of(name):
            async with self._lock:
                grown = await self._write_added(name, count, assignments, validate_only)
            if grown is not None:
                await self._open_new(*grown, self.config_of(name))

    async def _write_added(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, validate_only: bool
    ) -> tuple[TopicImage, Sequence[PartitionImage]] | None:
        """The topic as it is then, and the partitions that were added."""
        node = self._node
        plan = await plan_more_partitions(node, name, count, assignments)
        if validate_only:
            return None
        await write_more_partitions(node, plan, topic_plans.write_partitions)
        before = node.image.topic(name)
        assert before is not None, f"{name} is in the tree and must be in the image"
        added = await planned(node, plan.images, len(plan.states))
        topic = TopicImage(name, before.topic_id, [*before.partitions, *added])
        node.image.set_topic(topic)
        return topic, added

    async def delete(self, name: str) -> bytes:
        """Delete a topic and return the id it had; raises ApiError."""
        async with self._lock_of(name):
            return await self._delete(name)

    async def wait_created(self, _counts: Mapping[str, int], _timeout_ms: int, /) -> Collection[str]:
        """A topic of a single broker can be used when `create` returns."""
        return ()

    async def wait_deleted(self, _names: Collection[str], _timeout_ms: int, /) -> Collection[str]:
        """A topic of a single broker is gone when `delete` returns."""
        return ()

    async def _delete(self, name: str) -> bytes:
        node = self._node
        topic = existing_topic(node, name)
        async with self._lock:
            await mark_for_deletion(node, topic)
        with metadata_errors_translated():
            await node.slices.run(self._removing(topic))
            await self.forget_deleted(name)
            async with self._lock:
                await node.metadata.run(topic_plans.delete_topic, name)
        for listener in self._deletion_listeners:
            listener((name,))
        logger.info("deleted topic %s", name)
        return topic.topic_id

    def _lock_of(self, name: str) -> asyncio.Lock:
        """Taken before the lock of the tree, never after it."""
        lock = self._topic_locks.get(name)
        if lock is None:
            lock = self._topic_locks[name] = asyncio.Lock()
        return lock

    async def forget_deleted(self, name: str) -> None:
        """Remove deleted logs from the checkpoints before new logs can have their names."""
        node = self._node
        try:
            await node.background.run(node.log_manager.forget_deleted(name))
        except LogDirFailure as failure:
            node.replica_manager.fail_log_dir(failure)

    def _removing(self, topic: TopicImage) -> Generator[None, None, None]:
        """Forget a topic and delete its logs, one a step."""
        node = self._node
        node.image.remove_topic(topic.name)
        for partition in topic.partitions:
            node.replica_manager.remove_partition(topic.name, partition.index)
            self.resign(topic.name, partition.index)
            try:
                node.log_manager.delete_log(topic.name, partition.index)
            except LogDirFailure as failure:
                node.replica_manager.fail_log_dir(failure)
            yield

    # --- configuration ---

    def config_of(self, name: str) -> LogConfig:
        """The settings of a topic's logs. A setting that no longer parses must not keep a broker from starting."""
        overrides = dict(self._node.image.overrides(name))
        while True:
            try:
                return topic_config(overrides, self._node.config, ignore_unknown=True)
            except ConfigError as error:
                # Only that one: a topic that lost its retention with it would lose its records.
                if error.setting not in overrides:
                    logger.error("all settings of topic %s are ignored: %s", name, error)
                    return topic_config({}, self._node.config)
                logger.error("the setting %s of topic %s is ignored: %s", error.setting, name, error)
                del overrides[error.setting]

    async def apply_overrides(self, name: str, overrides: Mapping[str, str]) -> None:
        """A topic's settings changed: image and logs follow."""
        if self._node.image.topic(name) is not None:
            self._node.image.set_overrides(name, overrides)
            await self._apply_config(name)

    async def apply_all_configs(self) -> None:
        """Settings of the broker changed: every topic's logs follow."""
        for topic in list(self._node.image.topics()):
            await self._apply_config(topic.name)

    async def _apply_config(self, name: str) -> None:
        """Let the logs of a topic follow its settings, one a step, until they are as the settings are then."""
        node = self._node
        applied: LogConfig | None = None
        while (topic := node.image.topic(name)) is not None and (config := self.config_of(name)) != applied:
            for partition in topic.partitions:
                hosted = node.replica_manager.find(name, partition.index)
                if hosted is not None:
                    hosted.log.update_config(config)
                    node.delayed.opened(hosted)
                await node.slices.pause()
            applied = config

    # --- logs ---

    def is_new(self, name: str) -> bool:
        """Whether no log of a topic was opened since the broker started."""
        return name not in self._opened

    def open_log(self, topic: str, index: int, topic_id: bytes | None, *, is_new: bool) -> Log:
        """The log of a partition, created where there is none. Raises ApiError and LogDirFailure."""
        node = self._node
        log = node.log_manager.get_log(topic, index)
        if log is None or (topic_id is not None and log.topic_id != topic_id):
            log = node.log_manager.get_or_create_log(topic, index, topic_id, self.config_of(topic), is_new=is_new)
        elif self.is_new(topic):
            log.update_config(self.config_of(topic))
        self._opened.add(topic)
        # A finished segment is synced soon, so that a crash need not read it again.
        log.on_rolled(node.flusher.flush)
        return log

    def delete_log(self, topic: str, index: int) -> None:
        """Remove the log of a partition, if there is one. Raises LogDirFailure."""
        self._node.log_manager.delete_log(topic, index)

    def on_deleted(self, names: Sequence[str]) -> None:
        """Topics are gone from the cluster."""
        self._opened.difference_update(names)
        for listener in self._deletion_listeners:
            listener(names)

    def open_all(self, store: Store, *, is_unclean: bool) -> None:
        """At start-up: finish deletions that were under way, then open the logs of every topic.

        After an unclean shutdown a tail may have been cut, so leaders begin a new epoch: readers beyond the cut detect
        the truncation (KIP-320).
        """
        node = self._node
        for name in topic_plans.topics_marked_for_deletion(store):
            topic = node.image.topic(name)
            if topic is not None:
                _exhaust(self._removing(topic))
                node.log_manager.forget_deleted(name)()
            topic_plans.delete_topic(store, name)
        if is_unclean:
            begin_new_epochs(store, node.image, node.broker_id, self._node.image.controller_epoch)
        for topic in list(node.image.topics()):
            _exhaust(self._opening(topic, topic.partitions, None, is_new=False))

    async def _open_new(self, topic: TopicImage, partitions: Sequence[PartitionImage], config: LogConfig) -> None:
        """Open the logs of new partitions. Requests for those that are not open yet are refused, and sent again."""
        await self._node.slices.run(self._opening(topic, partitions, config))
        if self.config_of(topic.name) != config:
            await self._apply_config(topic.name)  # the settings were changed meanwhile

    def _opening(
        self,
        topic: TopicImage,
        partitions: Sequence[PartitionImage],
        config: LogConfig | None,
        *,
        is_new: bool = True,
    ) -> Generator[None, None, None]:
        """Open the logs of partitions, one a step; those that are not new may lie in a directory that is offline."""
        node = self._node
        for partition in list(partitions):
            yield
            if node.broker_id not in partition.replicas:
                continue
            try:
                log = node.log_manager.get_log(topic.name, partition.index)
                if log is None or log.topic_id != topic.topic_id:
                    # Also where the log does not know its topic's id: a crash may have come before it was written.
                    config = config or self.config_of(topic.name)
                    log = node.log_manager.get_or_create_log(
                        topic.name, partition.index, topic.topic_id, config, is_new=is_new
                    )
            except LogDirFailure as failure:
                node.replica_manager.fail_log_dir(failure)
                self._stays_offline(topic.name, partition.index, failure)
                continue
            except ApiError as error:
                self._stays_offline(topic.name, partition.index, error)
                continue
            # A finished segment is synced soon, so that a crash need not read it again.
            log.on_rolled(node.flusher.flush)
            hosted = node.replica_manager.add_partition(topic.name, partition.index, topic.topic_id, log)
            if partition.leader_id == node.broker_id:
                hosted.make_leader(partition.leader_epoch, partition.replicas, partition.isr)
                for listener in self.leadership_listeners:
                    listener.lead(hosted)

    def _stays_offline(self, name: str, index: int, why: Exception) -> None:
        logger.error("%s-%d stays offline: %s", name, index, why)
        self._node.replica_manager.add_offline(name, index)
        self.show_offline([(name, index)])

    def show_offline(self, keys: Iterable[tuple[str, int]]) -> None:
        """The disk of these partitions failed: metadata responses list their replicas here as offline."""
        image = self._node.image
        for name, index in keys:
            partition = image.partition(name, index)
            if partition is not None:
                failed = PartitionImage(
                    index,
                    partition.leader_id,
                    partition.leader_epoch,
                    partition.replicas,
                    partition.isr,
                    (self._node.broker_id,),
                    partition.state_version,
                )
                image.set_partition(name, failed)
                # Not now: it may be a coordinator's own write that has failed, and it is in the middle of it.
                asyncio.get_running_loop().call_soon(self.resign, name, index)

    def resign(self, name: str, index: int) -> None:
        """This broker does not lead a partition any more: coordinators unload what belongs to it."""
        for listener in self.leadership_listeners:
            listener.resign(name, index)


def _exhaust(steps: Generator[None, None, None]) -> None:
    """All steps at once, for start-up."""
    for _ in steps:
        pass
