"""The files of an index in the directory of its partition: runs, and the checkpoint that names them.

The checkpoint says up to which offset the log is applied, and has the entries in memory. It is replaced as a whole,
after the runs it names were synced. A start loads it and applies what follows in the log. A checkpoint that is damaged,
or ahead of the log, is dropped with its runs. An empty one has nothing applied. It is there from the first moment on: a
partition without the file has no records that wait, unless its topic's setting says otherwise.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, NamedTuple
from zlib import crc32

from tidelog.records.delayed import ENTRY_BYTES
from tidelog.storage.names import DELAYED_CHECKPOINT
from tidelog.storage.waiting.index import RECENT_MAX, WaitingIndex
from tidelog.storage.waiting.runs import Run, sync_file

logger = logging.getLogger(__name__)

_RUN_PREFIX: Final = "delayed-records-"
_RUN_SUFFIX: Final = ".run"
_VERSION: Final = 0

Pending = dict[int, tuple[int, list[bytes]]]
"""The entries that wait for the end of a transaction, by producer id, with the producer's epoch."""


class AppliedLog(NamedTuple):
    """How far a log is applied: an offset, and the leader epoch of the last batch before it."""

    offset: int
    leader_epoch: int


class Checkpoint(NamedTuple):
    """The content of a checkpoint, and the new runs to sync before it is written; any thread may write it."""

    path: str
    content: bytes
    runs: list[str]
    numbers: set[int]
    """The runs that it names."""
    applied: AppliedLog

    def write(self) -> None:
        """Replace the file. Raises OSError."""
        for run in self.runs:
            sync_file(run)
        temporary = f"{self.path}.tmp"
        with open(temporary, "wb") as file:
            file.write(self.content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path)


class WaitingFiles:
    """The files of one partition's index. The directory is asked for at each use: a log may be renamed."""

    def __init__(self, directory: Callable[[], str]) -> None:
        self._directory = directory
        self._synced: set[int] = set()

    def path_of(self, number: int) -> str:
        """The path of a run."""
        return os.path.join(self._directory(), f"{_RUN_PREFIX}{number:010}{_RUN_SUFFIX}")

    def checkpoint(self, index: WaitingIndex, applied: AppliedLog, pending: Pending) -> Checkpoint:
        """What to write for the present state of an index."""
        head = {
            "version": _VERSION,
            "applied": applied.offset,
            "leader_epoch": applied.leader_epoch,
            "next_number": index.next_number,
            "runs": [[run.number, run.count, run.head] for run in index.runs],
            "recent": len(index.recent),
            "dead": len(index.dead),
            "pending": [[producer_id, epoch, len(entries)] for producer_id, (epoch, entries) in pending.items()],
            "locations": list(index.locations.items()),
            "floor": index.floor,
        }
        entries = [*index.recent, *index.dead, *(entry for _, some in pending.values() for entry in some)]
        body = json.dumps(head).encode() + b"\n" + b"".join(entries)
        unsynced = [run for run in index.runs if run.number not in self._synced]
        self._synced = {run.number for run in index.runs}
        path = os.path.join(self._directory(), DELAYED_CHECKPOINT)
        content = crc32(body).to_bytes(4, "big") + body
        return Checkpoint(path, content, [run.path for run in unsynced], set(self._synced), applied)

    def new_index(self, recent_max: int = RECENT_MAX) -> WaitingIndex:
        """An empty index, with an empty checkpoint; what was there is removed."""
        self.remove_others(())
        with open(os.path.join(self._directory(), DELAYED_CHECKPOINT), "wb"):
            return WaitingIndex(self.path_of, recent_max)

    def remove(self) -> None:
        """Remove the files."""
        self.remove_others(())
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._directory(), DELAYED_CHECKPOINT))

    def load(self, recent_max: int = RECENT_MAX) -> tuple[WaitingIndex, AppliedLog, Pending] | None:
        """The index of the last checkpoint; None if there is none that can be used."""
        path = os.path.join(self._directory(), DELAYED_CHECKPOINT)
        try:
            with open(path, "rb") as file:
                data = file.read()
            return self._parse(data, recent_max) if data else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s cannot be used, the log is read instead: %s", path, error)
            return None

    def _parse(self, data: bytes, recent_max: int) -> tuple[WaitingIndex, AppliedLog, Pending]:
        body = data[4:]
        if crc32(body).to_bytes(4, "big") != data[:4]:
            raise ValueError("its checksum does not match")
        text, _, blob = body.partition(b"\n")
        head = json.loads(text)
        if head["version"] != _VERSION:
            raise ValueError(f"it has version {head['version']}, not {_VERSION}")
        entries = [blob[at : at + ENTRY_BYTES] for at in range(0, len(blob), ENTRY_BYTES)]
        index = WaitingIndex(self.path_of, recent_max)
        index.next_number = head["next_number"]
        index.runs = [Run(self.path_of(number), number, count, at) for number, count, at in head["runs"]]
        index.locations = dict(head["locations"])
        index.floor = head.get("floor", 0)
        position = head["recent"]
        index.recent = entries[:position]
        index.dead = set(entries[position : (position := position + head["dead"])])
        pending: Pending = {}
        for producer_id, epoch, count in head["pending"]:
            pending[producer_id] = (epoch, entries[position : (position := position + count)])
        self._synced = {run.number for run in index.runs}
        self.remove_others({run.number for run in index.runs})
        return index, AppliedLog(head["applied"], head["leader_epoch"]), pending

    def remove_others(self, numbers: Collection[int]) -> None:
        """Remove the other runs."""
        kept = {os.path.basename(self.path_of(number)) for number in numbers}
        for name in os.listdir(self._directory()):
            if name.startswith(_RUN_PREFIX) and name.endswith(_RUN_SUFFIX) and name not in kept:
                os.unlink(os.path.join(self._directory(), name))
