"""The log of one partition: its segments, and everything that is appended to and read from them.

Appends are staged. `append_as_leader` checks a batch, gives it its offsets and does all the bookkeeping, but only keeps
a view of the bytes; `write_staged` puts everything staged into the active segment with one system call. The broker
calls it once in each turn of its loop, before it answers, so that many small appends share one write. Whoever needs the
file itself (roll, flush, truncation) writes what is staged first, so staged bytes always belong to the active segment.

`log_start_offset` ≤ `high_watermark` ≤ `log_end_offset`, and `written_end_offset` ≤ `log_end_offset` always hold.

When the operating system refuses a write the log is of no more use: `LogDirFailure` is raised then and ever after, and
the whole directory goes offline. Nothing staged at that moment counts as written.

One thread owns a log. Only a `FlushJob` may be run elsewhere.

Methods that make up a subject of their own are functions of the modules imported as `_append`, `_read`, `_lookup`,
`_retention`, `_truncate`, `_flush` and `_lifecycle`, with the log as their first argument.
"""

import logging
import os
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from tidelog.config import LogConfig
from tidelog.records.checksum import crc32c
from tidelog.records.compression import Buffer
from tidelog.records.header import HEADER_BYTES, LENGTH_PREFIX_BYTES, BatchHeader
from tidelog.records.scanner import scan
from tidelog.records.validation import HEADERS_AT_ONCE_MAX, RECORDS_AT_ONCE_MAX, short_content
from tidelog.storage import _append, _flush, _lifecycle, _lookup, _read, _retention, _truncate, names
from tidelog.storage._lifecycle import OnFilesDeleted
from tidelog.storage._segments import SegmentList
from tidelog.storage.errors import LogDirFailure
from tidelog.storage.leader_epochs import LeaderEpochCache
from tidelog.storage.producers.state import ProducerEntry, ProducerStateManager
from tidelog.storage.producers.verification import VerificationGuard
from tidelog.storage.segment import Segment, segment_ms
from tidelog.storage.types import (
    AppendOrigin,
    EpochEndOffset,
    LogAppendInfo,
    StartOffsetReason,
)
from tidelog.wire.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

_HEADER: Final = Struct(">qiibIhiqqqhii")
_OFFSET_LENGTH_EPOCH: Final = Struct(">qii")
_unpack_header = _HEADER.unpack_from
_patch_batch = _OFFSET_LENGTH_EPOCH.pack_into
_new = tuple.__new__
_CODEC_MASK: Final = 0x07
_TRANSACTIONAL: Final = 0x10
_UNUSUAL_ATTRIBUTES: Final = ~(_CODEC_MASK | _TRANSACTIONAL)
"""All but the codec and the transactional bit: a client may not set them, or they mean work."""

_CLIENT: Final = AppendOrigin.CLIENT
_NO_TIMESTAMP: Final = -1
_NO_FAULT: Final = 0
_TIME_SPAN_MS_MAX: Final = 2**62
"""Added to the time of day, this still fits 64 bits; batches beyond it take the long way."""


