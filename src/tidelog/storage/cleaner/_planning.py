"""From a log that is to be cleaned to a job for a worker: plain paths and numbers, taken from the log as it is now."""

from typing import NamedTuple

from tidelog.config import BrokerConfig
from tidelog.storage.cleaner.jobs import CleanJob, ProducerTail, SourceSegment
from tidelog.storage.cleaner.selection import Candidate
from tidelog.storage.log import Log


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
    )


def _producer_tails(log: Log, end_offset: int) -> tuple[ProducerTail, ...]:
    """The producers whose last batch lies in what is cleaned. They can only write behind it, until the job is over."""
    return tuple(
        ProducerTail(entry.producer_id, entry.last_offset, entry.producer_epoch)
        for entry in log.producer_state.producers.values()
        if entry.last_offset < end_offset
    )
