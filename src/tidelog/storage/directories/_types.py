"""Plain data that goes in and out of `LogManager`."""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.config import BrokerConfig
from tidelog.storage.errors import StorageError
from tidelog.storage.loading.loader import Recovery


class LogManagerConfig(NamedTuple):
    """The broker settings that concern all logs together."""

    log_dirs: tuple[str, ...]
    num_recovery_threads_per_data_dir: int = 1
    log_initial_task_delay_ms: int = 30_000
    log_retention_check_interval_ms: int = 300_000
    log_flush_scheduler_interval_ms: int = 2**63 - 1
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    log_segment_delete_delay_ms: int = 60_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000

    @classmethod
    def of(cls, broker: BrokerConfig) -> "LogManagerConfig":
        """The broker's settings of these names."""
        return cls(*(getattr(broker, name) for name in cls._fields))


class NoLogDirectoryError(StorageError):
    """Every log directory has failed: a broker without any stops, as Kafka does."""


class DuplicatePartitionError(StorageError):
    """Two log directories hold the same partition."""


class PartitionSize(NamedTuple):
    """A log in a log directory: a partition's, or the copy that will take its place."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int = 0
    """How far the log is behind: a copy behind the log, a log behind its high watermark; -1 if that is not known."""
    is_future: bool = False


class DirectoryDescription(NamedTuple):
    """A log directory as DescribeLogDirs shows it. The bytes are -1 where the directory is offline."""

    path: str
    is_offline: bool
    total_bytes: int
    usable_bytes: int
    partitions: Sequence[PartitionSize]


class FailedDirectory(NamedTuple):
    """The partitions of a failed log directory. `is_last`: no directory is left, and the broker has to stop."""

    path: str
    partitions: tuple[tuple[str, int], ...]
    is_last: bool


class LoadSummary(NamedTuple):
    """The work and time of loading all logs."""

    logs: int
    directories: int
    unclean_directories: tuple[str, ...]
    recovery: Recovery
    took_ms: int
