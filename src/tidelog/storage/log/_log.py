"""The log of one partition: its segments, and everything that is appended to and read from them.

Appends are staged. `append_as_leader` checks a batch, assigns its offsets and updates all state, but only keeps a view
of the bytes; `write_staged` writes all staged batches to the active segment with one system call. The broker calls it
once in each turn of its loop, before it responds, so that many small appends share one write.

When a write fails the log cannot be used any more: this call and all later ones raise `LogDirFailure`, and the whole
directory goes offline. Batches staged at that moment do not count as written.

One thread owns a log. Only a `FlushJob` may run on another one.
"""

import logging
import os
from collections.abc import Callable, Iterator
from functools import partial

from tidelog.config import LogConfig
from tidelog.records.header import BatchHeader
from tidelog.records.validation import AppendRules, PreparedRecords
from tidelog.storage import names
from tidelog.storage.errors import LogDirFailure, OutOfDescriptorsError
from tidelog.storage.leader_epochs import LeaderEpochCache
from tidelog.storage.log._append_checks import prepare_append
from tidelog.storage.log._appender import Announcement, Appender
from tidelog.storage.log._flushing import FlushJob, FlushState
from tidelog.storage.log._lookup import Lookup
from tidelog.storage.log._positions import Positions
from tidelog.storage.log._retention import IsDue, count_due, retention_rules
from tidelog.storage.log._segments import OnFilesDeleted, Segments
from tidelog.storage.log._staging import Staging
from tidelog.storage.producers.replay import rebuild_producer_state
from tidelog.storage.producers.state import DAY_MS, ProducerStateManager
from tidelog.storage.producers.verification import VerificationGuard
from tidelog.storage.replacing import Replacements
from tidelog.storage.segment import Segment, segment_ms
from tidelog.storage.segment.transaction_index import AbortedTransaction
from tidelog.storage.types import (
    NO_TIMESTAMP,
    AppendOrigin,
    DeletionReason,
    EpochEndOffset,
    LogAppendInfo,
    LogRead,
    StartOffsetReason,
    TimestampOffset,
)
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.partitions import NO_EPOCH

logger = logging.getLogger(__name__)


