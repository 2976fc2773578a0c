"""Writes the leader epochs of logs to their checkpoint files as soon as they change, away from the loop.

Kafka writes the file when an epoch begins, before the first record of it, and on its loop's thread. Here a change is
handed to a background thread: one job for each log directory at a time, which takes all logs that changed meanwhile. A
crash before that loses nothing: the recovery point moves only when the epochs of the batches below it are on disk
(`tidelog.storage.log._flushing`), and recovery reads the batches behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

from tidelog.storage.directories.background import Background, Done
from tidelog.storage.leader_epochs import EpochChanges
from tidelog.storage.log import Log
from tidelog.storage.replacing import Replacements

LOGS_AT_ONCE: Final = 1000
MANY: Final = 32
"""So many files are synced together, with the file system: each by itself would wait for the disk twice."""


class EpochWrites:
    """The changes of the logs of one log directory that are not written yet."""

    def __init__(self, background: Background, done: Done, sync_file_system: Callable[[], bool]) -> None:
        """`done` is called after each job, with what it raised; `sync_file_system` may be unable to, and says so."""
        self._background = background
        self._done = done
        self._sync_file_system = sync_file_system
        self._changed: dict[Log, None] = {}
        self._is_writing = False

    def on_changed(self, log: Log) -> None:
        """The epochs of a log have changed."""
        self._changed[log] = None
        if not self._is_writing:
            self._write()

    def _write(self) -> None:
        taken = []
        for log in list(self._changed)[:LOGS_AT_ONCE]:
            del self._changed[log]
            changes = log.leader_epochs.changes()
            if changes is not None:
                taken.append((log, changes))
        if taken:
            self._is_writing = True
            self._background(partial(self._write_all, taken), self._on_written)

    def _on_written(self, error: BaseException | None) -> None:
        self._is_writing = False
        self._done(error)
        if self._changed and error is None:
            self._write()

    def _write_all(self, taken: Sequence[tuple[Log, EpochChanges]]) -> None:
        """On a thread of the pool."""
        # A new log may have the name of one that was deleted.
        changes = [each for log, each in taken if not log.is_deleted]
        if len(changes) < MANY or not self._write_together(changes):
            for each in changes:
                each.write()

    def _write_together(self, changes: Sequence[EpochChanges]) -> bool:
        """Write many files with one sync; False if the file system cannot be synced as a whole."""
        replacements = Replacements()
        try:
            with ExitStack() as replaced:
                for each in changes:
                    replaced.enter_context(each.replaced_with(replacements))
                if not self._sync_file_system():
                    raise _NotSynced
                # Other threads rename the directories of logs that are deleted, or moved into place.
                replacements.commit(may_be_gone=True)
        except _NotSynced:
            return False
        return True


class _NotSynced(Exception):  # noqa: N818 -- an event: the files are written one by one then
    """The file system cannot be synced as a whole."""
