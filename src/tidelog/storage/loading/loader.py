"""Opening a partition's log from its files, and recovering it after a crash.

After a clean shutdown the files are trusted: only names, sizes and the end of the last segment are read. After a crash
every segment from the recovery point on is read and checked; the first batch that is not whole ends the log, and the
rest is removed. A missing segment loses only its own records. Indexes that are missing or implausible are rebuilt
either way.

Each log that needed work gets one log line. `LogManager` is the only caller; several logs may be loaded at the same
time on different threads.
"""

import logging
import os
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from tidelog.config import LogConfig
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import BatchHeader
from tidelog.storage.checkpoints import CheckpointError
from tidelog.storage.errors import LogDirFailure
from tidelog.storage.leader_epochs import LeaderEpochCache
from tidelog.storage.loading._index_checks import index_problem
from tidelog.storage.loading._partition_files import PartitionFiles, list_partition
from tidelog.storage.loading._rebuilding import rebuild_segment
from tidelog.storage.log import Log, OnFilesDeleted
from tidelog.storage.partition_metadata import PartitionMetadataError, read_partition_metadata
from tidelog.storage.producers.replay import rebuild_producer_state, replay_segment
from tidelog.storage.producers.state import DAY_MS, ProducerStateManager
from tidelog.storage.segment import NEVER, Segment
from tidelog.storage.segment.batches import iterate_headers
from tidelog.storage.segment.transaction_index import AbortedTransaction
from tidelog.timing import Clock
from tidelog.wire.errors import ApiError

logger = logging.getLogger(__name__)


class Recovery(NamedTuple):
    """The work of recovering a log or, added up, many logs."""

    segments: int = 0
    batches: int = 0
    bytes_scanned: int = 0
    bytes_cut: int = 0
    segments_dropped: int = 0
    indexes_rebuilt: int = 0

    def plus(self, other: "Recovery") -> "Recovery":
        return Recovery(*map(sum, zip(self, other, strict=True)))


def load_log(
    directory: str,
    topic: str,
    partition: int,
    config: LogConfig,
    clock: Clock,
    *,
    is_clean: bool,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    clean_point: int = -1,
    producer_expiration_ms: int = DAY_MS,
    on_files_deleted: OnFilesDeleted | None = None,
) -> tuple[Log, Recovery]:
    """Open the log in `directory`; also returns the work of that. LogDirFailure for an error of the operating system.

    `is_clean` says that the clean-shutdown marker was present; the offsets are those of the checkpoint files.
    """
    loader = _LogLoader(
        directory, f"{topic}-{partition}", config, clock, is_clean, recovery_point, log_start_offset, clean_point
    )
    started_ms = clock.monotonic_ms()
    try:
        next_offset = loader.load(producer_expiration_ms)
        log = Log(
            directory,
            topic,
            partition,
            config,
            segments=loader.segments,
            log_start_offset=log_start_offset,
            recovery_point=loader.recovery_point,
            next_offset=next_offset,
            producer_state=loader.producers,
            leader_epochs=loader.epochs,
            topic_id=loader.topic_id,
            on_files_deleted=on_files_deleted,
            now_ms=loader.now_ms,
        )
    except OSError as error:
        raise LogDirFailure(os.path.dirname(directory), error) from error
    if log.unflushed_messages >= config.flush_messages:
        # A crash may have left batches in the page cache alone. From now on they count as durable.
        log.flush()
    log.positions.mark_clean(clean_point)
    if loader.has_delayed_records:
        # Which of its records still wait is known when its partition is here. Until then all of them may.
        log.retained_from = log.settled_before = 0
    loader.report(next_offset, clock.monotonic_ms() - started_ms)
    return log, loader.recovery