class Log:
    """One partition's log on disk.

    Callers may read the parts `positions`, `flush_state`, `segments`, `producer_state` and `leader_epochs`; each
    documents what else is allowed. Operations on several parts are methods of the log.
    """

    __slots__ = (
        "_appender",
        "_is_deleted",
        "_lookup",
        "_staging",
        "append_as_leader",
        "append_own",
        "config",
        "directory",
        "flush_state",
        "is_being_cleaned",
        "is_being_copied",
        "leader_epochs",
        "parent_directory",
        "partition",
        "positions",
        "producer_state",
        "read",
        "retained_from",
        "segments",
        "settled_before",
        "topic",
        "topic_id",
        "write_staged",
    )

    def __init__(
        self,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        segments: list[Segment],
        log_start_offset: int,
        recovery_point: int,
        next_offset: int,
        producer_state: ProducerStateManager,
        leader_epochs: LeaderEpochCache,
        topic_id: bytes | None = None,
        on_files_deleted: OnFilesDeleted | None = None,
        is_new: bool = False,
        now_ms: int = 0,
    ) -> None:
        """Make a log from its parts: `segments` ascending and at least one, `next_offset` the end of the last one."""
        self.directory = directory
        self.parent_directory = parent = os.path.dirname(directory)
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.producer_state = producer_state
        self.leader_epochs = leader_epochs
        self.segments = Segments(segments, producer_state, config.file_delete_delay_ms, on_files_deleted)
        log_start_offset = max(log_start_offset, segments[0].base_offset)
        self.positions = Positions(log_start_offset, next_offset, producer_state)
        self.is_being_cleaned = False
        """Set by the cleaner while it has a job on this log: segments must not be deleted meanwhile."""
        self.is_being_copied = False
        """Set while a copy in another log directory is made: the log must not be cleaned meanwhile."""
        self.retained_from: int | None = None
        """Segments with this offset or later ones are not deleted, whatever their retention; None without a limit."""
        self.settled_before: int | None = None
        """Batches about delayed records are not needed below this offset, and the rest is not cleaned; None if there
        are none."""
        self._is_deleted = False
        self.flush_state = FlushState(
            max(recovery_point, log_start_offset),
            next_offset,
            config.flush_messages,
            now_ms,
            [directory, parent] if is_new else [],
        )
        self._staging = Staging(parent, self.segments, self.positions, self.flush_state)
        self._lookup = Lookup(self.name, self.segments, self.positions, self._staging)
        self._appender = Appender(
            self.name,
            config,
            segments=self.segments,
            positions=self.positions,
            staging=self._staging,
            flush_state=self.flush_state,
            lookup=self._lookup,
            producer_state=producer_state,
            leader_epochs=leader_epochs,
        )
        # Bound here instead of a method each: these are called for every batch, every turn and every fetch.
        self.append_as_leader = self._appender.append_as_leader
        self.append_own = self._appender.append_own
        self.write_staged = self._staging.write
        self.read = self._lookup.read
        self._configure_active_segment()

    @classmethod
    def create(
        cls,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        now_ms: int,
        *,
        producer_expiration_ms: int = DAY_MS,
        topic_id: bytes | None = None,
        on_files_deleted: OnFilesDeleted | None = None,
        start_offset: int = 0,
    ) -> "Log":
        """Make the directory and the files of a new, empty log. Nothing stays open until the first append.

        FileExistsError when there is such a directory, as it may hold records.
        """
        try:
            os.mkdir(directory, 0o755)
            segment = Segment.create(directory, start_offset, config, now_ms)
        except FileExistsError:
            raise
        except OutOfDescriptorsError:
            from shutil import rmtree  # ten milliseconds of imports that a start-up does not need

            # A directory that is left behind would make the next attempt fail.
            rmtree(directory, ignore_errors=True)
            raise
        except OSError as error:
            raise LogDirFailure(os.path.dirname(directory), error) from error
        producer_state = ProducerStateManager(
            names.partition_directory(topic, partition), directory, expiration_ms=producer_expiration_ms, snapshots=[]
        )
        return cls(
            directory,
            topic,
            partition,
            config,
            segments=[segment],
            log_start_offset=start_offset,
            recovery_point=start_offset,
            next_offset=start_offset,
            producer_state=producer_state,
            leader_epochs=LeaderEpochCache(directory),
            topic_id=topic_id,
            on_files_deleted=on_files_deleted,
            is_new=True,
            now_ms=now_ms,
        )

    def __repr__(self) -> str:
        return (
            f"Log({self.name}, log_start_offset={self.log_start_offset}, high_watermark={self.high_watermark}, "
            f"log_end_offset={self.log_end_offset}, directory={self.directory!r})"
        )

    @property
    def name(self) -> str:
        """`topic-partition`."""
        return names.partition_directory(self.topic, self.partition)

    @property
    def rules(self) -> AppendRules:
        """The rules of the configuration for records, for `prepare_append`."""
        return self._appender.limits.rules

    # --- in ---

    prepare_append = staticmethod(prepare_append)

    def append_prepared(
        self,
        prepared: PreparedRecords,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """The second half of an append: assign offsets and check the producer against the current log."""
        return self._appender.append_prepared(prepared, leader_epoch, now_ms, origin, guard)

    def append_announced(
        self, prepared: PreparedRecords, announcement: Announcement, leader_epoch: int, now_ms: int
    ) -> LogAppendInfo:
        """Append a batch of this broker behind the control batches that announce it."""
        return self._appender.append_announced(prepared, announcement, leader_epoch, now_ms, AppendOrigin.COORDINATOR)

    def append_changes(self, changes: Announcement, leader_epoch: int, now_ms: int) -> int:
        """Append control batches that announce nothing; returns the log end offset after them."""
        return self._appender.append_changes(changes, leader_epoch, now_ms)

    def append_as_follower(self, records: bytes | bytearray | memoryview, now_ms: int) -> LogAppendInfo:
        """Stage batches fetched from the leader, offsets and epochs as they are; an incomplete last batch is left out.

        Nothing is appended unless all whole batches are sound. Raises AppendOffsetError when their offsets do not
        continue the log, and ApiError for corrupt bytes. The leader epochs in the batches are assigned.
        """
        return self._appender.append_as_follower(records, now_ms)

    @property
    def has_changes(self) -> bool:
        """Whether control batches about delayed records were appended since the log was opened, or since
        `forget_changes`."""
        return self._appender.has_changes

    def forget_changes(self) -> None:
        """No control batch about delayed records is needed any more, up to the end of the log."""
        self._appender.has_changes = False

    @property
    def has_staged(self) -> bool:
        """Whether there are staged batches that have not been written."""
        return bool(self._staging.buffers)

    def fail(self, cause: OSError) -> LogDirFailure:
        """An I/O error: drop staged batches and reject all later calls. Returns the exception to raise."""
        return self._staging.fail(cause)

    # --- out ---

    def bytes_between(self, offset: int, end_offset: int) -> int | None:
        """The bytes from the batch that holds `offset` up to `end_offset`; None where they span more than one segment.

        A read ends with its segment, so a reader of an older segment never gets more by waiting. Raises LogDirFailure.
        """
        return self._lookup.bytes_between(offset, end_offset)

    def batches(self, offset: int, end_offset: int) -> Iterator[tuple[Segment, int, BatchHeader]]:
        """Segment, position and header of the written batches from the one with `offset` on, below `end_offset`.

        It ends with the next change of the log. Raises OSError.
        """
        return self._lookup.batches(offset, end_offset)

    def end_of_batch(self, base_offset: int) -> tuple[Segment, int] | None:
        """The segment of the batch that begins at `base_offset` and the position after it, also before the log start
        offset; None where the log has no such batch. Raises OSError."""
        return self._lookup.end_of_batch(base_offset)

    def read_end_offset(self, result: LogRead) -> int:
        """An offset at or after the end of a read, as close to it as the index can find."""
        return self._lookup.end_offset_of(result)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in [start_offset, end_offset)."""
        return self._lookup.aborted_transactions(start_offset, end_offset)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record that is not older than `timestamp`, in the first segment that has one.

        A segment of which compaction has left nothing, or only batches without records, is as young as its file.
        """
        self.write_staged()
        return self._lookup.offset_for_timestamp(timestamp)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The record with the largest timestamp (KIP-734); None when the log has none."""
        self.write_staged()
        return self._lookup.max_timestamp_offset()

    def offsets_before(self, timestamp: int, max_offsets: int, now_ms: int) -> list[int]:
        """For ListOffsets version 0: where segments begin that were not modified after `timestamp`, newest first."""
        return self._lookup.offsets_before(timestamp, max_offsets, now_ms)

    def earliest(self) -> TimestampOffset:
        """The log start offset and, where known, its epoch: the first one, if it began there or before."""
        start_offset = self.positions.log_start_offset
        first = self.leader_epochs.earliest()
        epoch = first.epoch if first is not None and first.start_offset <= start_offset else NO_EPOCH
        return TimestampOffset(NO_TIMESTAMP, start_offset, epoch)

    def latest(self) -> TimestampOffset:
        """The log end offset and the latest epoch."""
        return TimestampOffset(NO_TIMESTAMP, self.positions.log_end_offset, self.leader_epochs.latest_epoch)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """The largest epoch known that is at most `leader_epoch`, and where it ends; (-1, -1) when unknown."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.positions.log_end_offset)

    # --- offsets ---

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self.positions.log_start_offset

    @property
    def high_watermark(self) -> int:
        """The offset up to which every in-sync replica has the records."""
        return self.positions.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which a read-committed consumer may read."""
        return self.positions.last_stable_offset

    @property
    def written_end_offset(self) -> int:
        """The offset up to which batches are in the files."""
        return self.positions.written_end_offset

    @property
    def durable_end_offset(self) -> int:
        """The offset up to which batches are as durable as `flush.messages` requires."""
        return self.flush_state.durable_end_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.positions.log_end_offset

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, kept within the log; returns what it is now."""
        return self.positions.update_high_watermark(offset)

    def maybe_increment_log_start_offset(self, offset: int, reason: StartOffsetReason) -> bool:
        """Remove the records before `offset`; whether that moved the start.

        Segments that are wholly before it go with the next `delete_old_segments`. Raises ApiError OFFSET_OUT_OF_RANGE
        above the high watermark.
        """
        high_watermark = self.positions.high_watermark
        if offset > high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"cannot move the log start offset of {self.name} to {offset}, above the high watermark "
                f"{high_watermark}",
            )
        if not self.positions.move_start(offset):
            return False
        self.flush_state.on_log_start_offset(offset)
        self.leader_epochs.truncate_from_start(offset)
        self.producer_state.on_log_start_offset(offset)
        logger.info("log start offset of %s moved to %d: %s", self.name, offset, reason.value)
        return True

    # --- truncation ---

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Remove everything from `offset` on; whether there was anything.

        A follower truncates where its log diverges from the leader's. The log must not be being cleaned.
        """
        assert offset >= 0, f"truncation of {self.name} to the negative offset {offset}"
        self.write_staged()
        positions, segments = self.positions, self.segments
        if offset >= positions.log_end_offset:
            # This broker may have been leader for a moment and recorded its epoch without writing a batch.
            self.leader_epochs.truncate_from_end(positions.log_end_offset)
            return False
        if segments[0].base_offset > offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        start_offset = min(offset, positions.log_start_offset)
        try:
            segments.delete(segments.slot_of(offset) + 1, len(segments))
            segments.active.truncate_to(offset, now_ms)
            self.leader_epochs.truncate_from_end(offset)
            self.producer_state.map_end_offset = positions.log_end_offset
            rebuild_producer_state(self.producer_state, list(segments), start_offset, offset, now_ms)
        except OSError as error:
            raise self.fail(error) from error
        self._on_truncated(offset, start_offset)
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int, log_start_offset: int | None = None) -> None:
        """Remove everything; the log goes on at `offset`."""
        self.write_staged()
        try:
            self.segments.delete(0, len(self.segments))
            self.segments.add(Segment.create(self.directory, offset, self.config, now_ms))
            self.leader_epochs.clear()
            self.producer_state.truncate_fully_and_start_at(offset)
        except OSError as error:
            raise self.fail(error) from error
        self._on_truncated(offset, offset if log_start_offset is None else log_start_offset)
        self.update_high_watermark(offset)

    def _on_truncated(self, log_end_offset: int, log_start_offset: int) -> None:
        self._lookup.forget()
        self._staging.follow_active_segment()
        self.flush_state.on_truncated(log_end_offset, self.directory)
        self.positions.truncate(log_end_offset, log_start_offset)

    # --- segments ---

    @property
    def active_segment(self) -> Segment:
        """The segment that batches are appended to."""
        return self.segments.active

    @property
    def size_bytes(self) -> int:
        """The bytes of all segments, staged ones included."""
        return self.segments.size_bytes()

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Begin a new segment at the end of the log (or at `base_offset`, if larger); an empty one is kept."""
        return self._appender.roll(now_ms, base_offset)

    def on_rolled(self, callback: "Callable[[Log], object] | None") -> None:
        """Call `callback` when a segment has been rolled: time to flush, so that the recovery point can follow."""
        self._appender.on_rolled = None if callback is None else partial(callback, self)

    def on_converted(self, callback: "Callable[[Log, PreparedRecords], object] | None") -> None:
        """Call `callback` with a client's records that had to be converted, once they are appended."""
        self._appender.on_converted = None if callback is None else partial(callback, self)

    def on_epochs_changed(self, callback: "Callable[[Log], object] | None") -> None:
        """Call `callback` when a leader epoch has begun, or some were cut off: time to write the checkpoint."""
        self.leader_epochs.on_changed = None if callback is None else partial(callback, self)

    def delete_old_segments(self, now_ms: int) -> list[tuple[Segment, DeletionReason]]:
        """Delete segments past their retention; returns them with the reasons.

        When all of them are due, a new segment is begun first. Files are removed after `file.delete.delay.ms`.
        """
        self.write_staged()
        deleted = []
        try:
            for reason, is_due in retention_rules(self.segments, self.positions, self.config, now_ms):
                deleted += [(segment, reason) for segment in self._delete_due(is_due, now_ms)]
        except OSError as error:
            raise self.fail(error) from error
        return deleted

    def _delete_due(self, is_due: IsDue, now_ms: int) -> list[Segment]:
        segments = self.segments
        count = self._deletable(count_due(segments, self.positions, is_due))
        if count == 0:
            return []
        if count == len(segments):
            self.roll(now_ms)
        self.maybe_increment_log_start_offset(segments[count].base_offset, StartOffsetReason.SEGMENT_DELETION)
        return segments.delete(0, count)

    def _deletable(self, count: int) -> int:
        """How many of the first `count` segments lie before `retained_from`."""
        retained_from = self.retained_from
        if retained_from is not None:
            while count and self._base_after(count) > retained_from:
                count -= 1
        return count

    def _base_after(self, count: int) -> int:
        segments = self.segments
        return segments[count].base_offset if count < len(segments) else self.positions.log_end_offset

    def retention_offset(self, now_ms: int) -> int:
        """Where the log would begin if every segment past its retention were deleted, `retained_from` aside."""
        rules = retention_rules(self.segments, self.positions, self.config, now_ms)
        return self._base_after(max(count_due(self.segments, self.positions, is_due) for _, is_due in rules))

    # --- configuration ---

    def update_config(self, config: LogConfig) -> None:
        """Follow a changed configuration. Indexes keep their size until the next segment."""
        self.config = config
        self._appender.update_config(config)
        self.flush_state.update_messages_max(config.flush_messages)
        self.segments.file_delete_delay_ms = config.file_delete_delay_ms
        self._configure_active_segment()

    def _configure_active_segment(self) -> None:
        active = self.segments.active
        active.segment_ms = segment_ms(self.config)
        active.index_interval_bytes = self.config.index_interval_bytes
        active.update_roll_limits()

    # --- flushing ---

    @property
    def recovery_point(self) -> int:
        """The offset up to which batches are on disk."""
        return self.flush_state.recovery_point

    @property
    def unflushed_messages(self) -> int:
        """How many offsets are not known to be on disk."""
        return self.positions.log_end_offset - self.flush_state.recovery_point

    @property
    def is_flush_due(self) -> bool:
        """Whether `flush.messages` requires a flush before the last written batches may be acknowledged."""
        return self.flush_state.is_due

    def prepare_flush(self, up_to: int | None = None) -> FlushJob:
        """Write staged batches and return the files to sync for everything below `up_to` (or all) to be on disk.

        The job's `run` may be called on another thread; `complete_flush` then moves the recovery point.
        """
        self.write_staged()
        end_offset = self.positions.log_end_offset
        if up_to is not None:
            end_offset = min(up_to, end_offset)
        try:
            files, paths = self.flush_state.files_below(end_offset, self.segments, self.producer_state)
            paths += self.flush_state.take_unsynced()
            epochs = self.leader_epochs.changes()
        except OSError as error:
            raise self.fail(error) from error
        return FlushJob(self, end_offset, files, paths, epochs)

    def complete_flush(self, job: FlushJob, now_ms: int | None = None) -> bool:
        """A job has run: its batches are on disk, unless the log was truncated and refilled meanwhile.

        False if the directory was renamed meanwhile: files that are synced by name may not have been, and another flush
        is needed.
        """
        if job.directory != self.directory and not self._is_deleted:
            return False
        if job.generation == self.positions.generation:
            self.mark_flushed(job.up_to, now_ms)
        return True

    def mark_flushed(self, up_to: int, now_ms: int | None) -> None:
        """Everything below `up_to` is on disk."""
        self.flush_state.on_flushed(up_to, self.positions.written_end_offset, now_ms)

    def flush(self, up_to: int | None = None, now_ms: int | None = None) -> None:
        """Write and sync on this thread."""
        job = self.prepare_flush(up_to)
        job.run()
        self.complete_flush(job, now_ms)

    # --- copies in another log directory ---

    @property
    def is_future(self) -> bool:
        """Whether this is a copy that has not taken the place of the partition's log yet."""
        return self.directory.endswith(names.FUTURE_DIR_SUFFIX)

    def become_current(self) -> None:
        """Take the partition's name: this copy is complete. Raises LogDirFailure."""
        self.write_staged()
        try:
            self._rename(os.path.join(self.parent_directory, self.name))
        except OSError as error:
            raise self.fail(error) from error
        self.flush_state.add_unsynced(self.directory, self.parent_directory)

    def take_over_state(self, log: "Log", *, clean_point: int) -> None:
        """Take over what the batches do not tell: this copy has all of them, and `log` is not used any more.

        These are the high watermark and the start, an epoch without a batch, producers whose batches were deleted, and
        transactions that are being verified.
        """
        assert self.log_end_offset == log.log_end_offset, f"{self} is not a copy of {log}"
        self.update_config(log.config)
        self.producer_state.take_over(log.producer_state)
        self.update_high_watermark(log.high_watermark)
        self.maybe_increment_log_start_offset(log.log_start_offset, StartOffsetReason.LEADER_INCREMENT)
        for entry in log.leader_epochs.entries():
            if entry.epoch > self.leader_epochs.latest_epoch:
                self.leader_epochs.assign(*entry)
        self.positions.clean_point = clean_point

    # --- the end of a log ---

    @property
    def is_deleted(self) -> bool:
        """Whether the directory has been renamed and will be removed: it needs no more syncs."""
        return self._is_deleted

    def close(self, replacements: Replacements | None = None) -> None:
        """Close cleanly: write staged batches, snapshot the producers, trim and close the files.

        The caller flushes first if it is going to write the clean-shutdown marker. With `replacements` nothing is
        synced: the caller syncs the whole file system instead, and commits them.
        """
        self.write_staged()
        try:
            self.producer_state.map_end_offset = self.positions.log_end_offset
            self.producer_state.take_snapshot(sync=replacements is None)
            self.leader_epochs.flush(replacements)
            self.segments.active.close()
        except OSError as error:
            raise self.fail(error) from error
        self.release()

    def release(self) -> None:
        """Close the files without writing: the directory has failed, or is about to be deleted."""
        self.on_rolled(None)
        self.on_converted(None)
        self.on_epochs_changed(None)
        for segment in self.segments:
            segment.release()

    def rename_for_delete(self) -> str:
        """Rename the directory to `<topic>-<partition>.<id>-delete`, so that the partition's name is free.

        Returns the new path. Appends are not allowed afterwards. Running fetches can go on reading.
        """
        self.write_staged()
        name = names.delete_directory(self.topic, self.partition, os.urandom(16).hex())
        active = self.segments.active
        try:
            self._rename(os.path.join(self.parent_directory, name))
            self._is_deleted = True
            if active.size_bytes:
                # Tools report the zeros after the last entry as damage.
                active.offset_index.trim()
                active.time_index.trim()
        except OSError as error:
            raise self.fail(error) from error
        return self.directory

    def _rename(self, directory: str) -> None:
        os.rename(self.directory, directory)
        self.directory = directory
        self.producer_state.move_to(directory)
        self.leader_epochs.directory = directory
        for segment in self.segments:
            segment.move_to(directory)
