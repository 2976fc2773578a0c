"""Which log is cleaned next, which part of it, and the job for that: Kafka's rules, as functions of a log and the time.

A log has a clean part, where each key occurs once, and a dirty part after it. Dirty records at or above the last stable
offset (and so the high watermark), in the active segment, behind a delayed record that still waits, or younger than
`min.compaction.lag.ms` are not cleaned yet.
The log with the largest dirty ratio is next: the share of bytes that have never been cleaned. `max.compaction.lag.ms`
makes a log due whatever its ratio.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.config import BrokerConfig
from tidelog.storage.cleaner.jobs import CleanJob, ProducerTail, SourceSegment
from tidelog.storage.log import Log
from tidelog.storage.segment import Segment


class Candidate(NamedTuple):
    """A log and its cleanable part: from `first_dirty_offset` up to `end_offset`, where a segment begins."""

    log: Log
    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    """By how much the oldest dirty record exceeds `max.compaction.lag.ms`; 0 when it does not."""

    @property
    def dirty_ratio(self) -> float:
        """The dirty share of the bytes that a cleaning would read."""
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        """Whether it may be cleaned now."""
        if self.overdue_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def examine(log: Log, now_ms: int, *, since: int = 0, settled_before: int | None = None) -> Candidate:
    """The cleanable part of a log, or of what lies after `since`.

    `settled_before` is for the question what it would be if delayed records were settled up to that offset.
    """
    first_dirty_offset = max(first_dirty(log), since)
    settled_before = log.settled_before if settled_before is None else settled_before
    limit = log.log_end_offset if settled_before is None else settled_before
    uncleanable_offset = max(first_dirty_offset, _first_uncleanable(log, first_dirty_offset, limit, now_ms))
    # Whole segments only: a segment with any record that is not to be cleaned is left out.
    beyond = _inactive_since(log, uncleanable_offset)
    end_offset = beyond[0].base_offset if beyond else log.active_segment.base_offset
    cleanable = _between(log, min(first_dirty_offset, end_offset), end_offset)
    clean = [segment for segment in log.segments if segment.base_offset < first_dirty_offset]
    return Candidate(
        log, first_dirty_offset, end_offset, _size(clean), _size(cleanable), _overdue(log, first_dirty_offset, now_ms)
    )


def first_dirty(log: Log) -> int:
    """Where the dirty part begins. With a clean point outside of the log, all of it is dirty."""
    clean_point = log.positions.clean_point
    if log.log_start_offset <= clean_point <= log.log_end_offset:
        return clean_point
    return log.log_start_offset


def _first_uncleanable(log: Log, first_dirty_offset: int, limit: int, now_ms: int) -> int:
    offset = min(log.last_stable_offset, log.active_segment.base_offset, limit)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in _inactive_since(log, first_dirty_offset):
            if segment.base_offset >= offset:
                break
            if segment.largest_timestamp() > now_ms - lag_ms:
                return segment.base_offset
    return offset


def _overdue(log: Log, first_dirty_offset: int, now_ms: int) -> int:
    oldest_allowed_ms = now_ms - log.config.max_compaction_lag_ms
    if oldest_allowed_ms <= 0:
        return 0
    timestamps = (segment.first_timestamp() for segment in _inactive_since(log, first_dirty_offset))
    oldest_ms = min((timestamp for timestamp in timestamps if timestamp > 0), default=oldest_allowed_ms)
    return max(oldest_allowed_ms - oldest_ms, 0)


def _inactive_since(log: Log, offset: int) -> list[Segment]:
    """The segment that `offset` lies in and those after it, without the active one."""
    return [segment for segment in log.segments.since(offset) if segment is not log.active_segment]


def _between(log: Log, start_offset: int, end_offset: int) -> list[Segment]:
    """The segments with offsets in [start_offset, end_offset)."""
    if start_offset >= end_offset:
        return []
    return [segment for segment in log.segments.since(start_offset) if segment.base_offset < end_offset]


def _size(segments: Iterable[Segment]) -> int:
    return sum(segment.size_bytes for segment in segments)


class CleanerConfig(NamedTuple):
    """The broker settings of the cleaner: `log.cleaner.*`. The buffers and the rate are shared by all threads."""

    is_enabled: bool = True
    threads: int = 1
    bytes_per_second_max: float = 1.7976931348623157e308
    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    dedupe_load_factor: float = 0.9
    buffer_bytes: int = 512 * 1024
    backoff_ms: int = 15_000

    @classmethod
    def of(cls, broker: BrokerConfig) -> "CleanerConfig":
        return cls(
            broker.log_cleaner_enable,
            broker.log_cleaner_threads,
            broker.log_cleaner_io_max_bytes_per_second,
            broker.log_cleaner_dedupe_buffer_size,
            broker.log_cleaner_io_buffer_load_factor,
            broker.log_cleaner_io_buffer_size,
            broker.log_cleaner_backoff_ms,
        )


def job_for(candidate: Candidate, config: CleanerConfig, now_ms: int) -> CleanJob:
    """The job of cleaning a log up to the candidate's end."""
    log, end_offset = candidate.log, candidate.end_offset
    threads = max(config.threads, 1)
    return CleanJob(
        name=log.name,
        directory=log.directory,
        segments=tuple(
            SourceSegment(segment.base_offset, segment.size_bytes)
            for segment in log.segments
            if segment.base_offset < end_offset
        ),
        later_bases=tuple(segment.base_offset for segment in log.segments if segment.base_offset >= end_offset),
        first_dirty_offset=candidate.first_dirty_offset,
        end_offset=end_offset,
        now_ms=now_ms,
        delete_retention_ms=log.config.delete_retention_ms,
        segment_bytes=log.config.segment_bytes,
        segment_index_bytes=log.config.segment_index_bytes,
        index_interval_bytes=log.config.index_interval_bytes,
        map_bytes=config.dedupe_buffer_bytes // threads,
        map_load_factor=config.dedupe_load_factor,
        buffer_bytes=config.buffer_bytes // threads,
        bytes_per_second_max=config.bytes_per_second_max / threads,
        producers=_producer_tails(log, end_offset),
        settled_before=log.settled_before or 0,
    )


def _producer_tails(log: Log, end_offset: int) -> tuple[ProducerTail, ...]:
    """The producers whose last batch is in the part to clean. Until the job is over they only write after it."""
    return tuple(
        ProducerTail(entry.producer_id, entry.last_offset, entry.producer_epoch)
        for entry in log.producer_state.producers.values()
        if entry.last_offset < end_offset
    )
