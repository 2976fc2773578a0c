"""Topics as far as this broker keeps logs for them: their settings, their logs, and what hangs on leading them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.config import ConfigError, LogConfig, topic_config
from tidelog.storage.errors import LogDirFailure

if TYPE_CHECKING:
    from tidelog.broker.configuration.current import CurrentSettings
    from tidelog.broker.runtime.background import BackgroundPool, Flusher
    from tidelog.broker.runtime.slices import TimeSlices
    from tidelog.metadata.image import ClusterImage
    from tidelog.replication.replica_manager import DelayedRecords, ReplicaManager
    from tidelog.replication.role_changes import LeadershipListener
    from tidelog.storage.directories.manager import LogManager
    from tidelog.storage.log import Log

logger = logging.getLogger(__name__)


class HostedTopics:
    """The logs that this broker has for topics, as the image and the topology want them."""

    def __init__(
        self,
        settings: CurrentSettings,
        image: ClusterImage,
        log_manager: LogManager,
        replica_manager: ReplicaManager,
        delayed: DelayedRecords,
        flusher: Flusher,
        background: BackgroundPool,
        slices: TimeSlices,
    ) -> None:
        self._settings = settings
        self._image = image
        self._log_manager = log_manager
        self._replica_manager = replica_manager
        self._delayed = delayed
        self._flusher = flusher
        self._background = background
        self._slices = slices
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

    # --- configuration ---

    def config_of(self, name: str) -> LogConfig:
        """The settings of a topic's logs. A setting that no longer parses must not keep a broker from starting."""
        overrides = dict(self._image.overrides(name))
        while True:
            try:
                return topic_config(overrides, self._settings.config, ignore_unknown=True)
            except ConfigError as error:
                # Only that one: a topic that lost its retention with it would lose its records.
                if error.setting not in overrides:
                    logger.error("all settings of topic %s are ignored: %s", name, error)
                    return topic_config({}, self._settings.config)
                logger.error("the setting %s of topic %s is ignored: %s", error.setting, name, error)
                del overrides[error.setting]

    async def apply_overrides(self, name: str, overrides: Mapping[str, str]) -> None:
        """A topic's settings changed: image and logs follow."""
        if self._image.topic(name) is not None:
            self._image.set_overrides(name, overrides)
            await self.apply_config(name)

    async def apply_all_configs(self) -> None:
        """Settings of the broker changed: every topic's logs follow."""
        for topic in list(self._image.topics()):
            await self.apply_config(topic.name)

    async def apply_config(self, name: str) -> None:
        """Let the logs of a topic follow its settings, one a step, until they are as the settings are then."""
        applied: LogConfig | None = None
        while (topic := self._image.topic(name)) is not None and (config := self.config_of(name)) != applied:
            for partition in topic.partitions:
                hosted = self._replica_manager.find(name, partition.index)
                if hosted is not None:
                    hosted.log.update_config(config)
                    self._delayed.opened(hosted)
                await self._slices.pause()
            applied = config

    # --- logs ---

    def load(self) -> bool:
        """At start-up: load every log that is there. Whether a crash came before."""
        known: dict[str, LogConfig] = {}

        def config_of(name: str) -> LogConfig:
            """Each read once: a topic may have thousands of logs."""
            found = known.get(name)
            if found is None:
                found = known[name] = self.config_of(name)
            return found

        return bool(self._log_manager.load(config_of).unclean_directories)

    def is_new(self, name: str) -> bool:
        """Whether no log of a topic was opened since the broker started."""
        return name not in self._opened

    def open_log(self, topic: str, index: int, topic_id: bytes | None, *, is_new: bool) -> Log:
        """The log of a partition, created where there is none. Raises ApiError and LogDirFailure."""
        log = self._log_manager.get_log(topic, index)
        if log is None or (topic_id is not None and log.topic_id != topic_id):
            return self.create_log(topic, index, topic_id, self.config_of(topic), is_new=is_new)
        if self.is_new(topic):
            log.update_config(self.config_of(topic))
        return self.use_log(log)

    def create_log(self, topic: str, index: int, topic_id: bytes | None, config: LogConfig, *, is_new: bool) -> Log:
        """The log of a partition for a topic of this id. Raises ApiError and LogDirFailure."""
        return self.use_log(self._log_manager.get_or_create_log(topic, index, topic_id, config, is_new=is_new))

    def use_log(self, log: Log) -> Log:
        """A log that is there is a partition's from now on."""
        self._opened.add(log.topic)
        # A finished segment is synced soon, so that a crash need not read it again.
        log.on_rolled(self._flusher.flush)
        return log

    def delete_log(self, topic: str, index: int) -> None:
        """Remove the log of a partition, if there is one. Raises LogDirFailure."""
        self._log_manager.delete_log(topic, index)

    async def forget_deleted(self, name: str) -> None:
        """Remove deleted logs from the checkpoints before new logs can have their names."""
        try:
            await self._background.run(self._log_manager.forget_deleted(name))
        except LogDirFailure as failure:
            self._replica_manager.fail_log_dir(failure)

    def on_deleted(self, names: Sequence[str]) -> None:
        """Topics are gone from the cluster."""
        self._opened.difference_update(names)
        for listener in self._deletion_listeners:
            listener(names)

    def resign(self, name: str, index: int) -> None:
        """This broker does not lead a partition any more: coordinators unload what belongs to it."""
        for listener in self.leadership_listeners:
            listener.resign(name, index)
