"""Periodic work on all logs: retention, flushing by age, expiry of producers."""

import logging
from collections.abc import Callable
from typing import Protocol

from tidelog.storage.directories.rounds import Rounds
from tidelog.storage.errors import LogDirFailure
from tidelog.storage.log import Log
from tidelog.timing import Clock, Scheduler

logger = logging.getLogger(__name__)


class Logs(Protocol):
    """The logs of the broker."""

    def all_logs(self) -> list[Log]:
        """Every log that is online."""

    def get_log(self, topic: str, partition: int) -> Log | None:
        """One of them."""


class Housekeeping:
    """Rounds over all logs. A round that is still running when it is due again is not started twice."""

    __slots__ = ("_clock", "_flush", "_logs", "_on_failure", "_rounds")

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
        self._rounds = Rounds(clock, scheduler)
        self._flush = flush
        self._on_failure = on_failure

    def delete_old_segments(self) -> None:
        """Apply retention to every log."""
        self._begin("log-retention", self._retain)

    def flush_old_logs(self) -> None:
        """Flush every log whose oldest unflushed record may be older than `flush.ms`."""
        self._begin("log-flusher", self._flush_if_old)

    def remove_expired_producers(self) -> None:
        """Remove producers that have been idle for `producer.id.expiration.ms`."""
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
        self._rounds.begin(name, self._logs.all_logs(), lambda log: self._visit(name, visit, log))

    def _visit(self, name: str, visit: Callable[[Log], None], log: Log) -> None:
        if self._logs.get_log(log.topic, log.partition) is not log:
            # It has been deleted, or gone offline, since the round began.
            return
        try:
            visit(log)
        except LogDirFailure as failure:
            self._on_failure(failure)
        except Exception:
            # An error in one log must not stop the round.
            logger.exception("%s of %s failed", name, log.name)
