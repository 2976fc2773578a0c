"""One job of the cleaner, from the first byte read to the last file synced.

First the dirty part of the log is read and the last offset of each of its keys is put into a map, until the map is
full. Then all segments up to there are read, clean and dirty ones alike, and rewritten, group by group, without the
records whose key has a later offset. Segments are grouped so that they do not get smaller with every cleaning:
successive ones form a group while their files and indexes would fit into one segment and their offsets into the four
bytes of an index entry.

Runs in the worker process. It uses no clock, no process and no log: it reads files, writes files and yields events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from tidelog.records.batch import record_data
from tidelog.records.builder import build_batch
from tidelog.records.header import MAGIC, MAGIC_POSITION, read_header
from tidelog.records.kernels.compaction import Compactor
from tidelog.records.legacy import iterate_legacy_records
from tidelog.storage.cleaner._reading import BatchWindow, Pace, checked_header, log_path, size_of, walk, with_ends
from tidelog.storage.cleaner._rewriting import Rewriter
from tidelog.storage.cleaner.jobs import CleanJob, GroupCleaned, JobDone, SourceSegment
from tidelog.storage.cleaner.transactions import AbortedTransactions, TransactionTracker
from tidelog.storage.names import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from tidelog.storage.segment.transaction_index import AbortedTransaction, read_transaction_index

_RELATIVE_OFFSET_MAX: Final = 2**31 - 1
_WINDOW_BYTES_MIN: Final = 4096


def clean(
    job: CleanJob, compactor: Compactor, pace: Pace, elapsed_ms: Callable[[], int], engine: str
) -> Iterator[GroupCleaned | JobDone]:
    """Do a job: yields each group when it is on disk, then JobDone. CorruptRecordError if the log cannot be cleaned."""
    meter = _Meter(pace)
    # As in Kafka, one half of the buffer is for reading; writing has its own.
    window = BatchWindow(max(job.buffer_bytes // 2, _WINDOW_BYTES_MIN))
    aborted = AbortedTransactions(_read_transaction_indexes(job))
    end_offset = build_map(job, compactor, window, aborted, pace)
    index_ms = elapsed_ms()
    rewriter = Rewriter(job, compactor, window, aborted, meter.count)
    segments = [segment for segment in job.segments if segment.base_offset < end_offset]
    ended = {each.segment: each for each in with_ends(job.segments, job.end_offset)}
    for group in group_segments(
        segments, job.end_offset, job.segment_bytes, job.segment_index_bytes, lambda each: _index_sizes(job, each)
    ):
        yield rewriter.rewrite([ended[segment] for segment in group])
    counts = compactor.counts()
    yield JobDone(
        end_offset,
        meter.bytes_read,
        meter.bytes_written,
        counts.records_read + rewriter.records_read,
        counts.records_kept + rewriter.records_kept,
        counts.records_without_key,
        compactor.utilization(),
        index_ms,
        elapsed_ms(),
        engine,
    )


def bytes_to_read(job: CleanJob) -> int:
    """The bytes that both passes read together, unless the map gets full."""
    return sum(segment.size_bytes for segment in (*dirty_segments(job), *job.segments))


class _Meter:
    """Counts what the second pass reads and writes."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.bytes_read = 0
        self.bytes_written = 0

    def count(self, read_bytes: int, written_bytes: int) -> None:
        self.bytes_read += read_bytes
        self.bytes_written += written_bytes
        self._pace(read_bytes, written_bytes)


def _index_sizes(job: CleanJob, segment: SourceSegment) -> IndexSizes:
    return IndexSizes(
        size_of(log_path(job, segment, OFFSET_INDEX_SUFFIX)), size_of(log_path(job, segment, TIME_INDEX_SUFFIX))
    )


def _read_transaction_indexes(job: CleanJob) -> Iterator[AbortedTransaction]:
    for base_offset in (*(segment.base_offset for segment in job.segments), *job.later_bases):
        yield from read_transaction_index(segment_path(job.directory, base_offset, TRANSACTION_INDEX_SUFFIX))


