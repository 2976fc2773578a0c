"""Logs and metadata compared at start: unknown logs are adopted or named, and nothing of theirs is deleted.

A tree that never held a topic takes over whatever lies in `log.dirs`: that is how a directory of Apache Kafka's moves
in. In any other tree a log that no topic accounts for is an orphan: the tree was damaged, or the topic was deleted
while the log's disk was offline. Orphans stay where they are, out of retention's reach, until an operator decides.

Also done here, because older versions adopted without it: internal topics get the overrides that they need, and
producer ids are allocated above every id that the logs know.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.broker.topology.internal_topics import COORDINATOR_TOPICS
from tidelog.config import topic_config
from tidelog.metadata import paths
from tidelog.metadata import topics as topic_plans
from tidelog.metadata.adoption import (
    KEEP_EVERYTHING,
    AdoptionState,
    is_unsettled,
    read_adoption,
    write_adoption,
)
from tidelog.metadata.image import INTERNAL_TOPICS, TRANSACTIONS_TOPIC, TopicImage
from tidelog.metadata.producer_ids import stay_above
from tidelog.metadata.tree import encode_config
from tidelog.metadata.uuids import random_uuid
from tidelog.metadata.walk import create_or_set
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import NO_PRODUCER_ID
from tidelog.storage.errors import StorageError
from tidelog.storage.loading.producer_ids import largest_active_producer_id, largest_producer_id

if TYPE_CHECKING:
    from tidelog.broker.hosting.hosted_topics import HostedTopics
    from tidelog.config import BrokerConfig
    from tidelog.metadata.image import ClusterImage
    from tidelog.metadata.store import Store
    from tidelog.storage.directories.manager import LogManager
    from tidelog.storage.log import Log

logger = logging.getLogger(__name__)

_NAMES_SHOWN_MAX: Final = 20
_READ_BYTES: Final = 1 << 20


class Adoption:
    """One start's comparison of the loaded logs with the image. `run` before partitions are opened."""

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        image: ClusterImage,
        log_manager: LogManager,
        topics: HostedTopics,
        store: Store,
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._image = image
        self._log_manager = log_manager
        self._topics = topics
        self._store = store
        self._state = AdoptionState()

    def run(self) -> None:
        """Adopt logs, repair what older versions left out, and log warnings for the operator."""
        before = self._state = read_adoption(self._store)
        self._report_missing()
        orphans = self._orphans()
        changed: set[str] = set()
        if orphans and (self._is_fresh_tree() or before.wants_orphans):
            changed = self._adopt(orphans)
            orphans = self._orphans()
        changed |= self._repair_internal_topics()
        self._apply_configs(changed)
        self._protect_producer_ids(has_adopted=bool(changed))
        self._protect(orphans)
        self._report_unsettled()
        self._state = self._state._replace(wants_orphans=False)
        if self._state != before:
            write_adoption(self._store, self._state)

    # --- orphans ---

    def _orphans(self) -> list[Log]:
        return [log for log in self._log_manager.all_logs() if not self._is_known(log)]

    def _is_known(self, log: Log) -> bool:
        topic = self._image.topic(log.topic)
        if topic is None or log.topic_id not in (None, topic.topic_id):
            return False
        partition = topic.partition(log.partition)
        return partition is not None and self._broker_id in partition.replicas

    def _is_fresh_tree(self) -> bool:
        """Whether the tree never held a topic, rather than holds none any more."""
        stat = self._store.exists(paths.TOPICS)
        return stat is None or stat.cversion == 0

    def _protect(self, orphans: Sequence[Log]) -> None:
        if not orphans:
            return
        keep_everything = topic_config(KEEP_EVERYTHING, self._config)
        for log in orphans:
            log.update_config(keep_everything)
        logger.error(
            "the metadata accounts for none of these %d logs, which are kept and not served: %s. If their topics are "
            "missing because the metadata was damaged, stop the broker, run `tidelog adopt --orphans` on log.dirs and "
            "start it again; if they are not needed, delete their directories",
            len(orphans),
            _listed(sorted(log.directory for log in orphans)),
        )

    def _report_missing(self) -> None:
        """Name partitions whose log is not on disk. After a crash that may be a topic that was just being created."""
        if self._log_manager.offline_directories():
            return  # most likely they are in a directory that is offline, and are reported so
        missing = [
            f"{topic.name}-{partition.index}"
            for topic in self._image.topics()
            for partition in topic.partitions
            if self._broker_id in partition.replicas and self._log_manager.get_log(topic.name, partition.index) is None
        ]
        if missing:
            logger.error("%d partitions have no log in log.dirs and start empty: %s", len(missing), _listed(missing))

    # --- adopting ---

    def _adopt(self, orphans: Sequence[Log]) -> set[str]:
        """Write the topics of these logs to tree and image, all at once; returns their names.

        All at once, because a tree with some of them would look as if the others had been deleted.
        """
        if offline := self._log_manager.offline_directories():
            reasons = "; ".join(f"{path}: {why}" for path, why in offline.items())
            raise StorageError(
                f"logs cannot be adopted while a log directory is offline, because partitions that lie in it would "
                f"be created empty elsewhere ({reasons}). Repair the directory, or take it out of log.dirs"
            )
        by_topic: dict[str, list[Log]] = {}
        for log in orphans:
            by_topic.setdefault(log.topic, []).append(log)
        known = {name: self._image.topic(name) for name in by_topic}
        new = [self._plan_topic(name, by_topic[name]) for name, topic in known.items() if topic is None]
        # Noted first: the warning must not miss a topic that keeps everything.
        unknown = [plan.name for plan in new if plan.name not in INTERNAL_TOPICS and not self._has_settings(plan.name)]
        unsettled = sorted({*self._state.unsettled_topics, *unknown})
        self._state = self._state._replace(unsettled_topics=tuple(unsettled), are_producer_ids_checked=False)
        write_adoption(self._store, self._state)
        topic_plans.write_topics(self._store, new)
        for plan in new:
            self._image.set_topic(plan.image())
            self._image.set_overrides(plan.name, plan.overrides)
        grown = [topic.name for topic in known.values() if topic and self._grow(topic, by_topic[topic.name])]
        adopted = {plan.name for plan in new} | set(grown)
        logger.info("adopted %d topics found in log.dirs: %s", len(adopted), _listed(sorted(adopted)))
        return adopted

    def _plan_topic(self, name: str, logs: Sequence[Log]) -> topic_plans.NewTopic:
        epochs = _leader_epochs(logs)
        if absent := [str(index) for index in range(max(epochs)) if index not in epochs]:
            logger.warning("partitions %s of %s are not in log.dirs and start empty", _listed(absent), name)
        return topic_plans.plan_adopted_topic(
            name,
            _topic_id(name, logs),
            epochs,
            self._broker_id,
            overrides=self._overrides_for(name),
            controller_epoch=self._image.controller_epoch,
        )

    def _overrides_for(self, name: str) -> dict[str, str]:
        """What an adopted topic overrides: settings that were entered before the start, or those that lose nothing."""
        overrides = dict(self._image.overrides(name))
        if name in INTERNAL_TOPICS:
            return {**COORDINATOR_TOPICS[name].overrides(self._config, 1), **overrides}
        return overrides if self._has_settings(name) else dict(KEEP_EVERYTHING)

    def _has_settings(self, name: str) -> bool:
        return self._store.exists(paths.config("topics", name)) is not None

    def _grow(self, topic: TopicImage, logs: Sequence[Log]) -> bool:
        """Add the partitions of a known topic that the tree lost; whether there are any."""
        added = [log for log in logs if log.topic_id == topic.topic_id and log.partition >= len(topic.partitions)]
        if not added:
            return False
        plan = topic_plans.plan_adopted_partitions(
            self._store,
            topic.name,
            _leader_epochs(added),
            self._broker_id,
            controller_epoch=self._image.controller_epoch,
        )
        topic_plans.write_partitions(self._store, plan)
        self._image.set_topic(TopicImage(topic.name, topic.topic_id, [*topic.partitions, *plan.images()]))
        return True

    # --- settings ---

    def _repair_internal_topics(self) -> set[str]:
        """Give internal topics the overrides that an older version adopted them without; which of them lacked some."""
        repaired = set()
        for name in INTERNAL_TOPICS:
            topic = self._image.topic(name)
            if topic is None:
                continue
            overrides = self._image.overrides(name)
            if "cleanup.policy" not in overrides:
                factor = len(topic.partitions[0].replicas)
                needed = {**COORDINATOR_TOPICS[name].overrides(self._config, factor), **overrides}
                self._store.multi([create_or_set(self._store, paths.config("topics", name), encode_config(needed))])
                self._image.set_overrides(name, needed)
                logger.warning("%s had no cleanup.policy: it is compacted from now on", name)
                repaired.add(name)
        return repaired

    def _apply_configs(self, names: Iterable[str]) -> None:
        """Logs were loaded with the broker's defaults: let those of these topics follow their overrides."""
        configs = {name: self._topics.config_of(name) for name in names}
        for log in self._log_manager.all_logs() if configs else ():
            if log.topic in configs:
                log.update_config(configs[log.topic])

    def _report_unsettled(self) -> None:
        """Warn, at every start, about adopted topics whose retention is off because their settings are not known."""
        unsettled = tuple(
            name
            for name in self._state.unsettled_topics
            if self._image.topic(name) is not None and is_unsettled(self._image.overrides(name))
        )
        self._state = self._state._replace(unsettled_topics=unsettled)
        if not unsettled:
            return
        compacted = {log.topic for log in self._log_manager.all_logs() if log.positions.clean_point >= 0}
        names = [f"{name} (compacted until now)" if name in compacted else name for name in unsettled]
        logger.warning(
            "%d adopted topics keep every record and are not compacted, because Kafka's log directories hold no topic "
            "settings: %s. Set cleanup.policy and retention.ms with `tidelog config alter`, or stop the broker and run "
            "`tidelog adopt` with --topic-config, --zookeeper or --bootstrap-server",
            len(unsettled),
            _listed(names),
        )

    # --- producer ids ---

    def _protect_producer_ids(self, *, has_adopted: bool) -> None:
        """Allocate producer ids above those in the logs: a new producer must never be taken for an old one.

        The files are read once for each tree and adoption; at other starts what the logs have in memory is enough to
        notice a tree that has lost a block.
        """
        logs = self._log_manager.all_logs()
        if not logs:
            return
        if self._state.are_producer_ids_checked:
            largest = max(map(largest_active_producer_id, logs))
        else:
            largest = self._read_largest(logs)
            # Adopted logs may have lost every trace of producers that Kafka knows.
            largest = max(largest, 0) if has_adopted else largest
        if largest > NO_PRODUCER_ID and stay_above(self._store, self._broker_id, largest):
            logger.info("the logs hold producer ids up to %d: new ones are allocated above", largest)

    def _read_largest(self, logs: Iterable[Log]) -> int:
        """The largest producer id in the files of these logs. A directory that cannot be read goes offline."""
        largest = NO_PRODUCER_ID
        is_whole = True
        for log in logs:
            try:
                largest = max(largest, _largest_in(log))
            except OSError as error:
                is_whole = False
                self._log_manager.handle_log_dir_failure(log.parent_directory, error)
        self._state = self._state._replace(are_producer_ids_checked=is_whole)
        return largest


