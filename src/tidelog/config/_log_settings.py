"""Broker settings: data directories, segments, retention, flushing and the log cleaner."""

from __future__ import annotations

from tidelog.config import _checks as checks
from tidelog.config.declaration import DAY_MS, GIB, LONG_MAX, MIB, MINUTE_MS, Settings, setting
from tidelog.config.kinds import INT, LONG, PATHS


# fmt: off
class LogSettings(Settings, area="Logs"):
    """Data directories, and the defaults of every topic's log."""

    log_dirs: tuple[str, ...] = setting(
        "log.dirs", ("./tidelog-data",), type=PATHS, importance="high",
        doc="Directories that hold the data, comma-separated; partitions are spread over them.")
    log_dir: str | None = setting(
        "log.dir", None, importance="high", doc="A single data directory, used when `log.dirs` is not set.")
    log_segment_bytes: int = setting(
        "log.segment.bytes", GIB, importance="high", at_least=14, dynamic="cluster-wide",
        doc="Start a new segment at this size.")
    log_roll_ms: int | None = setting(
        "log.roll.ms", None, type=LONG, importance="high", dynamic="cluster-wide",
        doc="Start a new segment when the current one is this old; `log.roll.hours` when not set.")
    log_roll_hours: int = setting(
        "log.roll.hours", 168, importance="high", at_least=1, doc="`log.roll.ms` in hours, if that is not set.")
    log_roll_jitter_ms: int | None = setting(
        "log.roll.jitter.ms", None, type=LONG, importance="high", dynamic="cluster-wide",
        doc="Start a new segment earlier by a random time up to this, so that segments do not all start together.")
    log_roll_jitter_hours: int = setting(
        "log.roll.jitter.hours", 0, importance="high", at_least=0,
        doc="`log.roll.jitter.ms` in hours, if that is not set.")
    log_retention_ms: int | None = setting(
        "log.retention.ms", None, type=LONG, importance="high", dynamic="cluster-wide",
        doc="Delete segments whose newest record is older than this; -1 keeps all; `log.retention.minutes` when "
            "not set.")
    log_retention_minutes: int | None = setting(
        "log.retention.minutes", None, type=INT, importance="high",
        doc="`log.retention.ms` in minutes, if that is not set; `log.retention.hours` when this is not set either.")
    log_retention_hours: int = setting(
        "log.retention.hours", 168, importance="high",
        doc="`log.retention.ms` in hours, if neither that nor `log.retention.minutes` is set.")
    log_retention_bytes: int = setting(
        "log.retention.bytes", -1, type=LONG, importance="high", dynamic="cluster-wide",
        doc="Delete the oldest segments while a partition is larger than this; -1 keeps all.")
    log_retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms", 5 * MINUTE_MS, type=LONG, at_least=1,
        doc="How often the broker looks for segments to delete.")
    log_cleanup_policy: tuple[str, ...] = setting(
        "log.cleanup.policy", ("delete",), one_of=("compact", "delete"), dynamic="cluster-wide",
        doc="What happens to old data: `delete`, `compact` or both.")
    log_index_size_max_bytes: int = setting(
        "log.index.size.max.bytes", 10 * MIB, at_least=4, dynamic="cluster-wide",
        doc="Size an index file is preallocated to; a full index starts a new segment.")
    log_index_interval_bytes: int = setting(
        "log.index.interval.bytes", 4096, at_least=0, dynamic="cluster-wide",
        doc="Bytes of records between two entries of the offset and time index.")
    log_flush_interval_messages: int = setting(
        "log.flush.interval.messages", LONG_MAX, type=LONG, importance="high", at_least=1, dynamic="cluster-wide",
        doc="Call fsync after this many records of a partition.")
    log_flush_interval_ms: int | None = setting(
        "log.flush.interval.ms", None, type=LONG, importance="high", dynamic="cluster-wide",
        doc="Call fsync when a partition's oldest unflushed record is this old; "
            "`log.flush.scheduler.interval.ms` when not set.")
    log_flush_scheduler_interval_ms: int = setting(
        "log.flush.scheduler.interval.ms", LONG_MAX, type=LONG, importance="high",
        doc="How often the broker looks for data to flush.")
    log_flush_offset_checkpoint_interval_ms: int = setting(
        "log.flush.offset.checkpoint.interval.ms", MINUTE_MS, importance="high", at_least=0,
        doc="How often recovery points are written.")
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        "log.flush.start.offset.checkpoint.interval.ms", MINUTE_MS, importance="high", at_least=0,
        doc="How often log start offsets are written.")
    log_segment_delete_delay_ms: int = setting(
        "log.segment.delete.delay.ms", MINUTE_MS, type=LONG, importance="high", at_least=0, dynamic="cluster-wide",
        doc="Time between renaming a file to `.deleted` and removing it.")
    log_preallocate: bool = setting(
        "log.preallocate", False, dynamic="cluster-wide",
        doc="Reserve the disk space of a new segment when it is created.")
    log_initial_task_delay_ms: int = setting(
        "log.initial.task.delay.ms", 30_000, type=LONG, importance="low", at_least=0,
        doc="Wait after start-up before retention, flushing and checkpoints begin.")
    num_recovery_threads_per_data_dir: int = setting(
        "num.recovery.threads.per.data.dir", 1, importance="high", at_least=1, dynamic="cluster-wide",
        doc="Threads per data directory that load and recover logs at start-up and flush them at shutdown.")
    log_message_format_version: str = setting(
        "log.message.format.version", "3.0-IV1", validator=checks.METADATA_VERSION,
        ignored="the stored format is always the current one", doc="Version of the stored format.")
    log_message_timestamp_type: str = setting(
        "log.message.timestamp.type", "CreateTime", one_of=("CreateTime", "LogAppendTime"), dynamic="cluster-wide",
        doc="Timestamp of a record: the producer's (CreateTime) or the broker's (LogAppendTime).")
    log_message_timestamp_difference_max_ms: int = setting(
        "log.message.timestamp.difference.max.ms", LONG_MAX, type=LONG, at_least=0, dynamic="cluster-wide",
        doc="Deprecated: sets both `log.message.timestamp.before.max.ms` and `log.message.timestamp.after.max.ms`.")
    log_message_timestamp_before_max_ms: int = setting(
        "log.message.timestamp.before.max.ms", LONG_MAX, type=LONG, at_least=0, dynamic="cluster-wide",
        doc="Refuse records whose timestamp lies further behind the broker's clock (CreateTime only).")
    log_message_timestamp_after_max_ms: int = setting(
        "log.message.timestamp.after.max.ms", LONG_MAX, type=LONG, at_least=0, dynamic="cluster-wide",
        doc="Refuse records whose timestamp lies further ahead of the broker's clock (CreateTime only).")
    log_message_downconversion_enable: bool = setting(
        "log.message.downconversion.enable", True, importance="low", dynamic="cluster-wide",
        doc="Convert batches to old formats for consumers that need it; otherwise such fetches are refused.")
    log_local_retention_ms: int = setting(
        "log.local.retention.ms", -2, type=LONG, at_least=-2, dynamic="cluster-wide",
        ignored="tiered storage is not supported", doc="Time for which data stays on the broker's disk.")
    log_local_retention_bytes: int = setting(
        "log.local.retention.bytes", -2, type=LONG, at_least=-2, dynamic="cluster-wide",
        ignored="tiered storage is not supported", doc="Bytes that stay on the broker's disk.")


