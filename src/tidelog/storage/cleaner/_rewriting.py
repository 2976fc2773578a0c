"""The second pass of a cleaning: rewrites a group of segments as one, without the records that are no longer needed.

The compactor handles runs of plain batches. This module decides about whole batches: those of aborted transactions are
removed, markers are removed once they are no longer needed, and the last batch of a producer stays even without
records, because it has the producer's sequence and epoch. Offsets, order, codecs and epochs stay.
"""

import os
from typing import Final

from tidelog.records.batch import record_data
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec, compress
from tidelog.records.delayed import is_about_delayed
from tidelog.records.header import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    LEGACY_ATTRIBUTES_POSITION,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    BatchHeader,
    TimestampType,
    assemble_batch,
    read_header,
)
from tidelog.records.kernels.compaction import Compactor, Filtered, Rules, with_horizon
from tidelog.records.legacy import iterate_legacy_records
from tidelog.records.record import Record
from tidelog.storage.cleaner._reading import BatchWindow, Ended, Pace, log_path, walk
from tidelog.storage.cleaner._reading import checked_header as checked
from tidelog.storage.cleaner._writer import CleanedSegment
from tidelog.storage.cleaner.jobs import CleanJob, GroupCleaned
from tidelog.storage.cleaner.transactions import AbortedTransactions, TransactionTracker

_NS_PER_MS: Final = 1_000_000


class Rewriter:
    """Rewrites the groups of one job, in order: a transaction may span several groups."""

    def __init__(
        self, job: CleanJob, compactor: Compactor, window: BatchWindow, aborted: AbortedTransactions, pace: Pace
    ) -> None:
        self._job = job
        self._compactor = compactor
        self._window = window
        self._aborted = aborted
        self._pace = pace
        self._transactions = TransactionTracker()
        self._producers = {tail.producer_id: tail for tail in job.producers}
        offsets = sorted(tail.last_data_offset for tail in job.producers if tail.last_data_offset >= 0)
        self._rules = Rules(job.now_ms, job.delete_retention_ms, offsets)
        self._legacy_horizon_ns = _legacy_horizon_ns(job)
        self._may_drop_legacy_tombstones = False
        self._output: CleanedSegment
        self.records_read = self.records_kept = 0
        """Counts of batches that the compactor did not handle."""

    def rewrite(self, group: list[Ended]) -> GroupCleaned:
        """Write a group of segments; it is on disk when this returns."""
        job, base_offset = self._job, group[0].segment.base_offset
        output = CleanedSegment(job.directory, base_offset, job.segment_index_bytes, job.index_interval_bytes)
        self._output = output
        try:
            for segment, end_offset in group:
                # From the full range of the segment, because its part of the transaction index is rewritten as well.
                self._transactions.expect(self._aborted.overlapping(segment.base_offset, end_offset))
                path = log_path(job, segment)
                modified_ns = os.stat(path).st_mtime_ns
                self._may_drop_legacy_tombstones = modified_ns <= self._legacy_horizon_ns
                walk(path, segment.size_bytes, self._window, self, self._pace)
            inode = output.finish(self._transactions.take_still_indexed(), modified_ns)
        except BaseException:
            output.close()
            output.discard()
            raise
        bases = tuple(segment.base_offset for segment, _ in group)
        return GroupCleaned(bases, output.written_bytes, inode)

    # As the reader of a walk

    def run(self, buffer: bytearray, position: int, stop: int) -> int:
        return self._compactor.rewrite_run(buffer, position, stop, self._rules, self._output)

    def one(self, buffer: bytearray, position: int, size: int) -> None:
        if buffer[position + MAGIC_POSITION] < MAGIC:
            self._legacy(buffer, position, size)
            return
        header = checked(buffer, position, size)
        keep = self._kept_control if header.is_control else self._kept_data
        kept = keep(header, buffer, position)
        if kept is None and header.has_producer_id and self._is_last_of_producer(header):
            kept = _emptied(header)
        if kept is not None:
            self._output.append(kept, header.last_offset, read_header(kept).max_timestamp)

    def is_done(self) -> bool:
        return False

    def written_bytes(self) -> int:
        return self._output.cursor.position

    # Batches

    def _kept_data(self, header: BatchHeader, buffer: bytearray, position: int) -> bytes | memoryview | None:
        """The part of a data batch that stays; None when no record does."""
        if self._transactions.on_data(header) or not header.record_count:
            self.records_read += header.record_count
            return None
        filtered = self._compactor.filter_records(record_data(buffer, position, header), header, self._rules)
        if filtered is None:
            return memoryview(buffer)[position : position + header.size_bytes]
        return _rebuild(header, filtered) if filtered.record_count else None

    def _kept_control(self, header: BatchHeader, buffer: bytearray, position: int) -> bytes | memoryview | None:
        """A control batch up to its delete horizon, then None. The horizon is set when its transaction is empty.

        Those about delayed records are settled all at once, by a floor further on in the log.
        """
        if header.base_offset < self._job.settled_before and is_about_delayed(buffer, header, position):
            self.records_read += header.record_count
            return None
        is_needed = not self._transactions.on_control(header, buffer, position)
        self.records_read += header.record_count
        horizon_ms = header.delete_horizon_ms
        is_over = not is_needed and horizon_ms is not None and horizon_ms <= self._job.now_ms
        if is_over or not header.record_count:
            return None
        self.records_kept += header.record_count
        if is_needed or horizon_ms is not None:
            return memoryview(buffer)[position : position + header.size_bytes]
        horizon_ms = self._job.now_ms + self._job.delete_retention_ms
        return _rebuild(header, with_horizon(record_data(buffer, position, header), header, horizon_ms))

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether this batch has a producer's last sequence or last epoch."""
        tail = self._producers.get(header.producer_id)
        if tail is None:
            return False
        if tail.last_data_offset >= 0:
            return header.last_offset == tail.last_data_offset
        return header.is_control and header.producer_epoch == tail.producer_epoch

    def _legacy(self, buffer: bytearray, position: int, size: int) -> None:
        """A message of magic 0 or 1 is kept or removed; a wrapper that loses some becomes a batch of magic 2."""
        message = memoryview(buffer)[position : position + size]
        records = list(iterate_legacy_records(message))
        may_drop = self._may_drop_legacy_tombstones
        kept = [record for record in records if self._compactor.keeps(record, may_drop_tombstone=may_drop)]
        self.records_read += len(records)
        self.records_kept += len(kept)
        if kept:
            last_offset = records[-1].offset
            attributes = buffer[position + LEGACY_ATTRIBUTES_POSITION]
            batch = message if len(kept) == len(records) else _as_batch(kept, last_offset, attributes)
            self._output.append(batch, last_offset, max(record.timestamp for record in kept))


