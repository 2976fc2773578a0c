"""This broker's own copy of the metadata log: `__cluster_metadata-0`, with Kafka's files.

    00000000000000000000.log, .index, .timeindex   the batches, as the leader of the quorum sent them
    00000000000000001234-0000000005.checkpoint     a snapshot: what the log says up to offset 1234, of epoch 5
    leader-epoch-checkpoint, partition.metadata    as in every partition's directory
    quorum-state                                   which leader was last followed, and in which epoch

A start goes on with what is there. Nothing of it is precious: the quorum has it all, so nothing waits for the disk.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.config import LogConfig
from tidelog.metadata.quorum.frames import Batch, MetadataRecordError, decode_batches
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import is_intact
from tidelog.storage.loading.loader import load_log
from tidelog.storage.log import Log
from tidelog.storage.partition_metadata import create_partition_metadata
from tidelog.storage.replacing import sync_path, unlink_if_exists, write_atomically
from tidelog.storage.types import EpochEndOffset
from tidelog.timing import Clock
from tidelog.wire.errors import ApiError
from tidelog.wire.primitives import Buffer

logger = logging.getLogger(__name__)

TOPIC: Final = "__cluster_metadata"
TOPIC_ID: Final = bytes(15) + b"\x01"
DIRECTORY_NAME: Final = f"{TOPIC}-0"
_SNAPSHOT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_QUORUM_STATE: Final = "quorum-state"
_READ_BYTES: Final = 1 << 20
_NO_DIRECTORY_ID: Final = "A" * 22


class SnapshotId(NamedTuple):
    """Up to where a snapshot reaches, and the epoch of the last record in it."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


class Leadership(NamedTuple):
    """The leader of the quorum in an epoch; -1 while it is not known."""

    leader_id: int = -1
    epoch: int = 0