class CleanerSettings(Settings, area="Log compaction"):
    """The log cleaner, which keeps the last record of each key."""

    log_cleaner_enable: bool = setting(
        "log.cleaner.enable", True, doc="Run the cleaner. Compacted topics grow for ever without it.")
    log_cleaner_threads: int = setting(
        "log.cleaner.threads", 1, at_least=0, dynamic="cluster-wide", doc="Logs that are cleaned at the same time.")
    log_cleaner_io_max_bytes_per_second: float = setting(
        "log.cleaner.io.max.bytes.per.second", 1.7976931348623157e308, dynamic="cluster-wide",
        doc="Bytes the cleaner reads and writes per second, on average.")
    log_cleaner_dedupe_buffer_size: int = setting(
        "log.cleaner.dedupe.buffer.size", 128 * MIB, type=LONG, dynamic="cluster-wide",
        doc="Memory for the cleaner's map of keys, over all its threads.")
    log_cleaner_io_buffer_size: int = setting(
        "log.cleaner.io.buffer.size", 512 * 1024, at_least=0, dynamic="cluster-wide",
        doc="Memory for the cleaner's reading and writing, over all its threads.")
    log_cleaner_io_buffer_load_factor: float = setting(
        "log.cleaner.io.buffer.load.factor", 0.9, dynamic="cluster-wide",
        doc="How full the map of keys may get; fuller cleans more at once, with more collisions.")
    log_cleaner_backoff_ms: int = setting(
        "log.cleaner.backoff.ms", 15_000, type=LONG, at_least=0, dynamic="cluster-wide",
        doc="Wait between two checks when there is nothing to clean.")
    log_cleaner_min_cleanable_ratio: float = setting(
        "log.cleaner.min.cleanable.ratio", 0.5, at_least=0, at_most=1, dynamic="cluster-wide",
        doc="Share of a log that must be uncompacted before the cleaner cleans it.")
    log_cleaner_delete_retention_ms: int = setting(
        "log.cleaner.delete.retention.ms", DAY_MS, type=LONG, at_least=0, dynamic="cluster-wide",
        doc="How long compaction keeps a tombstone.")
    log_cleaner_min_compaction_lag_ms: int = setting(
        "log.cleaner.min.compaction.lag.ms", 0, type=LONG, at_least=0, dynamic="cluster-wide",
        doc="A record stays uncompacted at least this long.")
    log_cleaner_max_compaction_lag_ms: int = setting(
        "log.cleaner.max.compaction.lag.ms", LONG_MAX, type=LONG, at_least=1, dynamic="cluster-wide",
        doc="A record is compacted at the latest this long after it was written.")
# fmt: on