def _rebuild(header: BatchHeader, kept: Filtered) -> bytes:
    """The batch with the records that stay, compressed with its original codec."""
    codec = header.codec
    payload = compress(codec, kept.payload) if codec else kept.payload
    attributes = header.attributes | DELETE_HORIZON_BIT if kept.has_delete_horizon else header.attributes
    return _assemble(header, attributes, kept.base_timestamp, kept.max_timestamp, kept.record_count, payload)


def _emptied(header: BatchHeader) -> bytes:
    """The batch without its records; it still has the producer's last sequence or last epoch."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT)
    return _assemble(header, attributes, NO_TIMESTAMP, header.max_timestamp, 0, b"")


def _assemble(
    header: BatchHeader, attributes: int, base_timestamp: int, max_timestamp: int, count: int, payload: bytes
) -> bytes:
    """The header's base and last offset, leader epoch, producer and sequence stay the same."""
    changed = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=count
    )
    return assemble_batch(changed, payload)


def _as_batch(kept: list[Record], last_offset: int, attributes: int) -> bytes:
    is_log_append_time = bool(attributes & LOG_APPEND_TIME_BIT)
    return build_batch(
        kept,
        base_offset=kept[0].offset,
        last_offset=last_offset,
        codec=Codec(attributes & CODEC_MASK),
        timestamp_type=TimestampType.LOG_APPEND_TIME if is_log_append_time else TimestampType.CREATE_TIME,
        log_append_time=kept[0].timestamp if is_log_append_time else -1,
    )


def _legacy_horizon_ns(job: CleanJob) -> int:
    """Old formats have no delete horizon: their tombstones are removed by the age of the last clean segment."""
    clean = [segment for segment in job.segments if segment.base_offset < job.first_dirty_offset]
    if not clean:
        return 0
    return os.stat(log_path(job, clean[-1])).st_mtime_ns - job.delete_retention_ms * _NS_PER_MS