class Log:
    """One partition's log on disk."""

    __slots__ = (
        "_batch_bytes_max",
        "_failure",
        "_fast_path",
        "_flush_messages",
        "_keeps_codec",
        "_needs_key",
        "_on_files_deleted",
        "_segment_bytes",
        "_staged",
        "_timestamp_after_max_ms",
        "_timestamp_before_max_ms",
        "_unsynced_paths",
        "_written_bytes",
        "active_segment",
        "clean_point",
        "config",
        "directory",
        "durable_end_offset",
        "generation",
        "high_watermark",
        "is_being_cleaned",
        "is_deleted",
        "is_flush_due",
        "known_positions",
        "last_flush_ms",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "on_rolled",
        "parent_directory",
        "partition",
        "producer_state",
        "recovery_point",
        "rules",
        "segments",
        "topic",
        "topic_id",
        "written_end_offset",
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
        """Put loaded parts together: `segments` ascending and at least one, `next_offset` where the last one ends."""
        self.directory = directory
        self.parent_directory = os.path.dirname(directory)
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.producer_state = producer_state
        self.leader_epochs = leader_epochs
        self.segments = SegmentList(segments)
        self.active_segment = segments[-1]
        self._written_bytes = self.active_segment.size_bytes
        self._staged: list[memoryview] = []
        self._unsynced_paths = [directory, self.parent_directory] if is_new else []
        self.known_positions: dict[int, int] = {}
        """Positions in the active segment at which reads have ended: there the next ones begin."""
        self.generation = 0
        """How often the log was truncated: what was flushed before may since have been replaced."""
        self._failure: LogDirFailure | None = None
        self._on_files_deleted = on_files_deleted
        self.on_rolled: Callable[[Log], object] | None = None
        """Called when a segment has been rolled: time to bring it to disk, so that the recovery point can follow."""
        self.log_end_offset = self.written_end_offset = self.durable_end_offset = next_offset
        self.log_start_offset = max(log_start_offset, segments[0].base_offset)
        self.high_watermark = self.log_start_offset
        self.recovery_point = max(recovery_point, self.log_start_offset)
        self.last_flush_ms = now_ms
        self.is_flush_due = False
        self.clean_point = -1
        """Below this compaction has left one record of each key; -1 when the log has never been compacted."""
        self.is_being_cleaned = False
        """The cleaner has a job on this log: its segments must not be deleted meanwhile."""
        self.is_deleted = False
        """Its directory bears another name and will be removed: nothing of it needs to be synced any more."""
        self.update_config(config)

    create = staticmethod(_lifecycle.create_log)

    def __repr__(self) -> str:
        return (
            f"Log({self.name}, log_start_offset={self.log_start_offset}, high_watermark={self.high_watermark}, "
            f"log_end_offset={self.log_end_offset}, directory={self.directory!r})"
        )

    # --- in ---

    def append_as_leader(
        self,
        records: bytearray | memoryview,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Check records, give them the next offsets and stage them. The buffer belongs to the log from now on.

        With a `guard`, a batch of a transaction is appended only if the transaction is open here or was verified.

        Raises ApiError for what the producer must be told (InvalidRecordError where single records are at fault) and
        LogDirFailure. What is usual takes the straight way through this function: one batch of magic 2 from a client,
        to be stored as it is. All else goes through `_append`. TooMuchWorkError is raised for a
        client's records that would hold the event loop: a worker thread runs `prepare_append` on them, and
        `append_prepared` takes the result.
        """
        if type(records) is not memoryview:
            records = memoryview(records)
        size = len(records)
        if size < HEADER_BYTES or origin is not _CLIENT or not self._fast_path:
            if origin is AppendOrigin.COORDINATOR:
                return _append.append_own(self, records, leader_epoch, now_ms, origin)
            return _append.append_checked(self, records, leader_epoch, now_ms, origin, guard)
        header = _unpack_header(records)
        base, length, _, magic, crc, attributes, delta, since, max_timestamp, producer_id, epoch, sequence, count = (
            header
        )
        if not (
            magic == 2
            and length == size - LENGTH_PREFIX_BYTES
            and size <= self._batch_bytes_max
            and base == 0
            and count == delta + 1 > 0
            and count <= RECORDS_AT_ONCE_MAX
            and not attributes & _UNUSUAL_ATTRIBUTES
            and (sequence >= 0 <= epoch if producer_id >= 0 else not attributes & _TRANSACTIONAL)
            and crc32c(records[21:]) == crc
        ):
            return _append.append_checked(self, records, leader_epoch, now_ms, origin, guard)
        content: Buffer | None = records
        start = HEADER_BYTES
        if attributes & _CODEC_MASK:
            content = short_content(attributes & _CODEC_MASK, records) if self._keeps_codec else None
            start = 0
        # The whole content is records without a fault, and the header tells their largest timestamp.
        if content is None or scan(
            content,
            start,
            0,
            count,
            since,
            now_ms - self._timestamp_before_max_ms,
            now_ms + self._timestamp_after_max_ms,
            self._needs_key,
            _NO_TIMESTAMP,
            HEADERS_AT_ONCE_MAX,
        ) != (len(content), count, max_timestamp, _NO_FAULT):
            return _append.append_checked(self, records, leader_epoch, now_ms, origin, guard)
        if producer_id >= 0:
            batch_header: BatchHeader = _new(BatchHeader, header)
            duplicate = _append.check_producer(self, batch_header, _CLIENT, guard)
            if duplicate is not None:
                return duplicate
        first_offset = self.log_end_offset
        last_offset = first_offset + delta
        segment = self.active_segment
        if (
            segment.size_bytes + size > self._segment_bytes
            or max_timestamp > segment.roll_timestamp
            or now_ms > segment.roll_clock_ms
            or last_offset > segment.max_offset
            or segment.is_index_full
        ):
            segment = self.roll_if_due(max_timestamp, last_offset, size, now_ms)
        _patch_batch(records, 0, first_offset, length, leader_epoch)
        if leader_epoch != self.leader_epochs.latest_epoch:
            self.leader_epochs.assign(leader_epoch, first_offset)
        try:
            segment.append(last_offset, max_timestamp, size, now_ms)
        except OSError as error:
            raise self.fail(error) from error
        self._staged.append(records)
        self.log_end_offset = last_offset + 1
        if producer_id >= 0:
            self.producer_state.update(batch_header, first_offset)
        return _new(
            LogAppendInfo,
            (first_offset, last_offset, max_timestamp, _NO_TIMESTAMP, self.log_start_offset, count, size, False),
        )

    prepare_append = staticmethod(_append.prepare_append)
    append_prepared = _append.append_prepared
    append_as_follower = _append.append_as_follower

    def write_staged(self) -> None:
        """Write everything staged to the active segment."""
        staged = self._staged
        if self._failure is not None:
            raise self._failure
        if not staged:
            return
        segment = self.active_segment
        try:
            segment.log_file.write(staged, self._written_bytes)
        except OSError as error:
            raise self.fail(error) from error
        self._staged = []
        self._written_bytes = segment.size_bytes
        self.written_end_offset = end_offset = self.log_end_offset
        if end_offset - self.recovery_point < self._flush_messages:
            self.durable_end_offset = end_offset
        else:
            self.is_flush_due = True

    def stage(self, batch: memoryview, next_offset: int) -> None:
        """Keep a batch that is accounted for until the next write."""
        self._staged.append(batch)
        self.log_end_offset = next_offset

    @property
    def has_staged(self) -> bool:
        """Whether something is staged that has not been written."""
        return bool(self._staged)

    def fail(self, cause: OSError) -> LogDirFailure:
        """The operating system refused: drop what is staged, refuse everything from now on. Returns what to raise."""
        self._staged = []
        self._fast_path = False
        self._failure = LogDirFailure(self.parent_directory, cause)
        return self._failure

    def check_usable(self) -> None:
        """Raise LogDirFailure if the directory has failed."""
        if self._failure is not None:
            raise self._failure

    # --- segments ---

    def roll_if_due(self, max_timestamp: int, last_offset: int, size_bytes: int, now_ms: int) -> Segment:
        """The segment that batches of `size_bytes` up to `last_offset` go to: the active one, or a new one."""
        segment = self.active_segment
        if segment.should_roll(max_timestamp, last_offset, size_bytes, self._segment_bytes, now_ms):
            return self.roll(now_ms)
        return segment

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Begin a new segment at the end of the log (or at `base_offset`, if larger); an empty one is kept."""
        self.write_staged()
        active = self.active_segment
        base = max(base_offset or 0, self.log_end_offset)
        if active.size_bytes == 0 and active.base_offset == base:
            return active
        try:
            active.become_inactive()
            self._unsynced_paths += active.index_paths()
            segment = Segment.create(self.directory, base, self.config, now_ms)
            self.producer_state.map_end_offset = base
            snapshot = self.producer_state.take_snapshot(sync=False)
        except OSError as error:
            raise self.fail(error) from error
        if snapshot is not None:
            self._unsynced_paths.append(snapshot)
        self._unsynced_paths.append(self.directory)
        self.add_segment(segment)
        if self.on_rolled is not None:
            self.on_rolled(self)
        return segment

    def add_segment(self, segment: Segment) -> None:
        """Make a new, empty segment the active one."""
        self.segments.add(segment)
        self._activate()

    def remove_segments(self, start: int, stop: int) -> list[Segment]:
        """Take segments out of the log, by their place in it; the last one left is active."""
        removed = self.segments.remove(start, stop)
        self._activate()
        return removed

    def _activate(self) -> None:
        segment = self.segments.active
        if segment is not self.active_segment:
            self.active_segment = segment
            self.known_positions.clear()
            self._written_bytes = segment.size_bytes

    def written_bytes(self, segment: Segment) -> int:
        """How much of a segment is in its file."""
        return self._written_bytes if segment is self.active_segment else segment.size_bytes

    def discard_files(self, paths: Sequence[str]) -> None:
        """Hand over files that bear `.deleted` now; without a taker they are deleted at once."""
        if self._on_files_deleted is not None:
            self._on_files_deleted(paths, self.config.file_delete_delay_ms)
        else:
            _retention.unlink_all(paths)

    @property
    def name(self) -> str:
        """`topic-partition`."""
        return names.partition_directory(self.topic, self.partition)

    @property
    def size_bytes(self) -> int:
        """The bytes of all segments, staged ones included."""
        return self.segments.size_bytes()

    # --- out ---

    read = _read.read
    bytes_between = _read.bytes_between
    read_end_offset = _read.read_end_offset
    aborted_transactions = _read.aborted_transactions
    offset_for_timestamp = _lookup.offset_for_timestamp
    max_timestamp_offset = _lookup.max_timestamp_offset
    earliest = _lookup.earliest
    latest = _lookup.latest
    offsets_before = _lookup.offsets_before

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """The largest epoch known that is at most `leader_epoch`, and where it ends; (-1, -1) when unknown."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def active_producers(self) -> list[ProducerEntry]:
        """The producers known, for DescribeProducers."""
        return self.producer_state.active_producers()

    # --- offsets ---

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, kept within the log; returns what it is now."""
        offset = max(self.log_start_offset, min(offset, self.log_end_offset))
        self.high_watermark = offset
        if self.producer_state.unreplicated:
            self.producer_state.on_high_watermark(offset)
        return offset

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or whose end is above the high watermark."""
        state = self.producer_state
        if not state.ongoing and not state.unreplicated:
            return None
        offset = state.first_unstable_offset()
        return None if offset is None else max(offset, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        """What a read-committed consumer may read up to."""
        state = self.producer_state
        if not state.ongoing and not state.unreplicated:
            return self.high_watermark
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def maybe_increment_log_start_offset(self, offset: int, reason: StartOffsetReason) -> bool:
        """Records before `offset` are gone from now on; whether that moved the start.

        Segments that are wholly before it go with the next `delete_old_segments`. Raises ApiError OFFSET_OUT_OF_RANGE
        above the high watermark.
        """
        if offset > self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"cannot move the log start offset of {self.name} to {offset}, "
                f"above the high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.recovery_point = max(self.recovery_point, offset)
        self.leader_epochs.truncate_from_start(offset)
        self.producer_state.on_log_start_offset(offset)
        logger.info("log start offset of %s moved to %d: %s", self.name, offset, reason.value)
        return True

    def set_end_offset(self, end_offset: int, start_offset: int) -> None:
        """The log was truncated and spans these offsets now."""
        self.generation += 1
        self.known_positions.clear()
        self._written_bytes = self.active_segment.size_bytes
        self._unsynced_paths.append(self.directory)
        self.log_end_offset = self.written_end_offset = end_offset
        self.log_start_offset = start_offset
        self.recovery_point = min(self.recovery_point, end_offset)
        self.clean_point = min(self.clean_point, end_offset)
        self.durable_end_offset = min(self.durable_end_offset, end_offset)
        self.update_high_watermark(min(self.high_watermark, end_offset))

    # --- keeping house ---

    def update_config(self, config: LogConfig) -> None:
        """Follow a changed configuration. Indexes keep their size until the next segment."""
        self.config = config
        self.rules = _append.rules_of(config)
        self._fast_path = self._failure is None and self.rules.stores_as_is
        self._batch_bytes_max = min(config.max_message_bytes, config.segment_bytes)
        self._segment_bytes = config.segment_bytes
        self._timestamp_before_max_ms = min(config.message_timestamp_before_max_ms, _TIME_SPAN_MS_MAX)
        self._timestamp_after_max_ms = min(config.message_timestamp_after_max_ms, _TIME_SPAN_MS_MAX)
        self._needs_key = self.rules.is_compacted
        self._keeps_codec = self.rules.codec is None
        self._flush_messages = config.flush_messages
        active = self.active_segment
        active.segment_ms = segment_ms(config)
        active.index_interval_bytes = config.index_interval_bytes
        active.update_roll_limits()

    delete_old_segments = _retention.delete_old_segments
    truncate_to = _truncate.truncate_to
    truncate_fully_and_start_at = _truncate.truncate_fully_and_start_at

    def remove_expired_producers(self, now_ms: int) -> int:
        """Forget producers idle for `producer.id.expiration.ms`; how many."""
        return self.producer_state.remove_expired(now_ms)

    @property
    def unflushed_messages(self) -> int:
        """How many offsets are not known to be on disk."""
        return self.log_end_offset - self.recovery_point

    prepare_flush = _flush.prepare_flush
    complete_flush = _flush.complete_flush

    def add_unsynced_path(self, path: str) -> None:
        """A file beside the log was written without a sync: the next flush covers it."""
        self._unsynced_paths.append(path)

    def take_unsynced_paths(self) -> list[str]:
        """What the next flush syncs by name: indexes and snapshots of rolled segments, directories of new files."""
        paths, self._unsynced_paths = self._unsynced_paths, []
        return paths

    def mark_flushed(self, up_to: int, now_ms: int | None) -> None:
        """Everything below `up_to` is on disk."""
        self.recovery_point = max(self.recovery_point, up_to)
        self.is_flush_due = self.written_end_offset - self.recovery_point >= self._flush_messages
        self.durable_end_offset = self.recovery_point if self.is_flush_due else self.written_end_offset
        if now_ms is not None:
            self.last_flush_ms = now_ms

    def flush(self, up_to: int | None = None, now_ms: int | None = None) -> None:
        """Write and sync here and now."""
        job = self.prepare_flush(up_to)
        job.run()
        self.complete_flush(job, now_ms)

    close = _lifecycle.close
    release = _lifecycle.release
    rename_for_delete = _lifecycle.rename_for_delete
