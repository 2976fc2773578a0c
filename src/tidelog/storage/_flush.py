"""Bringing a log to disk, in two halves: what to sync is decided on the loop, the syncing may happen on a thread.

What must be on disk before the recovery point may move to an offset: every log file with batches below it, the indexes
and producer snapshots of segments that will then count as sound, the names of new files, and the leader epochs. The
index of the active segment is not synced: after a crash the segment that holds the recovery point is read and indexed
anew.
"""

import contextlib
import os
from typing import TYPE_CHECKING, Final

from tidelog.storage._files import OpenFile, sync_path, write_atomically
from tidelog.storage.errors import LogDirFailure
from tidelog.storage.segment import Segment

if TYPE_CHECKING:
    from tidelog.storage.log import Log


_sync_data: Final = getattr(os, "fdatasync", os.fsync)


class FlushJob:
    """Files to sync. `run` may be called on any thread; the log must not be closed meanwhile."""

    __slots__ = ("_epochs", "_files", "_log", "_paths", "generation", "up_to")

    def __init__(
        self, log: "Log", up_to: int, files: list[OpenFile], paths: list[str], epochs: tuple[str, bytes] | None
    ) -> None:
        self.up_to = up_to
        self.generation = log.generation
        self._log = log
        self._files = files
        self._paths = paths
        self._epochs = epochs

    def run(self) -> None:
        """Sync everything. Raises LogDirFailure; nothing may then be taken for synced, now or later."""
        try:
            for file in self._files:
                _sync_data(file.fd)
            for path in dict.fromkeys(self._paths):
                sync_path(path)
            if self._epochs is not None:
                self._write_epochs(*self._epochs)
        except OSError as error:
            raise LogDirFailure(self._log.parent_directory, error) from error

    def _write_epochs(self, path: str, content: bytes) -> None:
        # The log may have been deleted since, and its directory renamed: nobody will miss the file. But there may be a
        # new log of that name by now, which must not get it.
        if not self._log.is_deleted:
            with contextlib.suppress(FileNotFoundError):
                write_atomically(path, content)


def prepare_flush(log: "Log", up_to: int | None = None) -> FlushJob:
    """Write what is staged and say what must be synced for everything below `up_to` (or all) to be on disk.

    The job's `run` may be called on another thread; `complete_flush` then moves the recovery point.
    """
    log.write_staged()
    end_offset = log.log_end_offset if up_to is None else min(up_to, log.log_end_offset)
    files: list[OpenFile] = []
    paths: list[str] = []
    epochs = None
    try:
        if end_offset > log.recovery_point:
            for segment in log.segments.since(log.recovery_point):
                if segment.base_offset < end_offset:
                    files.append(segment.log_file.open())
                    paths += _paths_to_trust(log, segment)
        paths += log.take_unsynced_paths()
        if log.leader_epochs.is_dirty:
            log.leader_epochs.is_dirty = False
            epochs = log.leader_epochs.path, log.leader_epochs.encode()
    except OSError as error:
        raise log.fail(error) from error
    return FlushJob(log, end_offset, files, paths, epochs)


def _paths_to_trust(log: "Log", segment: Segment) -> list[str]:
    """The files beside a log file that recovery will rely on once the segment lies below the recovery point."""
    if segment is log.active_segment:
        return []
    paths = list(segment.index_paths())
    if segment.base_offset in log.producer_state.snapshot_offsets():
        paths.append(log.producer_state.snapshot_path(segment.base_offset))
    return paths


def complete_flush(log: "Log", job: FlushJob, now_ms: int | None = None) -> None:
    """A job has been run: what it covers is on disk, unless the log was truncated and then refilled meanwhile."""
    if job.generation == log.generation:
        log.mark_flushed(job.up_to, now_ms)
