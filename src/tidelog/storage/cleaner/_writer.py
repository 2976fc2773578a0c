"""The files of a cleaned segment while they are written: `.log.cleaned` and its indexes.

Called by `_rewriting` in the worker. When `finish` returns, all files are on disk with the suffix `.cleaned`; the
broker swaps them in.
"""

import os
from collections.abc import Sequence
from typing import Final

from tidelog.records.compression import Buffer
from tidelog.records.kernels.compaction import IndexCursor, IndexEntry
from tidelog.storage.names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from tidelog.storage.replacing import sync_path, unlink_if_exists, write_all
from tidelog.storage.segment.offset_index import MAX_RELATIVE_OFFSET, OFFSET_ENTRY
from tidelog.storage.segment.time_index import TIME_ENTRY
from tidelog.storage.segment.transaction_index import AbortedTransaction, TransactionIndex

_BUFFERED_BYTES_MAX: Final = 1024 * 1024
_FILE_MODE: Final = 0o644
_SUFFIXES: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
_SEGMENT_BYTES_MAX: Final = 2**31 - 1


class SegmentTooLargeError(Exception):
    """The cleaned group does not fit into one segment."""


class CleanedSegment:
    """A `Sink`: batches go to its log file, entries to its indexes."""

    __slots__ = (
        "_buffered",
        "_buffered_bytes",
        "_descriptor",
        "_last_timestamp",
        "_offset_entries",
        "_offset_entry_bytes_max",
        "_stem",
        "_time_entries",
        "_time_entry_bytes_max",
        "base_offset",
        "cursor",
        "written_bytes",
    )

    def __init__(self, directory: str, base_offset: int, index_bytes_max: int, interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.cursor = IndexCursor(base_offset, interval_bytes)
        self.written_bytes = 0
        self._stem = segment_path(directory, base_offset, "")
        self._offset_entries = bytearray()
        self._time_entries = bytearray()
        self._offset_entry_bytes_max = index_bytes_max // OFFSET_ENTRY.size * OFFSET_ENTRY.size
        # The last place is for the largest timestamp of the segment.
        self._time_entry_bytes_max = (index_bytes_max // TIME_ENTRY.size - 1) * TIME_ENTRY.size
        self._last_timestamp = -1
        self._buffered: list[bytes] = []
        self._buffered_bytes = 0
        self.discard()
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        self._descriptor = os.open(self._path(LOG_SUFFIX), flags, _FILE_MODE)

    def append(self, batch: Buffer, last_offset: int, max_timestamp: int) -> None:
        """Write one batch and index it."""
        entry = self.cursor.advance(last_offset, max_timestamp, len(batch))
        self.write(batch, () if entry is None else (entry,))

    def write(self, data: Buffer, entries: Sequence[IndexEntry]) -> None:
        for entry in entries:
            self._index(entry)
        self._buffered.append(bytes(data))
        self._buffered_bytes += len(data)
        if self._buffered_bytes >= _BUFFERED_BYTES_MAX:
            self._flush()

    def finish(self, transactions: Sequence[AbortedTransaction], modified_ns: int) -> int:
        """Write the rest, sync all files and give the log file the age of the replaced segments; returns its inode."""
        self._flush()
        cursor = self.cursor
        self._add_time(cursor.max_timestamp, cursor.max_timestamp_offset)
        os.utime(self._descriptor, ns=(modified_ns, modified_ns))
        os.fsync(self._descriptor)
        inode = os.fstat(self._descriptor).st_ino
        self.close()
        _write_synced(self._path(OFFSET_INDEX_SUFFIX), self._offset_entries)
        _write_synced(self._path(TIME_INDEX_SUFFIX), self._time_entries)
        if transactions:
            index = TransactionIndex(self._path(TRANSACTION_INDEX_SUFFIX), self.base_offset, is_new=True)
            for transaction in transactions:
                index.append(transaction)
            sync_path(index.path)
        return inode

    def close(self) -> None:
        """Close the log file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def discard(self) -> None:
        """Remove the files, also those of an earlier attempt."""
        for suffix in _SUFFIXES:
            unlink_if_exists(self._path(suffix))

    def _path(self, suffix: str) -> str:
        return self._stem + suffix + CLEANED_SUFFIX

    def _flush(self) -> None:
        data = self._buffered[0] if len(self._buffered) == 1 else b"".join(self._buffered)
        if self.written_bytes + len(data) > _SEGMENT_BYTES_MAX:
            raise SegmentTooLargeError(f"the cleaned segment {self._stem} would be larger than 2 GiB")
        write_all(self._descriptor, data, self.written_bytes)
        self.written_bytes += len(data)
        self._buffered = []
        self._buffered_bytes = 0

    def _index(self, entry: IndexEntry) -> None:
        relative = entry.offset - self.base_offset
        if relative > MAX_RELATIVE_OFFSET:
            raise SegmentTooLargeError(f"offset {entry.offset} is too far from the segment {self.base_offset}")
        if len(self._offset_entries) < self._offset_entry_bytes_max:
            self._offset_entries += OFFSET_ENTRY.pack(relative, entry.position)
            if len(self._time_entries) < self._time_entry_bytes_max:
                self._add_time(entry.timestamp, entry.timestamp_offset)

    def _add_time(self, timestamp: int, offset: int) -> None:
        if timestamp > self._last_timestamp:
            self._time_entries += TIME_ENTRY.pack(timestamp, offset - self.base_offset)
            self._last_timestamp = timestamp


def _write_synced(path: str, data: Buffer) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _FILE_MODE)
    try:
        write_all(descriptor, data, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
