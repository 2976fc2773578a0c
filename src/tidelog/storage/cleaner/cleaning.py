"""One job of the cleaner, from the first byte read to the last file synced.

First the dirty part of the log is read and the last offset of each of its keys noted, up to as many keys as the map
holds. Then all segments up to there are read, clean and dirty ones alike, and written anew, group by group, without the
records whose key has a later offset.

Runs in the worker process. It knows no clock, no process and no log: files in, files out, events on the way.
"""

from collections.abc import Callable, Iterator
from typing import Final

from tidelog.records.kernels.compaction import Compactor
from tidelog.storage.cleaner._grouping import IndexSizes, group_segments
from tidelog.storage.cleaner._indexing import build_map, dirty_segments
from tidelog.storage.cleaner._rewriting import Rewriter
from tidelog.storage.cleaner._walk import Pace, log_path, size_of, with_ends
from tidelog.storage.cleaner._window import BatchWindow
from tidelog.storage.cleaner.jobs import CleanJob, GroupCleaned, JobDone, SourceSegment
from tidelog.storage.cleaner.transactions import AbortedTransactions
from tidelog.storage.names import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from tidelog.storage.segment.transaction_index import AbortedTransaction, read_transaction_index

_WINDOW_BYTES_MIN: Final = 4096


def clean(
    job: CleanJob, compactor: Compactor, pace: Pace, elapsed_ms: Callable[[], int], engine: str
) -> Iterator[GroupCleaned | JobDone]:
    """Do a job: each group when it is on disk, then how it went. CorruptRecordError where the log cannot be cleaned."""
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
    """What both passes read together, unless the map is full before."""
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