def _leader_epochs(logs: Iterable[Log]) -> dict[int, int]:
    return {log.partition: max(log.leader_epochs.latest_epoch, 0) for log in logs}


def _topic_id(name: str, logs: Sequence[Log]) -> bytes:
    """The id that most partitions have; a new one for a topic that is older than topic ids."""
    ids = Counter(log.topic_id for log in logs if log.topic_id is not None)
    if len(ids) > 1:
        logger.warning("the partitions of %s have %d topic ids: those with the rarer ids stay offline", name, len(ids))
    return ids.most_common(1)[0][0] if ids else random_uuid()


def _largest_in(log: Log) -> int:
    largest = largest_producer_id(log)
    if log.topic == TRANSACTIONS_TOPIC:
        largest = max(largest, max(_stored_producer_ids(log), default=NO_PRODUCER_ID))
    return largest


def _stored_producer_ids(log: Log) -> Iterator[int]:
    """The producer ids of the transactional ids that a partition of `__transaction_state` keeps."""
    from tidelog.transactions.schemas import SchemaError, read_transaction_value

    offset, end_offset = log.log_start_offset, log.written_end_offset
    while offset < end_offset:
        piece = log.read(offset, _READ_BYTES, end_offset, True).slice
        if piece is None:
            return
        data = piece.read()
        for position, header in iterate_batches(data):
            offset = header.next_offset
            if header.is_control:
                continue
            try:
                values = [value for _, _, _, value, _ in iterate_records(data, position) if value is not None]
                for transaction in [read_transaction_value("", bytes(value)) for value in values]:
                    yield max(transaction.producer_id, transaction.last_producer_id, transaction.next_producer_id)
            except (CorruptRecordError, SchemaError) as error:
                logger.warning("%s: a batch at offset %d is not readable: %s", log.name, header.base_offset, error)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN_MAX])
    return shown if len(names) <= _NAMES_SHOWN_MAX else f"{shown} and {len(names) - _NAMES_SHOWN_MAX} more"
