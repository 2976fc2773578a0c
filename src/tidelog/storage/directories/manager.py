"""All logs of a broker: their log directories, creation, deletion, checkpoints, retention and flushing.

Start-up calls `open_directories`, then `load`, then `start_tasks`; shutdown calls `close`. In between the broker gets
logs by topic and partition, creates and deletes them here, and lets copies in another directory take their place. One
thread owns the manager; blocking work is handed to `Background` (checkpoints, removals) or to `flush`.

A directory that fails goes offline with its logs until the next start; the others stay online. Failures are reported to
`on_failure`, whose owner notifies the other components and calls `handle_log_dir_failure`.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tidelog.config import LogConfig
from tidelog.storage import names
from tidelog.storage._pools import OUT_OF_DESCRIPTORS
from tidelog.storage.directories._directory_set import DirectorySet
from tidelog.storage.directories._housekeeping import Housekeeping
from tidelog.storage.directories._live_directory import LiveDirectory, LogsByPartition
from tidelog.storage.directories._loading import (
    LoadedDirectory,
    Loader,
    LogConfigOf,
    load_directories,
    log_summary,
    run_on_threads,
)
from tidelog.storage.directories._types import (
    DirectoryDescription,
    DuplicatePartitionError,
    FailedDirectory,
    LoadSummary,
    LogManagerConfig,
    NoLogDirectoryError,
    PartitionSize,
)
from tidelog.storage.directories.background import Background, Done, Remover, run_inline
from tidelog.storage.directories.future_logs import (
    FutureLogs,
    is_marked_complete,
    marking_complete,
    the_replaced,
    unmark,
)
from tidelog.storage.directories.log_directory import PartitionState
from tidelog.storage.errors import LogDirFailure
from tidelog.storage.loading.loader import Recovery
from tidelog.storage.log import Log
from tidelog.storage.partition_metadata import (
    create_partition_metadata,
    format_uuid,
    write_partition_metadata,
)
from tidelog.timing import Clock, Scheduler
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.partitions import PartitionKey

__all__ = [
    "DirectoryDescription",
    "DuplicatePartitionError",
    "FailedDirectory",
    "LoadSummary",
    "LogManager",
    "LogManagerConfig",
    "NoLogDirectoryError",
    "PartitionSize",
]

logger = logging.getLogger(__name__)

_NEVER_MS: Final = 2**62
"""An interval of this length or more means never, as in Kafka."""


class LogManager:
    """The logs of one broker by topic and partition."""

    def __init__(
        self,
        config: LogManagerConfig,
        clock: Clock,
        scheduler: Scheduler,
        *,
        background: Background = run_inline,
        flush: Callable[[Log], None] | None = None,
        on_failure: Callable[[LogDirFailure], None] | None = None,
    ) -> None:
        """`flush` syncs a log in the background; without it logs are synced on this thread."""
        self.config = config
        self._clock = clock
        self._scheduler = scheduler
        self._background = background
        self._on_failure = on_failure or self._fail
        self._directories = DirectorySet(
            lambda directory: LiveDirectory(directory, background, self._done_in(directory.path))
        )
        self._logs: dict[PartitionKey, Log] = {}
        self._future = FutureLogs()
        self._deleted: dict[str, dict[str, dict[PartitionKey, int]]] = {}
        """The clean points of deleted partitions that checkpoints may still name, by topic and directory."""
        self._offline_partitions: dict[PartitionKey, str] = {}
        self._remover = Remover(clock, scheduler, background, lambda path: self._done_in(os.path.dirname(path)))
        self.housekeeping = Housekeeping(self, clock, scheduler, flush or self._flush_now, self._on_failure)

    # Start-up

    def open_directories(self) -> list[str]:
        """Create and lock the directories of `log.dirs`; those that are usable.

        One that fails goes offline. DirectoryLockedError when another broker uses one, NoLogDirectoryError when none is
        left.
        """
        self._directories.open(self.config.log_dirs)
        return list(self._directories.live)

    def load(self, config_of: LogConfigOf) -> LoadSummary:
        """Load every log; `config_of` gives a topic's settings. A directory that fails goes offline.

        DirectoryNameError or DuplicatePartitionError when an operator has to act, NoLogDirectoryError when no directory
        is left.
        """
        started_ms = self._clock.monotonic_ms()
        config = self.config
        loader = Loader(
            self._clock,
            config_of,
            config.num_recovery_threads_per_data_dir,
            config.producer_id_expiration_ms,
            self._remover.files,
        )
        recovery, unclean = Recovery(), []
        for loaded in load_directories(loader, [live.directory for live in self._directories.live.values()]):
            if isinstance(loaded, LogDirFailure):
                self._fail(loaded)
                continue
            self._take_over(loaded)
            recovery = recovery.plus(loaded.recovery)
            if not loaded.was_clean and loaded.logs:
                unclean.append(loaded.path)
        self._directories.check_any_left()
        self._settle_future_logs()
        took_ms = self._clock.monotonic_ms() - started_ms
        summary = LoadSummary(len(self._logs), len(self._directories.live), tuple(unclean), recovery, took_ms)
        log_summary(summary)
        return summary

    def _take_over(self, loaded: LoadedDirectory) -> None:
        self._watch_epochs([*loaded.logs, *loaded.future_logs])
        for log in loaded.logs:
            if (log.topic, log.partition) in self._logs:
                self._choose(self._logs[log.topic, log.partition], log)
            else:
                self._logs[log.topic, log.partition] = log
        for log in loaded.future_logs:
            self._take_over_future(log)
        live = self._directories.live[loaded.path]
        live.log_count = len(loaded.logs) + len(loaded.future_logs)
        live.is_loaded = True
        for other in loaded.others:
            path = f"{loaded.path}/{other.name}"
            if other.state is PartitionState.DELETED:
                self._remover.directory(path, self.config.log_segment_delete_delay_ms)
            else:
                logger.warning("%s is not loaded: it is marked %s", path, other.state.value)

    def _choose(self, one: Log, other: Log) -> None:
        """Two logs of one partition: a crash came while a copy took the place of the other."""
        replaced = the_replaced(one, other)
        if replaced is None:
            raise DuplicatePartitionError(
                f"{one.name} exists in both {one.directory} and {other.directory}. A log directory "
                "probably failed while the partition was being moved: delete the one on the disk that failed"
            )
        kept = other if replaced is one else one
        logger.warning("%s is kept and %s is deleted: it was replaced", kept.directory, replaced.directory)
        self._logs[one.topic, one.partition] = kept
        try:
            self._discard(replaced)
            unmark(kept)
        except LogDirFailure as failure:
            self._fail(failure)
        except OSError as error:
            logger.warning("the replacement file of %s stays: %s", kept.directory, error)

    def _take_over_future(self, log: Log) -> None:
        other = self._future.get((log.topic, log.partition))
        if other is not None:
            raise DuplicatePartitionError(
                f"there are two copies of {log.name}: {other.directory} and {log.directory}; delete one of them"
            )
        self._future.add(log)

    def _settle_future_logs(self) -> None:
        """Drop copies beside their logs, and let complete ones take their place where only the name was missing."""
        for key, copy in self._future.items():
            log = self._logs.get(key)
            try:
                if log is None and not self._directories.offline and is_marked_complete(copy):
                    logger.warning("%s has no log beside it and is complete: it becomes the log", copy.directory)
                    self._future.pop(key)
                    copy.become_current()
                    unmark(copy)
                    self._logs[key] = copy
                elif log is not None and log.parent_directory == copy.parent_directory:
                    self.delete_future_log(*key)
            except LogDirFailure as failure:
                self._fail(failure)
            except OSError as error:
                self._fail(copy.fail(error))

    def start_tasks(self) -> None:
        """Schedule the periodic tasks, beginning after `log.initial.task.delay.ms`."""
        config, rounds = self.config, self.housekeeping
        for name, function, period_ms in (
            ("log-retention", rounds.delete_old_segments, config.log_retention_check_interval_ms),
            ("log-flusher", rounds.flush_old_logs, config.log_flush_scheduler_interval_ms),
            ("producer-expiry", rounds.remove_expired_producers, config.producer_id_expiration_check_interval_ms),
            ("recovery-points", self.checkpoint_recovery_points, config.log_flush_offset_checkpoint_interval_ms),
            ("start-offsets", self.checkpoint_start_offsets, config.log_flush_start_offset_checkpoint_interval_ms),
            ("high-watermarks", self.checkpoint_high_watermarks, config.replica_high_watermark_checkpoint_interval_ms),
        ):
            if 0 < period_ms < _NEVER_MS:
                self._scheduler.schedule(name, function, config.log_initial_task_delay_ms, period_ms)

    # Logs

    def get_log(self, topic: str, partition: int) -> Log | None:
        """The log of a partition, None when it does not exist or is offline."""
        return self._logs.get((topic, partition))

    def all_logs(self) -> list[Log]:
        """Every log that is online."""
        return list(self._logs.values())

    def logs_of(self, topic: str) -> list[Log]:
        """The logs of a topic that are online."""
        return [log for (name, _), log in self._logs.items() if name == topic]

    def update_config(self, topic: str, config: LogConfig) -> None:
        """Apply changed settings to the logs of a topic."""
        for log in self.logs_of(topic):
            log.update_config(config)

    # Copies in another directory

    def get_future_log(self, topic: str, partition: int) -> Log | None:
        """The copy of a partition's log that is being made in another directory."""
        return self._future.get((topic, partition))

    def future_logs(self) -> Iterator[tuple[PartitionKey, Log]]:
        """All copies."""
        return self._future.items()

    def prefer_directory(self, topic: str, partition: int, path: str) -> None:
        """Create the log of a partition in this directory, whenever that will be."""
        self._future.prefer((topic, partition), path)

    def create_future_log(self, log: Log, path: str) -> Log:
        """Begin a copy of a log in another directory. The caller fills it. Raises LogDirFailure.

        ApiError INVALID_TOPIC_EXCEPTION where its name is too long, KAFKA_STORAGE_ERROR while a directory is offline: a
        copy may be there already.
        """
        name = names.future_directory(log.topic, log.partition, os.urandom(16).hex())
        if len(name) > names.FILE_NAME_MAX:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the name of {log.topic} is too long for a move")
        if self._directories.offline:
            raise _storage_error(
                f"{log.name} cannot be moved while log directories are offline: {self._directories.reasons()}"
            )
        live = self._directories.live[path]
        try:
            unmark(log)
            copy = self._create_in(live, name, log.topic, log.partition, log.topic_id, log.config, log.log_start_offset)
        except OSError as error:
            raise LogDirFailure(path, error) from error
        live.log_count += 1
        self._future.add(copy)
        return copy

    def delete_future_log(self, topic: str, partition: int) -> None:
        """Give up the copy of a partition, if there is one."""
        copy = self._future.pop((topic, partition))
        if copy is not None and copy.parent_directory in self._directories.live:
            self._directories.live[copy.parent_directory].log_count -= 1
            try:
                self._discard(copy)
            except LogDirFailure as failure:
                self._on_failure(failure)

    def marking_complete(self, copy: Log) -> Callable[[], None]:
        """A function to call before `replace_with_future_log`, on any thread. Raises LogDirFailure."""
        mark, path = marking_complete(copy), copy.parent_directory

        def run() -> None:
            try:
                mark()
            except OSError as error:
                raise LogDirFailure(path, error) from error

        return run

    def replace_with_future_log(self, topic: str, partition: int) -> Log:
        """Let the copy of a partition, which is complete and marked, take the place of its log; returns the copy.

        The log is deleted as if its topic were. Raises LogDirFailure if the copy's directory fails; then nothing has
        changed.
        """
        key = topic, partition
        log, copy = self._logs[key], self._future.get(key)
        assert copy is not None, f"{topic}-{partition} is not being moved"
        copy.become_current()
        self._future.pop(key)
        self._logs[key] = copy
        try:
            if log.parent_directory in self._directories.live:
                self._directories.live[log.parent_directory].log_count -= 1
                self._discard(log)
        except LogDirFailure as failure:
            self._on_failure(failure)
        try:
            unmark(copy)
        except OSError as error:
            logger.warning("the replacement file of %s stays: %s", copy.directory, error)
        self.checkpoint_recovery_points()
        self.checkpoint_start_offsets()
        self.checkpoint_high_watermarks()
        return copy

    def _discard(self, log: Log) -> None:
        """Mark a log as deleted; its files are removed later. Raises LogDirFailure."""
        path = log.rename_for_delete()
        self._remover.directory(path, self.config.log_segment_delete_delay_ms, log)

    def get_or_create_log(
        self, topic: str, partition: int, topic_id: bytes | None, config: LogConfig, *, is_new: bool = True
    ) -> Log:
        """The log of a partition, created where there is none, in the directory that holds the fewest.

        ApiError KAFKA_STORAGE_ERROR when it is offline, or (unless `is_new`) may be; INCONSISTENT_TOPIC_ID when the log
        belongs to another topic of the same name.
        """
        log = self._logs.get((topic, partition))
        if log is not None:
            self._check_topic_id(log, topic_id)
            return log
        failed = self._offline_partitions.get((topic, partition))
        if failed is not None or (self._directories.offline and not is_new):
            where = failed or ", ".join(self._directories.offline)
            raise _storage_error(f"{topic}-{partition} is in a log directory that is offline: {where}")
        return self._create(topic, partition, topic_id, config)

    def _check_topic_id(self, log: Log, topic_id: bytes | None) -> None:
        if topic_id is None or log.topic_id == topic_id:
            return
        if log.topic_id is not None:
            raise ApiError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"{log.name} in {log.parent_directory} belongs to topic id {format_uuid(log.topic_id)}, "
                f"not {format_uuid(topic_id)}",
            )
        try:
            write_partition_metadata(log.directory, topic_id)
        except OSError as error:
            failure = log.fail(error)
            self._on_failure(failure)
            raise failure.for_client() from error
        log.topic_id = topic_id

    def _create(self, topic: str, partition: int, topic_id: bytes | None, config: LogConfig) -> Log:
        preferred = self._directories.live.get(self._future.take_preferred((topic, partition)) or "")
        name = names.partition_directory(topic, partition)
        for live in sorted(self._directories.live.values(), key=_log_count) if preferred is None else [preferred]:
            try:
                log = self._create_in(live, name, topic, partition, topic_id, config)
            except FileExistsError as error:
                raise _storage_error(f"{error.filename} exists, but did not when the logs were loaded") from error
            except OSError as error:
                self._on_failure(LogDirFailure(live.path, error))
            except LogDirFailure as failure:
                self._on_failure(failure)
            else:
                live.log_count += 1
                self._logs[topic, partition] = log
                return log
        raise _storage_error(
            f"{topic}-{partition} cannot be created, no log directory is online: {self._directories.reasons()}"
        )

    def _create_in(
        self,
        live: LiveDirectory,
        name: str,
        topic: str,
        partition: int,
        topic_id: bytes | None,
        config: LogConfig,
        start_offset: int = 0,
    ) -> Log:
        path = f"{live.path}/{name}"
        log = Log.create(
            path,
            topic,
            partition,
            config,
            self._clock.wall_ms(),
            producer_expiration_ms=self.config.producer_id_expiration_ms,
            topic_id=topic_id,
            on_files_deleted=self._remover.files,
            start_offset=start_offset,
        )
        self._watch_epochs([log])
        if topic_id is not None:
            log.flush_state.add_unsynced(create_partition_metadata(path, topic_id))
        return log

    def _watch_epochs(self, logs: Iterable[Log]) -> None:
        """Have the leader epochs of logs written when they change, or if recovery has changed them."""
        for log in logs:
            write = self._directories.live[log.parent_directory].write_epochs
            log.on_epochs_changed(write)
            if log.leader_epochs.is_changed:
                write(log)

    def delete_log(self, topic: str, partition: int) -> bool:
        """Delete a log; whether there was one. Its files are removed after `log.segment.delete.delay.ms`.

        Before a log of the same name is created, the function that `forget_deleted` returns must have been called.
        """
        key = topic, partition
        self.delete_future_log(topic, partition)
        self._future.take_preferred(key)
        log = self._logs.get(key)
        if log is None:
            failed = self._offline_partitions.pop(key, None)
            if failed is not None:
                logger.warning("%s-%d is in %s, which is offline: its files stay there", topic, partition, failed)
            return failed is not None
        live = self._directories.live[log.parent_directory]
        try:
            path = log.rename_for_delete()
            del self._logs[key]
            live.log_count -= 1
        except LogDirFailure as failure:
            self._on_failure(failure)
            return True
        self._deleted.setdefault(topic, {}).setdefault(live.path, {})[key] = log.positions.clean_point
        logger.info("%s-%d is deleted: its files will be removed from %s", topic, partition, path)
        self._remover.directory(path, self.config.log_segment_delete_delay_ms, log)
        return True

    def forget_deleted(self, topic: str) -> Callable[[], None]:
        """A function that removes the deleted partitions of a topic from the checkpoints. It syncs, on any thread.

        Raises LogDirFailure.
        """
        writes = [
            (path, write)
            for path, deleted in self._deleted.pop(topic, {}).items()
            if (live := self._directories.live.get(path)) is not None
            for write in live.forgetting(deleted, self._logs_in(live))
        ]

        def forget() -> None:
            for path, write in writes:
                try:
                    write()
                except OSError as error:
                    raise LogDirFailure(path, error) from error

        return forget

    # Checkpoints and flushing

    def checkpoint_recovery_points(self) -> None:
        """Write up to where each log is known to be on disk."""
        for live in list(self._directories.live.values()):
            live.checkpoint_recovery_points(self._logs_in(live), self._background, self._done_in(live.path))

    def checkpoint_start_offsets(self) -> None:
        """Write the log start offsets."""
        for live in list(self._directories.live.values()):
            live.checkpoint_start_offsets(self._logs_in(live), self._background, self._done_in(live.path))

    def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks."""
        for live in list(self._directories.live.values()):
            live.checkpoint_high_watermarks(self._logs_in(live), self._background, self._done_in(live.path))

    def checkpoint_clean_points(self) -> None:
        """Write up to where logs are compacted."""
        for live in list(self._directories.live.values()):
            live.checkpoint_clean_points(self._logs_in(live), self._background, self._done_in(live.path))

    def _logs_in(self, live: LiveDirectory) -> LogsByPartition:
        if len(self._directories.live) == 1 and live.path in self._directories.live and not self._future:
            return self._logs
        path = live.path
        logs = {key: log for key, log in self._logs.items() if log.parent_directory == path}
        logs.update((key, copy) for key, copy in self._future.items() if copy.parent_directory == path)
        return logs

    def _flush_now(self, log: Log) -> None:
        log.flush(now_ms=self._clock.wall_ms())

    # Directories

    def live_directories(self) -> list[str]:
        """The paths of the directories that are online."""
        return list(self._directories.live)

    def offline_directories(self) -> dict[str, str]:
        """The paths of the directories that are offline, with the reasons."""
        return dict(self._directories.offline)

    def offline_partitions(self) -> dict[PartitionKey, str]:
        """The partitions that went offline, with the directories they are in."""
        return dict(self._offline_partitions)

    def handle_log_dir_failure(self, path: str, cause: object = "input or output failed") -> FailedDirectory:
        """Take a directory offline, with every log in it. It is not written to any more."""
        live = self._directories.take_offline(path, cause)
        if live is None:
            return FailedDirectory(path, (), not self._directories.live)
        logs = {key: log for key, log in self._logs.items() if log.parent_directory == path}
        for key, log in logs.items():
            del self._logs[key]
            self._offline_partitions[key] = path
            log.release()
        for key, copy in self._future.items():
            if copy.parent_directory == path:
                self._future.pop(key)
                copy.release()
        live.directory.unlock()
        logger.error("log directory %s is offline with its %d partitions: %s", path, len(logs), cause)
        return FailedDirectory(path, tuple(logs), not self._directories.live)

    def _fail(self, failure: LogDirFailure) -> None:
        self.handle_log_dir_failure(failure.directory, failure.cause)

    def _done_in(self, path: str) -> Done:
        def done(error: BaseException | None) -> None:
            if error is None or path not in self._directories.live:
                return
            if isinstance(error, OSError) and error.errno not in OUT_OF_DESCRIPTORS:
                self._on_failure(LogDirFailure(path, error))
            else:
                logger.error("background work in %s failed", path, exc_info=error)

        return done

    def describe_dirs(self) -> list[DirectoryDescription]:
        """Every directory of `log.dirs`, for DescribeLogDirs."""
        described = []
        for live in list(self._directories.live.values()):
            try:
                space = live.directory.space()
            except OSError as error:
                self._on_failure(LogDirFailure(live.path, error))
                continue
            sizes = [
                PartitionSize(*key, log.size_bytes, self._lag_of(key, log), log.is_future)
                for key, log in self._logs_in(live).items()
            ]
            described.append(DirectoryDescription(live.path, False, space.total_bytes, space.usable_bytes, sizes))
        described += [DirectoryDescription(path, True, -1, -1, ()) for path in self._directories.offline]
        return described

    def _lag_of(self, key: PartitionKey, log: Log) -> int:
        if not log.is_future:
            return max(log.high_watermark - log.log_end_offset, 0)
        current = self._logs.get(key)
        return -1 if current is None else max(current.log_end_offset - log.log_end_offset, 0)

    # Shutdown

    def close(self, broker_epoch: int = -1) -> bool:
        """Flush and close every log, write all checkpoints and mark the shutdown as clean; whether all was clean.

        Directories are closed in parallel. Running background work is not waited for and does no harm.
        """
        jobs = [_close_job(live, self._logs_in(live), broker_epoch) for live in self._directories.live.values()]
        failures = [failure for failure in run_on_threads(len(jobs), jobs) if failure is not None]
        for failure in failures:
            logger.error("%s: its logs will be recovered at the next start", failure)
        self._directories.live.clear()
        self._logs.clear()
        self._future = FutureLogs()
        return not failures and not self._directories.offline

    def unlock(self) -> None:
        """Unlock the directories without closing any log, when start-up fails."""
        self._directories.unlock()


def _close_job(live: LiveDirectory, logs: LogsByPartition, broker_epoch: int) -> Callable[[], LogDirFailure | None]:
    return lambda: live.close(logs, broker_epoch)


def _log_count(live: LiveDirectory) -> int:
    return live.log_count


def _storage_error(message: str) -> ApiError:
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, message)
