"""Flushing a log in two halves: the loop decides what to sync, and a thread may sync it.

Before the recovery point may move to an offset, these must be on disk: every log file with batches below it, the
indexes and producer snapshots of segments that recovery will then trust, the names of new files, and the leader epochs.
The index of the active segment is not synced: after a crash the segment with the recovery point is read and indexed
again.
"""

import os
from typing import Final, Protocol

from tidelog.storage._files import OpenFile
from tidelog.storage.errors import LogDirFailure
from tidelog.storage.leader_epochs import EpochChanges
from tidelog.storage.log._positions import Positions
from tidelog.storage.log._segments import Segments
from tidelog.storage.producers.state import ProducerStateManager
from tidelog.storage.replacing import sync_path

_sync_data: Final = getattr(os, "fdatasync", os.fsync)


class FlushState:
    """What is on disk, and what the next flush must sync by name."""

    __slots__ = (
        "_messages_max",
        "_unsynced_paths",
        "due_offset",
        "durable_end_offset",
        "is_due",
        "last_flush_ms",
        "recovery_point",
    )

    def __init__(
        self, recovery_point: int, written_end_offset: int, messages_max: int, now_ms: int, unsynced_paths: list[str]
    ) -> None:
        """`messages_max` is `flush.messages`: this many records may be unflushed and still count as durable."""
        self._messages_max = messages_max
        self._unsynced_paths = unsynced_paths
        self.recovery_point = recovery_point
        """Batches below it are on disk: recovery need not read them."""
        self.due_offset = recovery_point + messages_max
        """A write that reaches it makes a flush due; one that ends before it makes its batches durable."""
        self.durable_end_offset = written_end_offset
        """Batches below it are as durable as `flush.messages` requires, and may be acknowledged."""
        self.is_due = False
        """`flush.messages` requires a flush before the last written batches may be acknowledged."""
        self.last_flush_ms = now_ms

    def update_messages_max(self, messages_max: int) -> None:
        """Follow a changed `flush.messages`, from the next write on."""
        self._messages_max = messages_max
        self._move_recovery_point(self.recovery_point)

    def _move_recovery_point(self, offset: int) -> None:
        self.recovery_point = offset
        self.due_offset = offset + self._messages_max

    def on_flushed(self, up_to: int, written_end_offset: int, now_ms: int | None) -> None:
        """Everything below `up_to` is on disk."""
        self._move_recovery_point(max(self.recovery_point, up_to))
        self.is_due = written_end_offset >= self.due_offset
        self.durable_end_offset = self.recovery_point if self.is_due else written_end_offset
        if now_ms is not None:
            self.last_flush_ms = now_ms

    def on_log_start_offset(self, log_start_offset: int) -> None:
        """Nothing before `log_start_offset` will be read again."""
        self._move_recovery_point(max(self.recovery_point, log_start_offset))

    def on_truncated(self, log_end_offset: int, directory: str) -> None:
        """The log ends at `log_end_offset` now; its directory holds names that a sync must bring to disk."""
        self._unsynced_paths.append(directory)
        self._move_recovery_point(min(self.recovery_point, log_end_offset))
        self.durable_end_offset = min(self.durable_end_offset, log_end_offset)

    def add_unsynced(self, *paths: str) -> None:
        """Files and directories were written without a sync: the next flush covers them."""
        self._unsynced_paths += paths

    def take_unsynced(self) -> list[str]:
        """What the next flush syncs by name: indexes and snapshots of rolled segments, directories of new files."""
        paths, self._unsynced_paths = self._unsynced_paths, []
        return paths

    def files_below(
        self, end_offset: int, segments: Segments, producer_state: ProducerStateManager
    ) -> tuple[list[OpenFile], list[str]]:
        """Files with unflushed batches below `end_offset`, and those beside them that recovery relies on.

        The active segment's is returned open, all others by name.
        """
        files: list[OpenFile] = []
        paths: list[str] = []
        if end_offset <= self.recovery_point:
            return files, paths
        for segment in segments.since(self.recovery_point):
            if segment.base_offset >= end_offset:
                break
            if segment is segments.active:
                files.append(segment.log_file.open())
            else:
                # By name: a disk that is slow may leave many finished segments to one sync, and it waits for a thread.
                paths.append(segment.log_file.path)
                paths += segment.index_paths()
                if segment.base_offset in producer_state.snapshot_offsets():
                    paths.append(producer_state.snapshot_path(segment.base_offset))
        return files, paths


class FlushedLog(Protocol):
    """What a job asks of its log, when it is made and when it runs."""

    @property
    def positions(self) -> Positions: ...

    @property
    def directory(self) -> str: ...

    @property
    def parent_directory(self) -> str: ...

    @property
    def is_deleted(self) -> bool: ...


class FlushJob:
    """Files to sync. `run` may be called on any thread; the log must not be closed meanwhile."""

    __slots__ = ("_epochs", "_files", "_log", "_paths", "directory", "generation", "up_to")

    def __init__(
        self, log: FlushedLog, up_to: int, files: list[OpenFile], paths: list[str], epochs: EpochChanges | None
    ) -> None:
        self.up_to = up_to
        self.generation = log.positions.generation
        self.directory = log.directory
        self._log = log
        self._files = files
        self._paths = paths
        self._epochs = epochs

    def run(self) -> None:
        """Sync everything. Raises LogDirFailure; nothing counts as synced then, now or later."""
        try:
            for file in self._files:
                _sync_data(file.fd)
            for path in dict.fromkeys(self._paths):
                sync_path(path)
            # The log may have been deleted since, and its directory renamed: the file is not needed then. A new log of
            # that name may exist by now, which must not get it.
            if self._epochs is not None and not self._log.is_deleted:
                self._epochs.write()
        except OSError as error:
            raise LogDirFailure(self._log.parent_directory, error) from error