def build_map(
    job: CleanJob, compactor: Compactor, window: BatchWindow, aborted: AbortedTransactions, pace: Pace
) -> int:
    """Put the last offsets of keys into the map until it is full; returns the offset up to which to clean."""
    compactor.latest_offset = job.first_dirty_offset - 1
    reader = _MapReader(compactor, job.first_dirty_offset)
    reader.transactions.expect(aborted.overlapping(job.first_dirty_offset, job.end_offset))
    for segment, end_offset in with_ends(dirty_segments(job), job.end_offset):
        walk(log_path(job, segment), segment.size_bytes, window, reader, pace)
        if compactor.is_full:
            break
        # Offsets that are missing at the end of a segment were compacted away, or never there.
        compactor.latest_offset = end_offset - 1
    return compactor.latest_offset + 1


def dirty_segments(job: CleanJob) -> tuple[SourceSegment, ...]:
    """The segment that holds the first dirty offset, and those after it."""
    if job.first_dirty_offset >= job.end_offset:
        return ()
    earlier = sum(segment.base_offset <= job.first_dirty_offset for segment in job.segments)
    return job.segments[max(earlier - 1, 0) :]


class _MapReader:
    """Puts the keys of batches into the map, except those of aborted transactions."""

    def __init__(self, compactor: Compactor, first_offset: int) -> None:
        self._compactor = compactor
        self._first_offset = first_offset
        self.transactions = TransactionTracker()

    def run(self, buffer: bytearray, position: int, stop: int) -> int:
        return self._compactor.index_run(buffer, position, stop, self._first_offset)

    def one(self, buffer: bytearray, position: int, size: int) -> None:
        if buffer[position + MAGIC_POSITION] < MAGIC:
            self._legacy(buffer, position, size)
            return
        header = checked_header(buffer, position, size)
        if header.is_control:
            self.transactions.on_control(header, buffer, position)
        elif not self.transactions.on_data(header) and header.last_offset >= self._first_offset:
            self._compactor.index_records(record_data(buffer, position, header), header, self._first_offset)
        self._reached(header.last_offset)

    def _legacy(self, buffer: bytearray, position: int, size: int) -> None:
        records = list(iterate_legacy_records(memoryview(buffer)[position : position + size]))
        if records:
            # The same records as one batch of magic 2, which is the only input of the map.
            batch = build_batch(records, base_offset=records[0].offset)
            header = read_header(batch)
            self._compactor.index_records(record_data(batch, 0, header), header, self._first_offset)
            self._reached(header.last_offset)

    def _reached(self, last_offset: int) -> None:
        if last_offset >= self._first_offset and not self._compactor.is_full:
            self._compactor.latest_offset = last_offset

    def is_done(self) -> bool:
        return self._compactor.is_full

    def written_bytes(self) -> int:
        return 0


class IndexSizes(NamedTuple):
    """The files beside a segment."""

    offset_bytes: int
    time_bytes: int


def group_segments(
    segments: Sequence[SourceSegment],
    end_offset: int,
    segment_bytes: int,
    segment_index_bytes: int,
    sizes_of: Callable[[SourceSegment], IndexSizes],
) -> list[list[SourceSegment]]:
    """`segments` in groups; the last of them ends before `end_offset`."""
    groups: list[list[SourceSegment]] = []
    log_bytes = offset_bytes = time_bytes = 0
    for slot, segment in enumerate(segments):
        following = segments[slot + 1].base_offset if slot + 1 < len(segments) else end_offset
        sizes = sizes_of(segment)
        fits = bool(groups) and (
            log_bytes + segment.size_bytes <= segment_bytes
            and offset_bytes + sizes.offset_bytes <= segment_index_bytes
            and time_bytes + sizes.time_bytes <= segment_index_bytes
            # An empty segment has no offsets; adding it to the group keeps empty segments from accumulating.
            and (segment.size_bytes == 0 or following - 1 - groups[-1][0].base_offset <= _RELATIVE_OFFSET_MAX)
        )
        if not fits:
            groups.append([])
            log_bytes = offset_bytes = time_bytes = 0
        groups[-1].append(segment)
        log_bytes += segment.size_bytes
        offset_bytes += sizes.offset_bytes
        time_bytes += sizes.time_bytes
    return groups
