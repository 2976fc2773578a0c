"""Loading all logs of a log directory, on several threads where they have to be read.

After a clean shutdown a log costs microseconds and threads would only get in each other's way; after a crash the
batches of many logs are read and checked, and reading as well as checksums run without the interpreter lock.
"""

import gc
import logging
from collections.abc import Callable
from threading import Thread
from typing import Final, NamedTuple, TypeVar

from tidelog.config import LogConfig
from tidelog.storage.checkpoints import CheckpointError, OffsetCheckpointFile
from tidelog.storage.directories._types import LoadSummary
from tidelog.storage.directories.log_directory import LogDirectory, PartitionDirectory, PartitionState
from tidelog.storage.errors import LogDirFailure
from tidelog.storage.loading.loader import Recovery, load_log
from tidelog.storage.log import Log, OnFilesDeleted
from tidelog.timing import Clock
from tidelog.wire.partitions import PartitionKey

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LOADED: Final = (PartitionState.LIVE, PartitionState.FUTURE)

LogConfigOf = Callable[[str], LogConfig]
"""The settings of a topic's logs, by its name."""


class LoadedDirectory(NamedTuple):
    """The logs of one log directory, and the work of loading them."""

    path: str
    logs: list[Log]
    recovery: Recovery
    was_clean: bool
    future_logs: list[Log]
    """Copies of partitions that were being made."""
    others: list[PartitionDirectory]
    """The other directories: deleted and stray ones."""


class Loader(NamedTuple):
    """The arguments of loading."""

    clock: Clock
    config_of: LogConfigOf
    threads: int
    producer_expiration_ms: int
    on_files_deleted: OnFilesDeleted

    def load(self, directory: LogDirectory) -> LoadedDirectory:
        """All logs of `directory`. LogDirFailure when that fails, DirectoryNameError for any other directory in it."""
        try:
            was_clean = directory.take_clean_shutdown_marker()
            found = directory.partitions()
            offsets = _CheckpointedOffsets(
                _read_or_forget(directory.recovery_points, "every log is read from its start"),
                _read_or_forget(directory.start_offsets, "logs start with their first segment"),
                directory.high_watermarks.read(),
                _read_or_forget(directory.clean_points, "every compacted log is cleaned from its start"),
            )
        except (OSError, CheckpointError) as error:
            raise LogDirFailure(directory.path, error) from error
        loadable = [one for one in found if one.state in _LOADED]
        threads = 1 if was_clean else self.threads
        loaded = run_on_threads(threads, [self._job(directory, one, offsets, was_clean) for one in loadable])
        recovery = Recovery()
        logs: list[Log] = []
        future_logs: list[Log] = []
        for log, done in loaded:
            (future_logs if log.is_future else logs).append(log)
            if done.segments:
                recovery = recovery.plus(done)
        others = [one for one in found if one.state not in _LOADED]
        return LoadedDirectory(directory.path, logs, recovery, was_clean, future_logs, others)

    def _job(
        self, directory: LogDirectory, found: PartitionDirectory, offsets: "_CheckpointedOffsets", was_clean: bool
    ) -> Callable[[], tuple[Log, Recovery]]:
        def load() -> tuple[Log, Recovery]:
            key = found.topic_partition
            log, recovery = load_log(
                f"{directory.path}/{found.name}",
                found.topic,
                found.partition,
                self.config_of(found.topic),
                self.clock,
                is_clean=was_clean,
                recovery_point=offsets.recovery_points.get(key, 0),
                log_start_offset=offsets.start_offsets.get(key, 0),
                clean_point=offsets.clean_points.get(key, -1),
                producer_expiration_ms=self.producer_expiration_ms,
                on_files_deleted=self.on_files_deleted,
            )
            log.update_high_watermark(offsets.high_watermarks.get(key, 0))
            return log, recovery

        return load


def load_directories(loader: Loader, directories: list[LogDirectory]) -> list[LoadedDirectory | LogDirFailure]:
    """Load all directories; one that fails does not affect the others."""

    def job(directory: LogDirectory) -> Callable[[], LoadedDirectory | LogDirFailure]:
        def load() -> LoadedDirectory | LogDirFailure:
            try:
                return loader.load(directory)
            except LogDirFailure as failure:
                return failure

        return load

    # In parallel only where there are files to read: otherwise the interpreter lock is the limit.
    is_clean = all(directory.has_clean_shutdown_marker() for directory in directories)
    was_collecting = gc.isenabled()
    # All objects made here stay alive: collecting garbage meanwhile would double the time.
    gc.disable()
    try:
        return run_on_threads(1 if is_clean else len(directories), [job(directory) for directory in directories])
    finally:
        if was_collecting:
            gc.enable()


class _CheckpointedOffsets(NamedTuple):
    recovery_points: dict[PartitionKey, int]
    start_offsets: dict[PartitionKey, int]
    high_watermarks: dict[PartitionKey, int]
    clean_points: dict[PartitionKey, int]


def _read_or_forget(checkpoint: OffsetCheckpointFile, consequence: str) -> dict[PartitionKey, int]:
    """The offsets of a checkpoint; empty if it is malformed: the broker then starts without it, as Kafka does."""
    try:
        return checkpoint.read()
    except CheckpointError as error:
        logger.warning("%s; %s", error, consequence)
        return {}


def run_on_threads(threads: int, jobs: list[Callable[[], T]]) -> list[T]:
    """The results of all jobs. After an exception no more jobs start, and it is raised once the running ones end."""
    if threads <= 1 or len(jobs) <= 1:
        return [job() for job in jobs]
    results: list[T] = []
    failures: list[BaseException] = []
    waiting = iter(jobs)  # of a list: `next` is atomic under the interpreter lock

    def work() -> None:
        for job in waiting:
            if failures:
                return
            try:
                results.append(job())
            except BaseException as error:  # noqa: BLE001 - raised again on the thread that waits
                failures.append(error)

    workers = [Thread(target=work, name=f"tidelog-recovery-{number}") for number in range(min(threads, len(jobs)))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    return results


def log_summary(summary: LoadSummary) -> None:
    """Log what loading all logs took and, after an unclean shutdown, what was recovered."""
    logger.info("loaded %d logs from %d directories in %d ms", summary.logs, summary.directories, summary.took_ms)
    if summary.unclean_directories:
        done = summary.recovery
        logger.warning(
            "no clean shutdown was recorded in %s: %d segments with %d batches read (%d bytes), %d bytes cut off",
            ", ".join(summary.unclean_directories),
            done.segments,
            done.batches,
            done.bytes_scanned,
            done.bytes_cut,
        )
