"""A replica on its way to another log directory of its broker: a copy is filled from the log until it is as long.

The log goes on serving meanwhile, as leader or follower; it may grow, be truncated, or begin later. The copy follows:

    the log was truncated            cut the copy where its leader epochs leave those of the log
    the log begins after the copy    begin the copy again at the log's start
    the log is longer                read a piece of it, append it to the copy
    both end at the same offset      the copy is complete, and may take the log's place

Nothing waits here, and no thread is used: the owner reads the pieces, syncs the copy and renames the directories.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.replication.partition import Partition, append_copied
from tidelog.storage.log import Log
from tidelog.storage.types import FileSlice, StartOffsetReason
from tidelog.wire.partitions import NO_EPOCH

_NEVER_ALIGNED: Final = -1
_NOT_CLEAN: Final = -1


class Piece(NamedTuple):
    """Bytes of the log that come next in the copy."""

    slice: FileSlice
    offset: int
    generation: int


class FutureReplica:
    """One copy. The log must not be compacted as long as it is made."""

    __slots__ = ("_clean_point", "_generation", "copy", "is_synced", "partition")

    def __init__(self, partition: Partition, copy: Log, *, is_resumed: bool) -> None:
        """`is_resumed`: the copy was begun before the broker started, and the log may have changed since."""
        positions = partition.log.positions
        self.partition = partition
        self.copy = copy
        self.is_synced = False
        """Whether the copy was synced when it had caught up for the first time."""
        self._generation = _NEVER_ALIGNED if is_resumed else positions.generation
        # What was cleaned after it had been copied is not clean in the copy.
        self._clean_point = _NOT_CLEAN if is_resumed else positions.clean_point
        partition.log.is_being_copied = True

    def end(self) -> None:
        """The copy is not made any more: the log may be cleaned again."""
        self.partition.log.is_being_copied = False

    def align(self, now_ms: int) -> None:
        """Cut the copy to what it has in common with the log. Raises LogDirFailure."""
        log, copy = self.partition.log, self.copy
        if self._generation != log.positions.generation:
            self._generation = log.positions.generation
            copy.truncate_to(min(common_end(log, copy), log.log_end_offset), now_ms)
        if copy.log_end_offset < log.log_start_offset or copy.log_start_offset > log.log_end_offset:
            copy.truncate_fully_and_start_at(log.log_start_offset, now_ms)

    @property
    def is_caught_up(self) -> bool:
        """Whether the copy has all of the log. What is staged has not been copied."""
        return self.copy.log_end_offset == self.partition.log.log_end_offset

    @property
    def is_as_durable(self) -> bool:
        """Whether no record that counts as durable would count as less in the copy."""
        return self.copy.durable_end_offset >= self.partition.log.durable_end_offset

    def next_piece(self, bytes_max: int) -> Piece | None:
        """What comes next, one batch at least; None if nothing more is written. Raises LogDirFailure."""
        log, offset = self.partition.log, self.copy.log_end_offset
        if offset >= log.written_end_offset:
            return None
        found = log.read(offset, bytes_max, log.written_end_offset, True).slice
        return None if found is None else Piece(found, offset, log.positions.generation)

    def append(self, piece: Piece, records: bytes, now_ms: int) -> bool:
        """Append a piece that was read; False if the log or the copy have changed since. Raises LogDirFailure."""
        log, copy = self.partition.log, self.copy
        if piece.generation != log.positions.generation or piece.offset != copy.log_end_offset:
            return False
        append_copied(copy, records, now_ms)
        copy.update_high_watermark(log.high_watermark)
        if copy.log_start_offset < log.log_start_offset <= copy.high_watermark:
            copy.maybe_increment_log_start_offset(log.log_start_offset, StartOffsetReason.LEADER_INCREMENT)
        return True

    def hand_over(self) -> None:
        """The copy is complete: give it what the log has beside its batches."""
        self.copy.take_over_state(self.partition.log, clean_point=self._clean_point)


def common_end(log: Log, copy: Log) -> int:
    """Where a copy leaves its log, by their leader epochs; where it begins, if it has none in common."""
    starts = dict(log.leader_epochs.entries())
    end_offset = copy.log_end_offset
    for epoch, start_offset in reversed(copy.leader_epochs.entries()):
        if epoch in starts:
            _, log_end_offset = log.end_offset_for_epoch(epoch)
            return min(end_offset, log_end_offset)
        end_offset = start_offset
    if copy.leader_epochs.latest_epoch == NO_EPOCH and copy.log_end_offset == copy.log_start_offset:
        return end_offset
    return copy.log_start_offset
