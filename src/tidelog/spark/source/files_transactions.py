"""The part of a partition's files that read_committed may read: its end, and aborted transactions. For `files_plan`.

A broker keeps this in memory; on disk it is spread over three places. The newest producer snapshot says which
transactions were open at its offset, the transaction indexes which ones were aborted before it, and the headers of the
batches after it show the rest. Where a snapshot or an index is missing or damaged, headers are read from the beginning.
"""

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.records.batch import iterate_records
from tidelog.records.control import ControlType, control_type
from tidelog.records.header import BatchHeader
from tidelog.spark.source.files_layout import PartitionFiles, Segment
from tidelog.spark.source.files_scan import FileEnd, headers, opened
from tidelog.storage.errors import CorruptIndexError, CorruptSnapshotError
from tidelog.storage.names import SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX, offset_of, segment_path
from tidelog.storage.producers.snapshot import read_snapshot
from tidelog.storage.segment.transaction_index import AbortedTransaction, read_transaction_index

_FROM_THE_BEGINNING: Final = -1


class Stability(NamedTuple):
    """The ends of a partition, and the aborted transactions before them."""

    end_offset: int
    stable_offset: int
    """The first offset of the earliest transaction that is still open; the end where there is none."""
    aborted: tuple[AbortedTransaction, ...]

    def aborted_within(self, first_offset: int, end_offset: int) -> tuple[AbortedTransaction, ...]:
        """Those with records in a range of offsets."""
        return tuple(
            each for each in self.aborted if each.last_offset >= first_offset and each.first_offset < end_offset
        )


def read_stability(files: PartitionFiles) -> Stability:
    """Read it from snapshots, indexes and headers. Raises CorruptRecordError for damaged batches."""
    if not files.segments:
        return Stability(files.start_offset, files.start_offset, ())
    scan_from, still_open = _newest_snapshot(files)
    try:
        aborted = _indexed(files, scan_from)
    except CorruptIndexError:
        scan_from, still_open, aborted = _FROM_THE_BEGINNING, {}, []
    scan = _Scan(scan_from, still_open, aborted)
    for segment in _segments_from(files, scan_from):
        scan.pass_segment(segment)
    end_offset = max(scan.end_offset, files.start_offset)
    stable_offset = min((*scan.still_open.values(), end_offset))
    return Stability(end_offset, stable_offset, tuple(sorted(scan.aborted, key=lambda each: each.first_offset)))


class _Scan:
    """Follows the headers of a partition in order."""

    def __init__(self, scan_from: int, still_open: dict[int, int], aborted: list[AbortedTransaction]) -> None:
        self._scan_from = scan_from
        self.still_open = still_open
        self.aborted = aborted
        self.end_offset = 0

    def pass_segment(self, segment: Segment) -> None:
        self.end_offset = max(self.end_offset, segment.base_offset)
        with opened(segment.path) as descriptor:
            for position, header in headers(segment.path, 0, FileEnd(segment.size_bytes, segment.is_last)):
                self.end_offset = header.next_offset
                if header.is_transactional and header.next_offset > self._scan_from:
                    self._pass(header, descriptor, position)

    def _pass(self, header: BatchHeader, descriptor: int, position: int) -> None:
        if not header.is_control:
            self.still_open.setdefault(header.producer_id, header.base_offset)
            return
        first_offset = self.still_open.pop(header.producer_id, None)
        if first_offset is not None and _is_abort(os.pread(descriptor, header.size_bytes, position)):
            last_offset = header.last_offset
            self.aborted.append(AbortedTransaction(header.producer_id, first_offset, last_offset, last_offset))


def _is_abort(batch: bytes) -> bool:
    """Whether a marker aborts. One that compaction has emptied ends a transaction of which nothing is left to hide."""
    return any(control_type(record) is ControlType.ABORT for record in iterate_records(batch))


def _newest_snapshot(files: PartitionFiles) -> tuple[int, dict[int, int]]:
    """The offset of the newest snapshot that can be read, and the transactions open at it: producer → first offset."""
    for offset in sorted(_snapshot_offsets(files.directory), reverse=True):
        try:
            entries = read_snapshot(segment_path(files.directory, offset, SNAPSHOT_SUFFIX))
        except (CorruptSnapshotError, FileNotFoundError):
            continue
        still_open = {each.producer_id: each.transaction_first_offset for each in entries}
        return offset, {producer: first for producer, first in still_open.items() if first >= 0}
    return _FROM_THE_BEGINNING, {}


def _snapshot_offsets(directory: str) -> Iterator[int]:
    for name in os.listdir(directory):
        offset = offset_of(name)
        if offset is not None and name.endswith(SNAPSHOT_SUFFIX) and name.count(".") == 1:
            yield offset


def _indexed(files: PartitionFiles, before: int) -> list[AbortedTransaction]:
    """The aborted transactions that ended before an offset."""
    if before == _FROM_THE_BEGINNING:
        return []
    entries = (
        entry
        for segment in files.segments
        for entry in read_transaction_index(segment.beside(TRANSACTION_INDEX_SUFFIX))
    )
    return [entry for entry in entries if entry.last_offset < before]


def _segments_from(files: PartitionFiles, offset: int) -> tuple[Segment, ...]:
    """The segment that holds `offset` and those after it; always the last one, because it has the log end."""
    first = 0
    for index, segment in enumerate(files.segments):
        if segment.base_offset <= offset:
            first = index
    return files.segments[first:]
