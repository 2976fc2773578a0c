"""The log cleaner in the broker: it looks for dirty logs, lets workers clean them, and swaps the results in.

`LogCleaner` runs on the broker's loop, as the logs do, so that a log does not change while it is examined. Between two
events of a worker a log may be truncated or deleted, or its directory may fail. So each event is checked against the
current log, and a job whose log has changed is abandoned: its files are removed, and groups that are already swapped in
stay, because every group is complete.

A log that cannot be cleaned is logged, counted and skipped until the broker restarts, as in Kafka.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from tidelog.storage.cleaner.jobs import (
    IO,
    CleanJob,
    Event,
    GroupCleaned,
    JobDone,
    JobFailed,
    Progress,
)
from tidelog.storage.cleaner.metrics import CleanerMetrics
from tidelog.storage.cleaner.planning import Candidate, examine, job_for
from tidelog.storage.cleaner.planning import CleanerConfig as CleanerConfig
from tidelog.storage.cleaner.requests import CompactionRequests
from tidelog.storage.cleaner.swap import (
    StaleGroupError,
    open_cleaned,
    remove_cleaned,
    replace_segments,
    sources_of,
)
from tidelog.storage.directories.background import Background
from tidelog.storage.directories.rounds import Rounds
from tidelog.storage.errors import LogDirFailure, OutOfDescriptorsError
from tidelog.storage.log import Log
from tidelog.storage.replacing import sync_path
from tidelog.storage.segment import Segment
from tidelog.timing import Clock, Scheduler
from tidelog.wire.partitions import PartitionKey

logger = logging.getLogger(__name__)

_ROUND: Final = "log-cleaner"
_LOOK_MS: Final = 1000
"""Interval for logs whose `max.compaction.lag.ms` is shorter than `log.cleaner.backoff.ms`."""

_LOSSES_MAX: Final = 3
_SHORTAGES: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE))


class Worker(Protocol):
    """A worker process, which does one job at a time."""

    def begin(self, job: CleanJob, on_event: Callable[[Event], None], on_lost: Callable[[str], None]) -> None:
        """Do a job. Calls `on_event` on this thread, last with JobDone or JobFailed; `on_lost` if the worker dies."""

    def abandon(self, on_gone: Callable[[], None]) -> None:
        """Stop at once and report no more events. `on_gone` is called once the worker writes no more files."""

    def close(self) -> None:
        """End for good."""


class CleanableLogs(Protocol):
    """The logs and the checkpoint of their clean points."""

    def all_logs(self) -> list[Log]:
        """Every log that is online."""

    def get_log(self, topic: str, partition: int) -> Log | None:
        """One of them."""

    def checkpoint_clean_points(self) -> None:
        """Write the clean points that have changed."""


class LogCleaner:
    """Cleans the logs of one broker."""

    def __init__(
        self,
        config: CleanerConfig,
        logs: CleanableLogs,
        clock: Clock,
        scheduler: Scheduler,
        new_worker: Callable[[], Worker],
        *,
        background: Background,
        on_failure: Callable[[LogDirFailure], None],
    ) -> None:
        self.metrics = CleanerMetrics()
        self.metrics.uncleanable_bytes = self._uncleanable_bytes
        self.requests = CompactionRequests()
        self.uncleanable: dict[PartitionKey, str] = {}
        """Partitions that could not be cleaned, and why."""
        self._config = config
        self._logs = logs
        self._clock = clock
        self._scheduler = scheduler
        self._new_worker = new_worker
        self._background = background
        self._on_failure = on_failure
        self._workers: list[Worker] = []
        self._running: dict[PartitionKey, Cleaning] = {}
        self._leaving: set[PartitionKey] = set()
        self._postponed: dict[PartitionKey, int] = {}
        self._losses: dict[PartitionKey, int] = {}
        self._next_round_ms = 0
        self._rounds = Rounds(clock, scheduler)
        self._is_stopped = False

    # Life

    def start(self) -> None:
        """Start looking for dirty logs."""
        if self._config.is_enabled:
            period_ms = max(min(_LOOK_MS, self._config.backoff_ms), 1)
            self._scheduler.schedule(_ROUND, self.look, 0, period_ms)

    def stop(self) -> None:
        """Stop all jobs; groups that were not swapped in are lost and will be cleaned again."""
        self._is_stopped = True
        for cleaning in list(self._running.values()):
            self._abandon(cleaning, "the broker is stopping")
        for worker in self._workers:
            worker.close()

    def update_config(self, config: CleanerConfig) -> None:
        """Apply changed settings from the next job on."""
        self._config = config._replace(is_enabled=self._config.is_enabled)
        self._next_round_ms = 0

    def abort_in(self, directory: str) -> None:
        """A log directory is offline: stop cleaning in it."""
        for cleaning in list(self._running.values()):
            if cleaning.log.parent_directory == directory:
                self._abandon(cleaning, "its directory is offline")

    def abort(self, log: Log) -> None:
        """Stop cleaning a log that is about to be truncated, deleted or moved, if it is being cleaned."""
        cleaning = self._running.get((log.topic, log.partition))
        if cleaning is not None and cleaning.log is log:
            self._abandon(cleaning, "the log is about to be truncated, deleted or moved")

    def progress_of(self, key: PartitionKey) -> Progress | None:
        """The progress of cleaning a partition, None when it is not being cleaned."""
        cleaning = self._running.get(key)
        return None if cleaning is None else cleaning.progress

    def request(self, log: Log) -> None:
        """Clean a log now, whatever its dirty ratio, and its active segment as well.

        RuntimeError if this broker does not clean logs.
        """
        if not self._config.is_enabled or self._config.threads == 0:
            raise RuntimeError("this broker cleans no logs: log.cleaner.enable is false or log.cleaner.threads is 0")
        key = log.topic, log.partition
        log.roll(self._clock.wall_ms())
        self.uncleanable.pop(key, None)
        self.requests.add(key, log.size_bytes)
        self._postponed.pop(key, None)
        self.look()

    # Looking for work

    def look(self) -> None:
        """Look for the dirtiest logs if a worker is free: among all when a round is due, else among urgent ones."""
        if self._is_stopped or self._rounds.is_under_way(_ROUND) or len(self._running) >= self._config.threads:
            return
        for key in self.requests.waiting():
            self._begin_requested(key)
        is_round = self._clock.monotonic_ms() >= self._next_round_ms
        found: list[Candidate] = []

        def visit(log: Log) -> None:
            candidate = self._visit(log, is_round)
            if candidate is not None:
                found.append(candidate)

        logs = (log for log in self._logs.all_logs() if is_round or self._is_urgent(log))
        self._rounds.begin(_ROUND, logs, visit, lambda: self._choose(found, is_round))

    def _is_urgent(self, log: Log) -> bool:
        return log.config.max_compaction_lag_ms < self._config.backoff_ms

    def _may_clean(self, log: Log) -> bool:
        key = log.topic, log.partition
        if log.is_being_copied or key in self._running or key in self._leaving or key in self.uncleanable:
            return False
        if self._logs.get_log(*key) is not log:
            return False
        return self._postponed.get(key, 0) <= self._clock.monotonic_ms()

    def _visit(self, log: Log, is_round: bool) -> Candidate | None:
        """Apply retention, since this class knows that the log is not being cleaned; returns what is left to clean."""
        if not log.config.is_compacted or not self._may_clean(log):
            return None
        now_ms = self._clock.wall_ms()
        try:
            if is_round and len(log.segments) > 1:
                log.delete_old_segments(now_ms)
            return examine(log, now_ms) if len(log.segments) > 1 else None
        except LogDirFailure as failure:
            self._on_failure(failure)
        except OSError as error:
            self._on_failure(log.fail(error))
        except OutOfDescriptorsError as error:
            self._postpone(log, str(error))
        except Exception as error:  # noqa: BLE001 - one log must not end the round; its reason is logged
            self._mark_uncleanable(log, f"it cannot be examined: {error}")
        return None

    def _choose(self, found: Iterable[Candidate], is_round: bool) -> None:
        """Start free workers on the dirtiest logs."""
        candidates = sorted(found, key=lambda each: each.dirty_ratio, reverse=True)
        if is_round:
            self.metrics.last_run_ms = self._clock.wall_ms()
            self.metrics.max_dirty_ratio = candidates[0].dirty_ratio if candidates else 0.0
            self.metrics.max_compaction_delay_ms = max((each.overdue_ms for each in candidates), default=0)
            self._forget_gone()
            # Logs that were truncated have lowered theirs.
            self._logs.checkpoint_clean_points()
        due = [each for each in candidates if each.is_due]
        for candidate in due:
            if self._may_clean(candidate.log):
                self._begin(candidate)
        if is_round and not due:
            self._next_round_ms = self._clock.monotonic_ms() + self._config.backoff_ms

    def _forget_gone(self) -> None:
        for known in (self.uncleanable, self._postponed, self._losses):
            for key in [key for key in known if self._logs.get_log(*key) is None]:
                del known[key]
        self.metrics.uncleanable_partitions = len(self.uncleanable)

    # Cleaning

    def _begin_requested(self, key: PartitionKey) -> None:
        log = self._logs.get_log(*key)
        if log is None:
            self.requests.begin(key)
            self.requests.fail(key, "the partition was deleted or is offline")
        elif self._may_clean(log):
            candidate = examine(log, self._clock.wall_ms())
            if candidate.cleanable_bytes or candidate.clean_bytes:
                self._begin(candidate)
            else:
                self.requests.begin(key)
                self.requests.finish(key, log.size_bytes)

    def _begin(self, candidate: Candidate) -> None:
        """Give a job to a free worker, if there is one."""
        busy = {cleaning.worker for cleaning in self._running.values()}
        free = next((number for number in range(self._config.threads) if number not in busy), None)
        if free is None:
            return
        while len(self._workers) <= free:
            self._workers.append(self._new_worker())
        log = candidate.log
        key = log.topic, log.partition
        job = job_for(candidate, self._config, self._clock.wall_ms())
        cleaning = self._running[key] = Cleaning(candidate, free)
        log.is_being_cleaned = True
        self.requests.begin(key)
        logger.debug("cleaning %s from %d to %d", log.name, candidate.first_dirty_offset, candidate.end_offset)
        self._workers[free].begin(
            job, lambda event: self._on_event(cleaning, event), lambda why: self._on_lost(cleaning, why)
        )

    def _on_event(self, cleaning: Cleaning, event: Event) -> None:
        if not self._is_current(cleaning):
            self._abandon(cleaning, "it has changed meanwhile")
        elif isinstance(event, Progress):
            cleaning.progress = event
        elif isinstance(event, GroupCleaned):
            self._swap(cleaning, event)
        elif isinstance(event, JobDone):
            self._flush_then_finish(cleaning, event)
        else:
            self._on_failed(cleaning, event)

    def _is_current(self, cleaning: Cleaning) -> bool:
        """Whether the log is still the one that the job began with."""
        log = cleaning.log
        return self._logs.get_log(log.topic, log.partition) is log and log.positions.generation == cleaning.generation

    def _swap(self, cleaning: Cleaning, group: GroupCleaned) -> None:
        log = cleaning.log
        try:
            sources = sources_of(log, group, cleaning.sources)
            cleaned = open_cleaned(log, group, self._clock.wall_ms())
            deleted = replace_segments(log, cleaned, sources)
        except StaleGroupError as error:
            self._abandon(cleaning, str(error))
        except LogDirFailure as failure:
            self._abandon(cleaning, str(failure))
            self._on_failure(failure)
        except OSError as error:
            self._abandon(cleaning, str(error))
            self._on_failure(log.fail(error))
        else:
            self._sync_then(cleaning, lambda: log.segments.discard_files(deleted))

    def _sync_then(self, cleaning: Cleaning, then: Callable[[], None]) -> None:
        """Bring the directory of a log to disk, then go on."""
        log, directory = cleaning.log, cleaning.log.directory

        def done(error: BaseException | None) -> None:
            if error is None:
                then()
            elif isinstance(error, OutOfDescriptorsError):
                self._scheduler.schedule("log-cleaner-sync", lambda: self._sync_then(cleaning, then), _LOOK_MS)
            elif self._is_current(cleaning):
                self._on_failure(LogDirFailure(log.parent_directory, error))

        self._background(lambda: sync_path(directory), done)

    def _flush_then_finish(self, cleaning: Cleaning, done: JobDone) -> None:
        """Flush the rest of the log, so that the recovery point can move past the cleaned segments."""
        log = cleaning.log
        try:
            job = log.prepare_flush(done.end_offset)
        except LogDirFailure as failure:
            self._on_failure(failure)
            return
        except OutOfDescriptorsError:
            self._scheduler.schedule("log-cleaner-sync", lambda: self._flush_then_finish(cleaning, done), _LOOK_MS)
            return

        def flushed(error: BaseException | None) -> None:
            if isinstance(error, OutOfDescriptorsError):
                self._scheduler.schedule("log-cleaner-sync", lambda: self._background(job.run, flushed), _LOOK_MS)
            elif error is not None:
                self._on_failure(LogDirFailure(log.parent_directory, error))
            elif self._is_current(cleaning):
                log.complete_flush(job)
                self._finish(cleaning, done)
            else:
                self._abandon(cleaning, "it has changed meanwhile")

        self._background(job.run, flushed)

    def _finish(self, cleaning: Cleaning, done: JobDone) -> None:
        if self._running.get((cleaning.log.topic, cleaning.log.partition)) is not cleaning:
            return
        log, key = cleaning.log, (cleaning.log.topic, cleaning.log.partition)
        self._end(cleaning)
        log.positions.mark_clean(done.end_offset)
        self._losses.pop(key, None)
        self.metrics.on_done(cleaning.worker, done)
        _report(cleaning.candidate, done)
        if done.end_offset < cleaning.candidate.end_offset:
            self.requests.wait_again(key)
        self.requests.finish(key, log.size_bytes)
        self._logs.checkpoint_clean_points()
        # Kafka's threads look again at once after a cleaning, and wait only when there is nothing to do.
        self._next_round_ms = 0
        self.look()

    def _on_failed(self, cleaning: Cleaning, failed: JobFailed) -> None:
        log = cleaning.log
        self._abandon(cleaning, failed.message, says=False)
        if failed.kind != IO:
            self._mark_uncleanable(log, failed.message)
        elif failed.error_number in _SHORTAGES:
            # The log has not changed; a broker that still has room to append must not take its directory offline.
            self._postpone(log, failed.message)
        else:
            self._on_failure(log.fail(OSError(failed.error_number, failed.message)))

    def _on_lost(self, cleaning: Cleaning, why: str) -> None:
        """The worker has died. One loss may be due to a lack of memory; after three in a row the log is at fault."""
        log, key = cleaning.log, (cleaning.log.topic, cleaning.log.partition)
        self.metrics.dead_workers += 1
        self._abandon(cleaning, why, says=False)
        self._losses[key] = self._losses.get(key, 0) + 1
        if self._losses[key] >= _LOSSES_MAX:
            self._mark_uncleanable(log, why)
        else:
            self._postpone(log, why)

    def _abandon(self, cleaning: Cleaning, why: str, *, says: bool = True) -> None:
        key = cleaning.log.topic, cleaning.log.partition
        if self._running.get(key) is not cleaning:
            return
        if says:
            logger.info("cleaning of %s is abandoned: %s", cleaning.log.name, why)
        self._end(cleaning)
        self.requests.fail(key, why)
        self._leaving.add(key)
        self._workers[cleaning.worker].abandon(lambda: self._clear_away(cleaning.log))

    def _clear_away(self, log: Log) -> None:
        """The worker has stopped: remove its files. Until that is done the log is not cleaned again."""
        directory = log.directory
        # Files that cannot be removed now are removed by the next job, or at the next start.
        self._background(
            lambda: remove_cleaned(directory), lambda _error: self._leaving.discard((log.topic, log.partition))
        )

    def _end(self, cleaning: Cleaning) -> None:
        del self._running[cleaning.log.topic, cleaning.log.partition]
        cleaning.log.is_being_cleaned = False

    def _mark_uncleanable(self, log: Log, why: str) -> None:
        logger.warning("%s in %s cannot be cleaned: %s; skipped until restart", log.name, log.parent_directory, why)
        self.uncleanable[log.topic, log.partition] = why
        self.metrics.uncleanable_partitions = len(self.uncleanable)

    def _postpone(self, log: Log, why: str) -> None:
        logger.warning("cleaning %s failed and will be retried: %s", log.name, why)
        delay_ms = max(self._config.backoff_ms, _LOOK_MS)
        self._postponed[log.topic, log.partition] = self._clock.monotonic_ms() + delay_ms

    def _uncleanable_bytes(self) -> int:
        now_ms = self._clock.wall_ms()
        logs = [log for key in self.uncleanable if (log := self._logs.get_log(*key)) is not None]
        return sum(examine(log, now_ms).cleanable_bytes for log in logs)


class Cleaning:
    """A running job: the log as it was when the job began, and the progress."""

    __slots__ = ("candidate", "generation", "log", "progress", "sources", "worker")

    def __init__(self, candidate: Candidate, worker: int) -> None:
        self.candidate = candidate
        self.log = candidate.log
        self.worker = worker
        self.generation = candidate.log.positions.generation
        self.sources: Sequence[Segment] = [
            segment for segment in candidate.log.segments if segment.base_offset < candidate.end_offset
        ]
        self.progress = Progress(0, candidate.clean_bytes + 2 * candidate.cleanable_bytes)


def _report(candidate: Candidate, done: JobDone) -> None:
    logger.info(
        "cleaned %s from offset %d to %d in %.1f s (map %.1f s, %s): %d of %d records and %d of %d bytes are left%s",
        candidate.log.name,
        candidate.first_dirty_offset,
        done.end_offset,
        done.total_ms / 1000,
        done.index_ms / 1000,
        done.engine,
        done.records_kept,
        done.records_read,
        done.bytes_written,
        done.bytes_read,
        f"; {done.records_without_key} records without a key removed" if done.records_without_key else "",
    )