class _LogLoader:
    """The loading of one log, with its parts."""

    __slots__ = (
        "_clean_point",
        "_config",
        "_directory",
        "_files",
        "_is_clean",
        "_is_epoch_file_lost",
        "_log_start_offset",
        "_name",
        "_problems",
        "epochs",
        "now_ms",
        "producers",
        "recovery",
        "recovery_point",
        "segments",
        "topic_id",
    )

    _files: PartitionFiles
    epochs: LeaderEpochCache
    producers: ProducerStateManager
    segments: list[Segment]

    def __init__(
        self,
        directory: str,
        name: str,
        config: LogConfig,
        clock: Clock,
        is_clean: bool,
        recovery_point: int,
        log_start_offset: int,
        clean_point: int,
    ) -> None:
        self._directory = directory
        self._name = name
        self._config = config
        self._is_clean = is_clean
        self._is_epoch_file_lost = False
        self._log_start_offset = log_start_offset
        self._clean_point = clean_point
        self._problems: list[str] = []
        self.now_ms = clock.wall_ms()
        self.recovery_point = recovery_point
        self.recovery = Recovery()
        self.topic_id: bytes | None = None

    @property
    def has_delayed_records(self) -> bool:
        return self._files.has_delayed_records

    def load(self, producer_expiration_ms: int) -> int:
        """Load all parts; returns the offset after the last batch."""
        directory = self._directory
        files = self._files = list_partition(directory)
        files.remove_orphans(directory)
        self.segments = [
            Segment.open(directory, base_offset, self._config, self.now_ms, size_bytes=files.log_bytes[base_offset])
            for base_offset in sorted(files.log_bytes)
        ]
        for segment in self.segments:
            if segment.size_bytes == 0:
                self._empty_indexes(segment)
        self.producers = ProducerStateManager(
            self._name, directory, expiration_ms=producer_expiration_ms, snapshots=files.snapshots
        )
        self._load_topic_id()
        self._load_epochs()
        had_segments = bool(self.segments)
        next_offset = self._recover() if had_segments else -1
        if next_offset < self._log_start_offset:
            next_offset = self._start_with_an_empty_segment(next_offset)
            had_segments = False
        elif next_offset < self.recovery_point:
            self._problems.append(f"it had been flushed up to offset {self.recovery_point}")
        self.epochs.truncate_from_end(next_offset)
        self.epochs.truncate_from_start(max(self._log_start_offset, self.segments[0].base_offset))
        # Only a clean shutdown proves that everything was flushed. After a crash the recovery point stays: valid
        # batches may still be in the page cache alone.
        self.recovery_point = next_offset if self._is_clean and had_segments else min(self.recovery_point, next_offset)
        return next_offset

    def _empty_indexes(self, segment: Segment) -> None:
        """Empty the indexes of an empty segment, whatever their content."""
        segment.offset_index.reset()
        segment.time_index.reset()
        if segment.base_offset in self._files.transaction_indexes:
            segment.transaction_index.reset()

    def _load_topic_id(self) -> None:
        if self._files.has_metadata:
            try:
                self.topic_id = read_partition_metadata(self._directory)
            except PartitionMetadataError as error:
                # A crash may have lost the file of a new partition. The metadata has the id, too.
                logger.warning("%s: the topic id is unknown: %s", self._name, error)

    def _load_epochs(self) -> None:
        if not self._files.has_leader_epochs:
            self.epochs = LeaderEpochCache(self._directory)
            return
        try:
            self.epochs = LeaderEpochCache.load(self._directory)
        except CheckpointError as error:
            self._problems.append(f"{error}; leader epochs are taken from the batches")
            self.epochs = LeaderEpochCache(self._directory)
            self._is_epoch_file_lost = True

    # Recovery

    def _recover(self) -> int:
        """Read the segments that must be read, and the end of the last one; the offset after the last batch."""
        first_unflushed = len(self.segments)
        if not self._is_clean:
            bases = [segment.base_offset for segment in self.segments]
            first_unflushed = max(bisect_right(bases, self.recovery_point) - 1, 0)
        suspects = self._suspects(first_unflushed)
        suspects.update(range(0 if self._is_epoch_file_lost else first_unflushed, len(self.segments)))
        if not suspects:
            next_offset = self._find_end(self.segments[-1])
            if next_offset is not None:
                self._load_producers(next_offset)
                return next_offset
            suspects.add(len(self.segments) - 1)
            self._problems.append(f"segment {self.segments[-1].base_offset} does not end with a whole batch")
        self._read_from(min(suspects), suspects, first_unflushed)
        next_offset = self._find_end(self.segments[-1])
        assert next_offset is not None, f"{self._name}: the last segment has just been cut to whole batches"
        self.producers.map_end_offset = next_offset
        return next_offset

    def _suspects(self, end: int) -> set[int]:
        """The positions, among the first `end` segments, of those with implausible indexes."""
        suspects = set()
        for slot in range(end):
            segment = self.segments[slot]
            problem = index_problem(segment, self._files, _base_offset_at(self.segments, slot + 1))
            if problem is not None:
                self._problems.append(f"segment {segment.base_offset}: {problem}")
                suspects.add(slot)
        return suspects

    def _load_producers(self, next_offset: int) -> None:
        if self._is_clean and not self._files.snapshots:
            # Every clean shutdown leaves a snapshot if there are producers: these logs have none.
            self.producers.map_end_offset = next_offset
            return
        self.producers.remove_stray_snapshots({segment.base_offset for segment in self.segments})
        rebuild_producer_state(self.producers, self.segments, self._log_start_offset, next_offset, self.now_ms)

    def _read_from(self, first: int, suspects: set[int], first_unflushed: int) -> None:
        """Replay the segments from position `first` on, checking suspect ones batch by batch."""
        segments = self.segments
        start_offset = max(self._log_start_offset, segments[0].base_offset)
        rebuild_producer_state(self.producers, segments[:first], start_offset, segments[first].base_offset, self.now_ms)
        for slot in range(first, len(segments)):
            segment = segments[slot]
            if slot > first:
                self.producers.map_end_offset = segment.base_offset
                self.producers.take_snapshot(sync=False)
            if slot not in suspects and self._replay(segment):
                continue
            was_cut = self._rebuild(segment, _base_offset_at(segments, slot + 1))
            if was_cut and slot >= first_unflushed:
                # All later segments were written after the damaged batch.
                self._drop(slot + 1)
                return
            self._note_gap(slot)

    def _note_gap(self, slot: int) -> None:
        """Report offsets that are missing between the segment at `slot` and the next: a file was lost or cut short.

        The later segments are whole and stay, as in Kafka: dropping them would only lose more. Compaction leaves such
        gaps on purpose; the topic's policy may have changed since.
        """
        if slot + 1 == len(self.segments) or "compact" in self._config.cleanup_policy:
            return
        next_offset, next_base = self._find_end(self.segments[slot]), self.segments[slot + 1].base_offset
        if next_offset != next_base and next_base > self._clean_point:
            self._problems.append(f"offsets {next_offset} to {next_base - 1} are missing")

    def _replay(self, segment: Segment) -> bool:
        try:
            replay_segment(self.producers, segment, segment.base_offset, NEVER)
        except (ApiError, CorruptRecordError) as error:
            self._problems.append(str(error))
            return False
        return True

    def _rebuild(self, segment: Segment, end_offset: int) -> bool:
        """Check a segment, which ends before `end_offset`, and rebuild its indexes; whether bytes had to be cut off."""
        if segment.size_bytes == 0:
            return False

        def on_batch(header: BatchHeader, current: Callable[[], memoryview]) -> None:
            self._note_epoch(header)
            if header.producer_id >= 0:
                self._note_producer(segment, header, bytes(current()) if header.is_control else None)

        scan = rebuild_segment(segment, end_offset, self.now_ms, on_batch)
        read = Recovery(1, scan.batches, scan.bytes_kept + scan.bytes_cut, scan.bytes_cut, 0, 2)
        self.recovery = self.recovery.plus(read)
        if scan.reason is not None:
            self._problems.append(f"segment {segment.base_offset} cut at position {scan.bytes_kept}: {scan.reason}")
        return scan.bytes_cut > 0

    def _note_epoch(self, header: BatchHeader) -> None:
        if header.partition_leader_epoch > self.epochs.latest_epoch:
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)

    def _note_producer(self, segment: Segment, header: BatchHeader, marker: bytes | None) -> None:
        try:
            completed = self.producers.replay(header, marker)
        except CorruptRecordError as error:
            self._problems.append(f"marker at offset {header.base_offset} ignored: {error}")
            return
        if completed is None:
            return
        if completed.is_aborted:
            stable_offset = self.producers.last_stable_offset(completed)
            segment.transaction_index.append(
                AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable_offset)
            )
        self.producers.complete(completed)

    def _drop(self, first: int) -> None:
        """Remove the segments from place `first` on, with their producer snapshots."""
        for segment in self.segments[first:]:
            self.recovery = self.recovery._replace(
                bytes_cut=self.recovery.bytes_cut + segment.size_bytes,
                segments_dropped=self.recovery.segments_dropped + 1,
            )
            segment.delete()
            self.producers.remove_snapshot(segment.base_offset)
        del self.segments[first:]

    def _find_end(self, segment: Segment) -> int | None:
        """The offset after the last batch of `segment`, None when the file does not end with a whole one."""
        if segment.size_bytes == 0:
            return segment.base_offset
        _, position = segment.offset_index.lookup(segment.max_offset)
        next_offset, end = segment.base_offset, position
        try:
            for start, header in iterate_headers(segment.log_file, position, segment.size_bytes):
                next_offset, end = header.next_offset, start + header.size_bytes
        except ApiError:
            return None
        return next_offset if end == segment.size_bytes else None

    def _start_with_an_empty_segment(self, next_offset: int) -> int:
        """Begin with an empty segment: there is none, or all end before the log start offset."""
        start_offset = self._log_start_offset
        if self.segments:
            self._problems.append(f"the log ends at {next_offset}, before its start offset {start_offset}: all deleted")
            self._drop(0)
        self.epochs.clear()
        self.producers.truncate_fully_and_start_at(start_offset)
        self.segments.append(Segment.create(self._directory, start_offset, self._config, self.now_ms))
        return start_offset

    def report(self, next_offset: int, took_ms: int) -> None:
        """Log the recovery in one line, if there was any."""
        done = self.recovery
        if not self._problems and not done.batches:
            return
        logger.log(
            logging.WARNING if self._problems else logging.INFO,
            "recovered %s up to offset %d: %d segments with %d batches read (%d bytes), %d bytes cut off, "
            "%d segments dropped, %d indexes rebuilt, %d ms%s",
            self._name,
            next_offset,
            done.segments,
            done.batches,
            done.bytes_scanned,
            done.bytes_cut,
            done.segments_dropped,
            done.indexes_rebuilt,
            took_ms,
            "".join(f"; {problem}" for problem in self._problems),
        )


def _base_offset_at(segments: list[Segment], slot: int) -> int:
    """Where the segment at `slot` begins; `NEVER` after the last one."""
    return segments[slot].base_offset if slot < len(segments) else NEVER
