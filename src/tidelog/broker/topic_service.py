"""Topics as a whole: what the tree says, what the image shows, and which logs this broker keeps for them.

Handlers and start-up call it. Every change goes the same way: plan against the image, write to the tree, change the
image, then open or close logs. The tree is written first because it decides: should the broker stop in between, the
next start makes logs and image follow it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.broker.metadata_errors import metadata_errors_told
from tidelog.broker.settings import warn_of_idle_settings
from tidelog.config import ConfigError, LogConfig, topic_config, topic_settings_without_effect
from tidelog.metadata import topics as topic_plans
from tidelog.metadata.configs import ConfigEntity, read_overrides
from tidelog.metadata.elections import begin_new_epochs
from tidelog.metadata.image import INTERNAL_TOPICS, PartitionImage, TopicImage
from tidelog.replication.partition import Partition
from tidelog.storage.errors import LogDirFailure
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.node import Node

logger = logging.getLogger(__name__)


class TopicService:
    """Creates, grows and deletes topics on this broker."""

    def __init__(self, node: Node, controller_epoch: int) -> None:
        self._node = node
        self._controller_epoch = controller_epoch
        self._leadership_listeners: list[Callable[[Partition], None]] = []
        self._deletion_listeners: list[Callable[[Sequence[str]], None]] = []

    def add_leadership_listener(self, listener: Callable[[Partition], None]) -> None:
        """Tell `listener` of every partition this broker leads from now on; coordinators load their state then."""
        self._leadership_listeners.append(listener)

    def add_deletion_listener(self, listener: Callable[[Sequence[str]], None]) -> None:
        """Tell `listener` the names of topics that are deleted from now on."""
        self._deletion_listeners.append(listener)

    # --- changes that clients ask for ---

    @metadata_errors_told()
    def create(
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
        node = self._node
        broker_count = max(len(node.image.broker_ids()), 1)
        plan = topic_plans.plan_topic(
            name,
            partition_count,
            replication_factor,
            assignments,
            overrides,
            node.image,
            default_partition_count=node.config.num_partitions,
            default_replication_factor=node.config.default_replication_factor,
            start_index=random.randrange(broker_count),
            follower_shift=random.randrange(broker_count),
            controller_epoch=self._controller_epoch,
        )
        config = self._check_config(overrides)
        topic = plan.image()
        if validate_only:
            return topic
        warn_of_idle_settings(topic_settings_without_effect(overrides), f"topic {name}")
        topic_plans.write_topic(node.store, plan)
        node.image.set_topic(topic)
        self._open_partitions(topic, topic.partitions, config)
        logger.info("created topic %s with %d partitions", name, len(topic.partitions))
        return topic

    def create_automatically(self, name: str, may_create: bool) -> TopicImage:
        """A topic that a client named and that does not exist, if client and configuration want it made."""
        topic_plans.check_topic_name(name)
        config = self._node.config
        if not (may_create and config.auto_create_topics_enable) or name in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")
        return self.create(name, config.num_partitions, config.default_replication_factor, None, {})

    def create_internal(
        self, name: str, partition_count: int, replication_factor: int, overrides: Mapping[str, str]
    ) -> TopicImage:
        """A topic of a coordinator's own, made at its first use; fewer brokers than replicas wanted is no obstacle."""
        found = self._node.image.topic(name)
        if found is not None:
            return found
        factor = min(replication_factor, len(self._node.image.broker_ids()))
        return self.create(name, partition_count, factor, None, overrides)

    @metadata_errors_told()
    def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool = False
    ) -> None:
        """Let a topic grow to `count` partitions; raises ApiError."""
        node = self._node
        if node.image.topic(name) is None:
            # Asked here, as the tree would take a name with a slash in it for the way to another node.
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        plan = topic_plans.plan_partitions(
            node.store, node.image, name, count, assignments, controller_epoch=self._controller_epoch
        )
        if validate_only:
            return
        topic_plans.write_partitions(node.store, plan)
        before = node.image.topic(name)
        assert before is not None, f"{name} is in the tree and must be in the image"
        added = plan.images()
        topic = TopicImage(name, before.topic_id, [*before.partitions, *added])
        node.image.set_topic(topic)
        self._open_partitions(topic, added, self.config_of(name))

    @metadata_errors_told()
    def delete(self, name: str) -> bytes:
        """Delete a topic and return the id it had; raises ApiError."""
        node = self._node
        topic = node.image.topic(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        topic_plans.mark_for_deletion(node.store, name)
        self._remove(topic)
        topic_plans.delete_topic(node.store, name)
        for listener in self._deletion_listeners:
            listener((name,))
        logger.info("deleted topic %s", name)
        return topic.topic_id

    def _remove(self, topic: TopicImage) -> None:
        node = self._node
        node.image.remove_topic(topic.name)
        for partition in topic.partitions:
            node.replica_manager.remove_partition(topic.name, partition.index)
            try:
                node.log_manager.delete_log(topic.name, partition.index)
            except LogDirFailure as failure:
                node.replica_manager.fail_log_dir(failure)

    # --- configuration ---

    def overrides_of(self, name: str) -> dict[str, str]:
        """What is set for a topic itself."""
        return read_overrides(self._node.store, ConfigEntity("topics", name))

    def config_of(self, name: str) -> LogConfig:
        """The settings of a topic's logs. A setting that no longer parses must not keep a broker from starting."""
        overrides = self.overrides_of(name)
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

    def apply_config(self, name: str) -> None:
        """A topic's settings changed: its logs follow."""
        topic = self._node.image.topic(name)
        if topic is None:
            return
        config = self.config_of(name)
        for partition in topic.partitions:
            hosted = self._node.replica_manager.find(name, partition.index)
            if hosted is not None:
                hosted.log.update_config(config)

    def apply_all_configs(self) -> None:
        """Settings of the broker changed: every topic's logs follow."""
        for topic in list(self._node.image.topics()):
            self.apply_config(topic.name)

    def _check_config(self, overrides: Mapping[str, str]) -> LogConfig:
        try:
            return topic_config(overrides, self._node.config)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error

    # --- logs ---

    def open_all(self, *, is_unclean: bool) -> None:
        """At start-up: finish deletions that were under way, then open the logs of every topic.

        After an unclean shutdown a tail may have been cut, so leaders begin a new epoch: who read beyond the cut can
        tell (KIP-320).
        """
        node = self._node
        for name in topic_plans.topics_marked_for_deletion(node.store):
            topic = node.image.topic(name)
            if topic is not None:
                self._remove(topic)
            topic_plans.delete_topic(node.store, name)
        if is_unclean:
            begin_new_epochs(node.store, node.image, node.broker_id, self._controller_epoch)
        for topic in list(node.image.topics()):
            self._open_partitions(topic, topic.partitions, None, is_new=False)

    def _open_partitions(
        self,
        topic: TopicImage,
        partitions: Sequence[PartitionImage],
        config: LogConfig | None,
        *,
        is_new: bool = True,
    ) -> None:
        """Open the logs of partitions; those that are not new may lie in a directory that is offline."""
        node = self._node
        for partition in list(partitions):
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
            log.on_rolled = node.flusher.flush
            hosted = node.replica_manager.add_partition(topic.name, partition.index, topic.topic_id, log)
            if partition.leader_id == node.broker_id:
                hosted.make_leader(partition.leader_epoch, partition.replicas, partition.isr)
                for listener in self._leadership_listeners:
                    listener(hosted)

    def _stays_offline(self, name: str, index: int, why: Exception) -> None:
        logger.error("%s-%d stays offline: %s", name, index, why)
        self._node.replica_manager.add_offline(name, index)
        self.show_offline([(name, index)])

    def show_offline(self, keys: Iterable[tuple[str, int]]) -> None:
        """The disk of these partitions failed: whoever asks for metadata sees that their replicas here are offline."""
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
