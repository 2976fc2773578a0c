"""What is done to all logs from time to time: retention, flushing by age, forgetting producers.

Ten thousand logs are more than one turn of the event loop has time for, so a round goes over them in slices of a few
milliseconds and comes back for the rest. `LogManager` owns it and schedules the rounds.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from tidelog.storage.errors import LogDirFailure
from tidelog.storage.log import Log
from tidelog.timing import Clock, Scheduler

logger = logging.getLogger(__name__)

_SLICE_MS: Final = 3
_PAUSE_MS: Final = 2


class Logs(Protocol):
    """Where the logs are."""

    def all_logs(self) -> list[Log]:
        """Every log that is online."""

    def get_log(self, topic: str, partition: int) -> Log | None:
        """One of them."""


class Housekeeping:
    """Rounds over all logs. A round that is not done when it is due again is left to finish."""

    __slots__ = ("_clock", "_flush", "_logs", "_on_failure", "_scheduler", "_under_way")

    def __init__(
        self,
        logs: Logs,
        clock: Clock,
        scheduler: Scheduler,
        flush: Callable[[Log], None],
        on_failure: Callable[[LogDirFailure], None],
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._scheduler = scheduler
        self._flush = flush
        self._on_failure = on_failure
        self._under_way: set[str] = set()

    def delete_old_segments(self) -> None:
        """Apply retention to every log."""
        self._begin("log-retention", self._retain)

    def flush_old_logs(self) -> None:
        """Flush every log whose oldest unflushed record may be older than `flush.ms`."""
        self._begin("log-flusher", self._flush_if_old)

    def remove_expired_producers(self) -> None:
        """Forget producers that have been idle for `producer.id.expiration.ms`."""
        self._begin("producer-expiration", self._expire_producers)

    def _retain(self, log: Log) -> None:
        if log.is_being_cleaned or (log.active_segment.size_bytes == 0 and len(log.segments) == 1):
            return
        deleted = log.delete_old_segments(self._clock.wall_ms())
        if deleted:
            size_bytes = sum(segment.size_bytes for segment, _ in deleted)
            reasons = ", ".join(sorted({reason.value for _, reason in deleted}))
            logger.info(
                "deleted %d segments (%d bytes) of %s because of %s; it starts at offset %d now",
                len(deleted),
                size_bytes,
                log.name,
                reasons,
                log.log_start_offset,
            )

    def _flush_if_old(self, log: Log) -> None:
        if log.unflushed_messages > 0 and self._clock.wall_ms() - log.flush_state.last_flush_ms >= log.config.flush_ms:
            self._flush(log)

    def _expire_producers(self, log: Log) -> None:
        if log.producer_state.producers:
            log.producer_state.remove_expired(self._clock.wall_ms())

    def _begin(self, name: str, visit: Callable[[Log], None]) -> None:
        if name not in self._under_way:
            self._under_way.add(name)
            self._go_on(name, visit, iter(self._logs.all_logs()))

    def _go_on(self, name: str, visit: Callable[[Log], None], logs: Iterator[Log]) -> None:
        deadline_ms = self._clock.monotonic_ms() + _SLICE_MS
        for log in logs:
            # It may have been deleted, or gone offline, since the round began.
            if self._logs.get_log(log.topic, log.partition) is log:
                self._visit(name, visit, log)
            if self._clock.monotonic_ms() >= deadline_ms:
                self._scheduler.schedule(name, lambda: self._go_on(name, visit, logs), _PAUSE_MS)
                return
        self._under_way.discard(name)

    def _visit(self, name: str, visit: Callable[[Log], None], log: Log) -> None:
        try:
            visit(log)
        except LogDirFailure as failure:
            self._on_failure(failure)
        except Exception:
            # One log that cannot be dealt with must not keep the others from it.
            logger.exception("%s of %s failed", name, log.name)
