"""Partitions that move from one log directory to another of the same file system, while no broker uses either.

A directory is renamed, not copied, and what the checkpoints say about the partition goes with it. A journal, written
before the first step, names the moves: after a crash at any point the same moves are carried out again from the start,
and those that were done already change nothing. The journal goes when the caller says that all is done.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from tidelog.storage.checkpoints import OffsetCheckpointFile
from tidelog.storage.directories.log_directory import LogDirectory
from tidelog.storage.errors import StorageError
from tidelog.storage.replacing import sync_path, unlink_if_exists, write_atomically
from tidelog.wire.partitions import PartitionKey

Reach = Callable[[str], None]
"""Called with the name of each place between two steps; the testing kit can let a process die there."""


class DirectoryMove(NamedTuple):
    """One partition's directory, from one log directory to another."""

    topic: str
    partition: int
    source: str
    target: str

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.partition


def write_journal(path: str, moves: Sequence[DirectoryMove]) -> None:
    """Name the moves, before the first of them."""
    write_atomically(path, json.dumps({"version": 1, "moves": moves}, indent=1).encode())


def read_journal(path: str) -> list[DirectoryMove]:
    """The moves that were begun and are not known to be done; none without a journal."""
    try:
        with open(path, "rb") as file:
            document = json.load(file)
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise StorageError(f"{path}, the journal of moved partitions, is not JSON: {error}") from error
    try:
        return [DirectoryMove(*move) for move in document["moves"]]
    except (KeyError, TypeError) as error:
        raise StorageError(f"{path}, the journal of moved partitions, has no list of moves: {error}") from error


def remove_journal(path: str) -> None:
    """The moves are done, and so is what had to follow."""
    if unlink_if_exists(path):
        sync_path(os.path.dirname(path))


def move_directories(moves: Iterable[DirectoryMove], reach: Reach) -> None:
    """Rename the directories. Raises StorageError if a broker uses one of the log directories, or OSError."""
    by_pair: defaultdict[tuple[str, str], list[DirectoryMove]] = defaultdict(list)
    for move in moves:
        by_pair[move.source, move.target].append(move)
    with ExitStack() as locks:
        opened = {path: _locked(path, locks) for path in sorted({path for pair in by_pair for path in pair})}
        for (source, target), group in by_pair.items():
            _move_group(opened[source], opened[target], group, reach)


def _locked(path: str, locks: ExitStack) -> LogDirectory:
    directory = LogDirectory(path)
    directory.create()
    directory.lock()
    locks.callback(directory.unlock)
    return directory


def _move_group(source: LogDirectory, target: LogDirectory, moves: Sequence[DirectoryMove], reach: Reach) -> None:
    if not source.has_clean_shutdown_marker():
        # What arrives may have a torn end: the target has to look at its logs, too.
        target.take_clean_shutdown_marker()
    keys = [move.key for move in moves]
    _copy_checkpoints(source, target, keys)
    reach("checkpoints copied")
    for move in moves:
        _rename(source, target, move)
        reach("directory renamed")
    sync_path(target.path)
    sync_path(source.path)
    _forget_checkpoints(source, keys)
    reach("checkpoints removed")


def _rename(source: LogDirectory, target: LogDirectory, move: DirectoryMove) -> None:
    before, after = os.path.join(source.path, move.name), os.path.join(target.path, move.name)
    if not os.path.isdir(before):
        return  # it was done before a crash
    if os.path.isdir(after):
        raise StorageError(f"{move.name} is in {source.path} and in {target.path}: move one of them elsewhere")
    os.rename(before, after)


def _copy_checkpoints(source: LogDirectory, target: LogDirectory, keys: Sequence[PartitionKey]) -> None:
    wanted = set(keys)
    for old, new in zip(_checkpoints(source), _checkpoints(target), strict=True):
        moved = {key: offset for key, offset in old.read().items() if key in wanted}
        if moved:
            new.write(new.read() | moved)


def _forget_checkpoints(source: LogDirectory, keys: Sequence[PartitionKey]) -> None:
    gone = set(keys)
    for file in _checkpoints(source):
        offsets = file.read()
        kept = {key: offset for key, offset in offsets.items() if key not in gone}
        if len(kept) < len(offsets):
            file.write(kept)


def _checkpoints(directory: LogDirectory) -> tuple[OffsetCheckpointFile, ...]:
    return directory.recovery_points, directory.high_watermarks, directory.start_offsets, directory.clean_points
