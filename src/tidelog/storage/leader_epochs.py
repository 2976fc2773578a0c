"""The leader epochs of a log: which epoch began at which offset, kept in `leader-epoch-checkpoint`.

Followers use it to find the offset where two logs diverge, and consumers to detect that a log was truncated. The file
is text: a version line (0), a count, and `epoch start-offset` lines.

Changes are made in memory, on one thread, and written soon after by another (`directories.epoch_writes`), at the latest
with the flush that moves the log's recovery point: recovery reads changes that a crash lost from the batches after that
point.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Final, NamedTuple

from tidelog.storage.checkpoints import CheckpointError, checkpoint_lines
from tidelog.storage.names import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.replacing import Replacements, write_atomically
from tidelog.storage.types import EpochEndOffset
from tidelog.wire.partitions import NO_EPOCH

_VERSION: Final = 0
UNDEFINED_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    """An epoch and the first offset that was (or would be) written in it."""

    epoch: int
    start_offset: int


class LeaderEpochCache:
    """The epochs of one log in ascending order; both epochs and start offsets strictly ascend."""

    __slots__ = ("_changes", "_entries", "directory", "file", "latest_epoch", "on_changed")

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._entries: list[EpochEntry] = []
        self._changes = 0
        self.file = _CheckpointFile()
        self.on_changed: Callable[[], object] | None = None
        """Called after each change, which is to be written soon."""
        self.latest_epoch = NO_EPOCH

    @classmethod
    def load(cls, directory: str) -> "LeaderEpochCache":
        """Read the checkpoint; a missing file is an empty one. CheckpointError when it is malformed."""
        path = os.path.join(directory, LEADER_EPOCH_CHECKPOINT)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return cls(directory)
        cache = cls(directory)
        for entry in parse_leader_epochs(data, path):
            cache.assign(entry.epoch, entry.start_offset)
        cache.file.written = cache._changes
        return cache

    @property
    def path(self) -> str:
        """The checkpoint file."""
        return os.path.join(self.directory, LEADER_EPOCH_CHECKPOINT)

    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record that `epoch` begins at `start_offset`; whether that was new.

        Entries that contradict the new one (a later epoch, or one that begins at or after it) came from a leader whose
        writes were not kept, and are removed.
        """
        if epoch < 0 or start_offset < 0:
            return False
        entries = self._entries
        if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
            return False
        keep = len(entries)
        while keep and (entries[keep - 1].epoch >= epoch or entries[keep - 1].start_offset >= start_offset):
            keep -= 1
        del entries[keep:]
        entries.append(EpochEntry(epoch, start_offset))
        self._changed()
        return True

    def earliest(self) -> EpochEntry | None:
        """The first entry."""
        return self._entries[0] if self._entries else None

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch in which `offset` was written; -1 when it is before the first entry."""
        slot = bisect_right(self._entries, offset, key=_start_offset)
        return self._entries[slot - 1].epoch if slot else NO_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The largest known epoch that is at most `epoch`, and where it ends; (-1, -1) when nothing is known."""
        entries = self._entries
        if epoch < 0 or not entries or epoch > entries[-1].epoch:
            return EpochEndOffset(NO_EPOCH, UNDEFINED_OFFSET)
        if epoch == entries[-1].epoch:
            return EpochEndOffset(epoch, log_end_offset)
        slot = bisect_right(entries, epoch, key=_epoch)
        if slot == 0:
            # An epoch before the first one: all known batches were written later, so the log of that epoch ends where
            # this one begins.
            return EpochEndOffset(epoch, entries[0].start_offset)
        return EpochEndOffset(entries[slot - 1].epoch, entries[slot].start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that begin at or after `end_offset`."""
        entries = self._entries
        keep = len(entries)
        while keep and entries[keep - 1].start_offset >= end_offset:
            keep -= 1
        if end_offset >= 0 and keep < len(entries):
            del entries[keep:]
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that end before `start_offset`; the epoch that contains it now begins there."""
        entries = self._entries
        slot = bisect_right(entries, start_offset, key=_start_offset)
        if slot and entries[slot - 1].start_offset < start_offset:
            entries[:slot] = [EpochEntry(entries[slot - 1].epoch, start_offset)]
            self._changed()
        elif slot > 1:
            del entries[: slot - 1]
            self._changed()

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._changed()

    def flush(self, replacements: Replacements | None = None) -> None:
        """Write the checkpoint if it has changed; or let it be replaced with others later."""
        changes = self.changes()
        if changes is None:
            return
        if replacements is None:
            changes.write()
        else:
            with changes.replaced_with(replacements):
                pass

    @property
    def is_changed(self) -> bool:
        """Whether the checkpoint file has something else."""
        return self.file.written != self._changes

    def changes(self) -> "EpochChanges | None":
        """What the checkpoint file has to hold now if it does not yet, to be written on any thread; None otherwise."""
        if not self.is_changed:
            return None
        return EpochChanges(self.file, self._changes, self.path, format_leader_epochs(self._entries))

    def _changed(self) -> None:
        self.latest_epoch = self._entries[-1].epoch if self._entries else NO_EPOCH
        self._changes += 1
        if self.on_changed is not None:
            self.on_changed()


class _CheckpointFile:
    """The file of one cache, which several threads may be about to write."""

    __slots__ = ("lock", "written")

    def __init__(self) -> None:
        self.lock = Lock()
        self.written = 0
        """How many changes of the cache the file has."""


class EpochChanges(NamedTuple):
    """What a checkpoint file has to hold after some number of changes. Writing it does nothing if the file is newer."""

    file: _CheckpointFile
    number: int
    path: str
    content: bytes

    def write(self) -> None:
        """`.tmp`, sync, rename, sync of the directory. Does nothing if the directory is gone."""
        with self.file.lock:
            if self.number > self.file.written:
                with suppress(FileNotFoundError):
                    write_atomically(self.path, self.content)
                    self.file.written = self.number

    @contextmanager
    def replaced_with(self, replacements: Replacements) -> Iterator[None]:
        """The same, but the caller syncs and commits, within the context."""
        with self.file.lock:
            if self.number <= self.file.written:
                yield
                return
            try:
                replacements.add(self.path, self.content)
            except FileNotFoundError:
                yield
                return
            yield
            if self.path not in replacements.gone:
                self.file.written = self.number


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset


def _epoch(entry: EpochEntry) -> int:
    return entry.epoch


def format_leader_epochs(entries: list[EpochEntry]) -> bytes:
    """The text of a checkpoint file."""
    lines = [f"{_VERSION}\n{len(entries)}\n"]
    lines += [f"{epoch} {start_offset}\n" for epoch, start_offset in entries]
    return "".join(lines).encode()


def parse_leader_epochs(data: bytes, path: str) -> list[EpochEntry]:
    """The entries in `data`; `path` is only for the message of the CheckpointError."""
    entries = []
    for number, line in checkpoint_lines(data, path, _VERSION):
        fields = line.split()
        if len(fields) != 2 or not all(field.isascii() and field.isdigit() and len(field) < 20 for field in fields):
            raise CheckpointError(f"checkpoint file {path}, line {number}: {line!r} is not `epoch start-offset`")
        entries.append(EpochEntry(int(fields[0]), int(fields[1])))
    return entries
