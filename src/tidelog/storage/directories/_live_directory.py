"""A log directory that is online: how many logs it holds, and the checkpoint files that `LogManager` keeps in it."""

from collections.abc import Callable, Mapping
from typing import Final

from tidelog.storage.directories.background import Background, CheckpointWriter, Done
from tidelog.storage.directories.epoch_writes import EpochWrites
from tidelog.storage.directories.log_directory import LogDirectory
from tidelog.storage.errors import LogDirFailure
from tidelog.storage.log import Log
from tidelog.storage.replacing import Replacements
from tidelog.wire.partitions import PartitionKey

_MANY_LOGS: Final = 8

LogsByPartition = Mapping[PartitionKey, Log]


class LiveDirectory:
    """One of the directories that logs are in and may be created in."""

    __slots__ = (
        "_clean_points",
        "_high_watermarks",
        "_recovery_points",
        "_start_offsets",
        "directory",
        "is_loaded",
        "log_count",
        "write_epochs",
    )

    def __init__(self, directory: LogDirectory, background: Background, done: Done) -> None:
        """`background` writes the leader epochs of logs; `done` is called with the outcome."""
        self.directory = directory
        self.write_epochs: Final = EpochWrites(background, done, directory.sync_file_system).on_changed
        self.log_count = 0
        self.is_loaded = False
        self._recovery_points = CheckpointWriter(directory.recovery_points)
        self._start_offsets = CheckpointWriter(directory.start_offsets)
        self._high_watermarks = CheckpointWriter(directory.high_watermarks)
        self._clean_points = CheckpointWriter(directory.clean_points)

    @property
    def path(self) -> str:
        return self.directory.path

    def checkpoint_recovery_points(self, logs: LogsByPartition, background: Background, done: Done) -> None:
        """Write up to where each log is known to be on disk."""
        self._recovery_points.write_in(background, _recovery_points(logs), done)

    def checkpoint_start_offsets(self, logs: LogsByPartition, background: Background, done: Done) -> None:
        """Write the start offsets that are not the base offset of the first segment."""
        self._start_offsets.write_in(background, _start_offsets(logs), done)

    def checkpoint_high_watermarks(self, logs: LogsByPartition, background: Background, done: Done) -> None:
        """Write the high watermarks."""
        self._high_watermarks.write_in(background, _high_watermarks(logs), done)

    def checkpoint_clean_points(self, logs: LogsByPartition, background: Background, done: Done) -> None:
        """Write the offset up to which each log is compacted, if any log is."""
        clean_points = _clean_points(logs)
        if clean_points or self._clean_points.written:
            self._clean_points.write_in(background, clean_points, done)

    def forgetting(self, deleted: Mapping[PartitionKey, int], logs: LogsByPartition) -> list[Callable[[], None]]:
        """The functions that write the checkpoints without deleted partitions, given with their clean points.

        A new partition of the same name must not be created before: after a crash it would begin at the old one's start
        offset, or count as clean.
        """
        writes = []
        written = self._start_offsets.written or {}
        # Also where another deletion has left these partitions out, and is still writing.
        if not self._start_offsets.is_on_disk or not written.keys().isdisjoint(deleted):
            writes.append(self._start_offsets.writing(_start_offsets(logs)))
        if any(clean_point >= 0 for clean_point in deleted.values()):
            writes.append(self._clean_points.writing(_clean_points(logs)))
        return writes

    def close(self, logs: LogsByPartition, broker_epoch: int) -> LogDirFailure | None:
        """Flush and close all logs, write the checkpoints and, if all of that went well, the clean-shutdown marker."""
        try:
            if len(logs) < _MANY_LOGS or not self.directory.sync_file_system():
                self._close_one_by_one(logs)
            else:
                self._close_together(logs)
            if self.is_loaded:
                self.directory.write_clean_shutdown_marker(broker_epoch)
        except LogDirFailure as failure:
            return failure
        except OSError as error:
            return LogDirFailure(self.path, error)
        finally:
            self.directory.unlock()
        return None

    def _close_one_by_one(self, logs: LogsByPartition) -> None:
        for log in logs.values():
            log.flush()
            log.close()
        for checkpoint, offsets in self._last_checkpoints(logs):
            checkpoint.write(offsets)

    def _close_together(self, logs: LogsByPartition) -> None:
        """Close many logs with a handful of syncs: each of their files by itself would wait for the disk."""
        replacements = Replacements()
        for log in logs.values():
            log.close(replacements)
            log.mark_flushed(log.log_end_offset, None)
        for checkpoint, offsets in self._last_checkpoints(logs):
            checkpoint.write_with(offsets, replacements)
        # The order on disk is: data, then the checkpoints that describe it, then the clean-shutdown marker.
        self.directory.sync_file_system()
        replacements.commit()
        self.directory.sync_file_system()

    def _last_checkpoints(self, logs: LogsByPartition) -> list[tuple[CheckpointWriter, dict[PartitionKey, int]]]:
        last = [
            (self._recovery_points, _recovery_points(logs)),
            (self._start_offsets, _start_offsets(logs)),
            (self._high_watermarks, _high_watermarks(logs)),
        ]
        clean_points = _clean_points(logs)
        return [*last, (self._clean_points, clean_points)] if clean_points else last


def _recovery_points(logs: LogsByPartition) -> dict[PartitionKey, int]:
    return {key: log.recovery_point for key, log in logs.items()}


def _high_watermarks(logs: LogsByPartition) -> dict[PartitionKey, int]:
    return {key: log.high_watermark for key, log in logs.items()}


def _clean_points(logs: LogsByPartition) -> dict[PartitionKey, int]:
    return {key: log.positions.clean_point for key, log in logs.items() if log.positions.clean_point >= 0}


def _start_offsets(logs: LogsByPartition) -> dict[PartitionKey, int]:
    return {
        key: log.log_start_offset for key, log in logs.items() if log.log_start_offset > log.segments[0].base_offset
    }