class MetadataLog:
    """The copy in one directory. One thread owns it. Raises OSError and LogDirFailure when the disk fails."""

    def __init__(self, parent: str, config: LogConfig, clock: Clock) -> None:
        self._clock = clock
        self.directory = os.path.join(parent, DIRECTORY_NAME)
        if os.path.isdir(self.directory):
            self._log = load_log(self.directory, TOPIC, 0, config, clock, is_clean=False)[0]
        else:
            self._log = Log.create(self.directory, TOPIC, 0, config, clock.wall_ms(), topic_id=TOPIC_ID)
            create_partition_metadata(self.directory, TOPIC_ID)
        self._is_closed = False
        self.snapshot = self._latest_snapshot()
        """The snapshot that the log goes on from; None for one that begins at 0."""
        if self.snapshot is not None and self.snapshot.end_offset > self._log.log_end_offset:
            # The snapshot was installed, and a crash came before the log began again behind it.
            self._log.truncate_fully_and_start_at(self.snapshot.end_offset, clock.wall_ms())
        elif self.snapshot is None and self._log.log_start_offset > 0:
            logger.warning("%s has no snapshot for what came before its log: it is copied again", self.directory)
            self._log.truncate_fully_and_start_at(0, clock.wall_ms())

    def _latest_snapshot(self) -> SnapshotId | None:
        found = [
            SnapshotId(int(match[1]), int(match[2])) for match in map(_SNAPSHOT_NAME.fullmatch, self._files()) if match
        ]
        return max(found, default=None)

    def _files(self) -> list[str]:
        return os.listdir(self.directory)

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, in the log or in the snapshot before it; 0 where there is none."""
        epoch = self._log.leader_epochs.latest_epoch
        if epoch < 0:
            epoch = self.snapshot.epoch if self.snapshot is not None else 0
        return epoch

    @property
    def size_bytes(self) -> int:
        return self._log.size_bytes

    def end_offset_for(self, epoch: int) -> EpochEndOffset:
        """Where the largest epoch that is at most `epoch` ends here; the snapshot's end for epochs before the log."""
        if epoch >= self.last_epoch:
            return EpochEndOffset(self.last_epoch, self.end_offset)
        if self.snapshot is not None and epoch <= self.snapshot.epoch:
            return EpochEndOffset(self.snapshot.epoch, self.snapshot.end_offset)
        return self._log.end_offset_for_epoch(epoch)

    def append(self, records: Buffer) -> int:
        """Append whole batches from the leader; returns the end of the log. Raises MetadataRecordError."""
        try:
            self._log.append_as_follower(bytes(records), self._clock.wall_ms())
        except ApiError as error:
            raise MetadataRecordError(f"the leader of the quorum sent batches that are not sound: {error}") from error
        self._log.write_staged()
        self._log.leader_epochs.flush()
        return self.end_offset

    def truncate(self, offset: int) -> None:
        """Remove what the log has from `offset` on; a snapshot stays whole, as what is in it was committed."""
        floor = 0 if self.snapshot is None else self.snapshot.end_offset
        self._log.truncate_to(max(offset, floor), self._clock.wall_ms())
        self._log.leader_epochs.flush()

    def batches(self, start_offset: int, end_offset: int) -> Iterator[Batch]:
        """The batches from `start_offset` on that end at or before `end_offset`."""
        position = max(start_offset, self._log.log_start_offset)
        end_offset = min(end_offset, self.end_offset)
        while position < end_offset:
            read = self._log.read(position, _READ_BYTES, end_offset, True)
            if read.slice is None:
                return
            for batch in decode_batches(read.slice.read()):
                if batch.last_offset >= end_offset:
                    return
                if batch.last_offset >= position:
                    position = batch.last_offset + 1
                    yield batch

    def snapshot_batches(self) -> Iterator[Batch]:
        """The batches of the snapshot. Raises MetadataRecordError if it is damaged."""
        assert self.snapshot is not None, "the caller has looked"
        path = os.path.join(self.directory, self.snapshot.file_name)
        with open(path, "rb") as file:
            data = file.read()
        return decode_snapshot(data, path)

    def install_snapshot(self, snapshot: SnapshotId, data: bytes) -> None:
        """The log begins again behind a snapshot; older ones go."""
        write_atomically(os.path.join(self.directory, snapshot.file_name), data)
        self._log.truncate_fully_and_start_at(snapshot.end_offset, self._clock.wall_ms())
        self.snapshot = snapshot
        for name in self._files():
            match = _SNAPSHOT_NAME.fullmatch(name)
            if match and (int(match[1]), int(match[2])) < snapshot:
                unlink_if_exists(os.path.join(self.directory, name))
        sync_path(self.directory)

    @property
    def start_offset(self) -> int:
        """Where the log begins: at 0, or behind the snapshot."""
        return self._log.log_start_offset

    def begin_again(self) -> None:
        """Drop all that is here: the leader sends its latest snapshot to whoever has nothing."""
        if self.snapshot is not None:
            unlink_if_exists(os.path.join(self.directory, self.snapshot.file_name))
            self.snapshot = None
        self._log.truncate_fully_and_start_at(0, self._clock.wall_ms())

    # --- the leader that was followed ---

    def read_leadership(self) -> Leadership:
        """Which leader was last followed. A file that cannot be read is one that is not there."""
        try:
            with open(os.path.join(self.directory, _QUORUM_STATE), "rb") as file:
                fields = json.loads(file.read())
            return Leadership(int(fields["leaderId"]), int(fields["leaderEpoch"]))
        except FileNotFoundError:
            return Leadership()
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s cannot be read and is written anew: %s", _QUORUM_STATE, error)
            return Leadership()

    def write_leadership(self, leadership: Leadership) -> None:
        """Note which leader is followed, as Kafka's observers do."""
        fields = {
            "leaderId": leadership.leader_id,
            "leaderEpoch": leadership.epoch,
            "votedId": -1,
            "votedDirectoryId": _NO_DIRECTORY_ID,
            "data_version": 1,
        }
        data = json.dumps(fields, separators=(",", ":")).encode()
        write_atomically(os.path.join(self.directory, _QUORUM_STATE), data, is_synced=False)

    def close(self) -> None:
        """Sync what is there and close the files. Closing twice does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._log.flush()
            self._log.close()


def decode_snapshot(data: bytes, path: str) -> Iterator[Batch]:
    """The batches of a whole snapshot; `path` is for the message of the MetadataRecordError."""
    end = 0
    try:
        view = memoryview(data)
        while end < len(data):
            size = int.from_bytes(data[end + 8 : end + 12], "big") + 12
            if size < 61 or end + size > len(data) or not is_intact(view[end : end + size]):
                raise MetadataRecordError(f"the snapshot {path} is damaged at byte {end}")
            yield from decode_batches(data[end : end + size])
            end += size
    except CorruptRecordError as error:
        raise MetadataRecordError(f"the snapshot {path} is damaged: {error}") from error
