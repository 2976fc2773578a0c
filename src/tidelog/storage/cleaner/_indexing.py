"""The first pass of a cleaning: the last offset of every key in the dirty part of the log."""

from tidelog.records.batch import record_data
from tidelog.records.builder import build_batch
from tidelog.records.header import MAGIC, MAGIC_POSITION, read_header
from tidelog.records.kernels.compaction import Compactor
from tidelog.records.legacy import iterate_legacy_records
from tidelog.storage.cleaner._walk import Pace, checked_header, log_path, walk, with_ends
from tidelog.storage.cleaner._window import BatchWindow
from tidelog.storage.cleaner.jobs import CleanJob, SourceSegment
from tidelog.storage.cleaner.transactions import AbortedTransactions, TransactionTracker


def build_map(
    job: CleanJob, compactor: Compactor, window: BatchWindow, aborted: AbortedTransactions, pace: Pace
) -> int:
    """Note the last offsets of keys until all are noted or the map is full; up to where the log can be cleaned."""
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
    """Puts the keys of batches into the map. Aborted records do not count: they never happened."""

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
            # The same records as one batch of today, so that there is one way into the map.
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
