"""One segment of a partition's log.

A segment is a file of record batches and the sparse indexes over it. Batches are only added at the end; once a newer
segment exists this one no longer changes, though compaction may replace it whole.

`Log` owns its segments and is their only caller besides the loader; nothing here is safe to share between threads. The
bytes of an append are staged and written by the log; `append` does the bookkeeping of a batch.
"""

import os
from typing import Final

from tidelog.config import LogConfig
from tidelog.records.batch import iterate_records
from tidelog.records.header import BatchHeader
from tidelog.storage import names
from tidelog.storage._files import FileSlice, LogFile, read_exactly
from tidelog.storage.replacing import create_file, unlink_if_exists
from tidelog.storage.segment.batches import BatchPosition, find_batch, iterate_headers
from tidelog.storage.segment.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from tidelog.storage.segment.time_index import TimeIndex
from tidelog.storage.segment.transaction_index import TransactionIndex
from tidelog.storage.types import NO_TIMESTAMP, TimestampOffset

NEVER: Final = (1 << 63) - 1
_UNKNOWN: Final = -2
"""A timestamp that is in the files but has not been read yet."""


class Segment:
    """The batches from `base_offset` up to the next segment, and their indexes.

    `size_bytes` counts every batch appended, staged ones included; `roll_timestamp` and `roll_clock_ms` are the
    limits beyond which `Log` asks `should_roll`, kept as numbers so that an append only compares.
    """

    __slots__ = (
        "_bytes_since_index_entry",
        "_first_timestamp",
        "_max_timestamp",
        "_max_timestamp_offset",
        "base_offset",
        "created_ms",
        "directory",
        "index_interval_bytes",
        "is_index_full",
        "log_file",
        "max_offset",
        "offset_index",
        "roll_clock_ms",
        "roll_jitter_ms",
        "roll_timestamp",
        "segment_ms",
        "size_bytes",
        "suffix",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        config: LogConfig,
        now_ms: int,
        *,
        size_bytes: int = 0,
        suffix: str = "",
        is_new: bool = False,
    ) -> None:
        """Describe a segment without touching its files; see `create` and `open`."""
        stem = f"{directory}/{base_offset:020d}"
        index_bytes = config.segment_index_bytes
        self.directory = directory
        self.base_offset = base_offset
        self.max_offset = base_offset + MAX_RELATIVE_OFFSET
        self.suffix = suffix
        self.size_bytes = size_bytes
        self.created_ms = now_ms
        self.index_interval_bytes = config.index_interval_bytes
        self.log_file = LogFile(f"{stem}.log{suffix}")
        self.offset_index = OffsetIndex(f"{stem}.index{suffix}", base_offset, index_bytes, is_new=is_new)
        self.time_index = TimeIndex(f"{stem}.timeindex{suffix}", base_offset, index_bytes, is_new=is_new)
        self.transaction_index = TransactionIndex(f"{stem}.txnindex{suffix}", base_offset, is_new=is_new)
        self.is_index_full = is_new and (self.offset_index.is_full() or self.time_index.is_full())
        self._bytes_since_index_entry = 0
        self._first_timestamp = _UNKNOWN if size_bytes else NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP if is_new else _UNKNOWN
        self._max_timestamp_offset = base_offset
        self.segment_ms = segment_ms(config)
        self.roll_jitter_ms = _random_jitter(config.segment_jitter_ms, config.segment_ms)
        self.roll_timestamp = self.roll_clock_ms = NEVER

    @classmethod
    def create(cls, directory: str, base_offset: int, config: LogConfig, now_ms: int, suffix: str = "") -> "Segment":
        """Make the files of a new segment. Nothing stays open: the first append opens what it needs."""
        segment = cls(directory, base_offset, config, now_ms, suffix=suffix, is_new=True)
        try:
            create_file(segment.log_file.path)
        except FileExistsError:
            # Left over from a crash between the roll and the first append; it is not in use.
            segment.delete()
            create_file(segment.log_file.path)
        if config.preallocate:
            segment.log_file.truncate(config.segment_bytes)
        segment.offset_index.create()
        segment.time_index.create()
        return segment

    @classmethod
    def open(
        cls,
        directory: str,
        base_offset: int,
        config: LogConfig,
        now_ms: int,
        *,
        size_bytes: int | None = None,
        suffix: str = "",
    ) -> "Segment":
        """Open the files of an existing segment. Pass `size_bytes` if the file's size is already known."""
        path = names.segment_path(directory, base_offset, names.LOG_SUFFIX + suffix)
        if size_bytes is None:
            size_bytes = os.stat(path).st_size
        return cls(directory, base_offset, config, now_ms, size_bytes=size_bytes, suffix=suffix)

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size_bytes={self.size_bytes}, directory={self.directory!r})"

    # Appending

    def append(self, last_offset: int, max_timestamp: int, size_bytes: int, now_ms: int) -> None:
        """Account for a batch of `size_bytes` that goes to the end of the file, and index it where one is due."""
        position = self.size_bytes
        if position == 0:
            self._begin(max_timestamp, now_ms)
        if max_timestamp > self._max_timestamp and max_timestamp > self.max_timestamp():
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self._bytes_since_index_entry > self.index_interval_bytes:
            self._index(last_offset, position)
        self._bytes_since_index_entry += size_bytes
        self.size_bytes = position + size_bytes

    def _index(self, last_offset: int, position: int) -> None:
        """Add an entry to both indexes. A full index ends the segment with this batch."""
        if not self.offset_index.is_full():
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
        self.is_index_full = self.offset_index.is_full() or self.time_index.is_full()
        self._bytes_since_index_entry = 0

    def _begin(self, max_timestamp: int, now_ms: int) -> None:
        """The first batch decides how the age of the segment is measured: by its timestamp, or by the clock."""
        self._first_timestamp = max_timestamp
        self.created_ms = now_ms
        waited_ms_max = self.segment_ms - self.roll_jitter_ms
        if max_timestamp >= 0:
            self.roll_timestamp = max_timestamp + waited_ms_max
        else:
            self.roll_clock_ms = now_ms + waited_ms_max

    def update_roll_limits(self) -> None:
        """Set the times after which the segment is old enough to be rolled."""
        waited_ms_max = self.segment_ms - self.roll_jitter_ms
        self.roll_timestamp = self.roll_clock_ms = NEVER
        first_timestamp = self._first_timestamp
        if first_timestamp == _UNKNOWN:
            # Reading it can wait: the next append exceeds the limits and calls `should_roll`.
            self.roll_timestamp = self.roll_clock_ms = NO_TIMESTAMP
        elif first_timestamp >= 0:
            self.roll_timestamp = first_timestamp + waited_ms_max
        elif self.size_bytes > 0:
            self.roll_clock_ms = self.created_ms + waited_ms_max

    def should_roll(
        self, max_timestamp: int, last_offset: int, size_bytes: int, segment_bytes: int, now_ms: int
    ) -> bool:
        """Whether batches of `size_bytes` up to `last_offset` must go to a new segment."""
        if self._first_timestamp == _UNKNOWN:
            self.first_timestamp()
            self.update_roll_limits()
        return (
            self.size_bytes > segment_bytes - size_bytes
            or (self.size_bytes > 0 and (max_timestamp > self.roll_timestamp or now_ms > self.roll_clock_ms))
            or last_offset > self.max_offset
            or self.is_index_full
        )

    # Timestamps

    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, which time-based rolling counts from; -1 when there is none."""
        if self._first_timestamp == _UNKNOWN:
            first = next(iterate_headers(self.log_file, 0, self.size_bytes), None)
            self._first_timestamp = first[1].max_timestamp if first else NO_TIMESTAMP
        return self._first_timestamp

    def max_timestamp(self) -> int:
        """The largest timestamp of any batch; -1 when there is none. An existing segment has it in its time index."""
        if self._max_timestamp == _UNKNOWN:
            self._max_timestamp, self._max_timestamp_offset = self.time_index.last_entry()
        return self._max_timestamp

    def largest_timestamp(self) -> int:
        """The timestamp for retention: the largest one, or the file's modification time if records have none."""
        timestamp = self.max_timestamp()
        return timestamp if timestamp >= 0 else self.last_modified_ms()

    def last_modified_ms(self) -> int:
        """When the log file was last written."""
        return os.stat(self.log_file.path).st_mtime_ns // 1_000_000

    # Reading

    def locate(self, offset: int, end: int) -> BatchPosition | None:
        """The first batch within the first `end` bytes that ends at or after `offset`."""
        indexed, position, following = self.offset_index.bracket(offset)
        return find_batch(self.log_file, offset, position, end, following if offset > indexed else -1)

    def slice(self, position: int, length: int) -> FileSlice:
        """Bytes to be sent from the file."""
        return FileSlice(self.log_file.open(), position, length)

    def read_next_offset(self) -> int:
        """The offset after the last batch, found from the last index entry on."""
        if self.size_bytes == 0:
            return self.base_offset
        next_offset = self.base_offset
        _, position = self.offset_index.lookup(self.max_offset)
        if position >= self.size_bytes:
            position = 0
        for _, header in iterate_headers(self.log_file, position, self.size_bytes):
            next_offset = header.next_offset
        return next_offset

    def find_by_timestamp(self, timestamp: int, start_offset: int, end: int) -> TimestampOffset | None:
        """The first record at or after `start_offset` that is not older than `timestamp`."""
        _, indexed_offset = self.time_index.lookup(timestamp)
        _, position = self.offset_index.lookup(max(indexed_offset, start_offset))
        for batch_position, header in iterate_headers(self.log_file, position, end):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                found = self._search_batch(batch_position, header, timestamp, start_offset)
                if found is not None:
                    return found
        return None

    def find_max_timestamp(self, end: int) -> TimestampOffset | None:
        """The first record with the largest timestamp of the segment."""
        timestamp = self.max_timestamp()
        if timestamp < 0:
            return None
        _, position = self.offset_index.lookup(self._max_timestamp_offset)
        for batch_position, header in iterate_headers(self.log_file, position, end):
            if header.max_timestamp == timestamp:
                return self._search_batch(batch_position, header, timestamp, self.base_offset)
        return None

    def _search_batch(
        self, position: int, header: BatchHeader, timestamp: int, start_offset: int
    ) -> TimestampOffset | None:
        for record in iterate_records(self.read_batch(position, header)):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
        return None

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        """The whole batch that `header` begins."""
        return read_exactly(self.log_file.open().fd, position, header.size_bytes)

    # Changing state

    def become_inactive(self) -> None:
        """A newer segment takes over: store the largest timestamp, trim the indexes and a preallocated file."""
        self.time_index.maybe_append(self.max_timestamp(), self._max_timestamp_offset)
        self.offset_index.trim()
        self.time_index.trim()
        self.trim_log_file()

    def trim_log_file(self) -> None:
        """Cut off preallocated space (`preallocate`) that was not used."""
        if os.stat(self.log_file.path).st_size != self.size_bytes:
            self.log_file.truncate(self.size_bytes)

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Remove every batch with `offset` or a later one; returns how many bytes were removed."""
        batch = self.locate(offset, self.size_bytes)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        removed = 0
        if batch is not None:
            removed = self.size_bytes - batch.position
            self.log_file.truncate(batch.position)
            self.size_bytes = batch.position
        if self.size_bytes == 0:
            self.created_ms = now_ms
            self._first_timestamp = NO_TIMESTAMP
        self._bytes_since_index_entry = 0
        self.is_index_full = self.offset_index.is_full() or self.time_index.is_full()
        self._reload_max_timestamp()
        self.update_roll_limits()
        return removed

    def _reload_max_timestamp(self) -> None:
        """Find the largest timestamp again: the last index entry, or a batch after it."""
        timestamp, offset = self.time_index.last_entry()
        _, position = self.offset_index.lookup(offset)
        for _, header in iterate_headers(self.log_file, position, self.size_bytes):
            if header.max_timestamp > timestamp:
                timestamp, offset = header.max_timestamp, header.last_offset
        self._max_timestamp, self._max_timestamp_offset = timestamp, offset

    def start_rebuild(self) -> None:
        """Reset the state of the batches, before recovery adds them again."""
        self.offset_index.reset()
        self.time_index.reset()
        self.transaction_index.reset()
        self.size_bytes = 0
        self._bytes_since_index_entry = 0
        self._first_timestamp = self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset
        self.roll_timestamp = self.roll_clock_ms = NEVER

    def sanity_check(self) -> None:
        """Raise CorruptIndexError, or FileNotFoundError, where an index must be rebuilt."""
        self.offset_index.sanity_check()
        self.time_index.sanity_check()
        self.transaction_index.sanity_check()

    def move_to(self, directory: str) -> None:
        """The directory has been renamed: know the files by their new paths."""
        self.directory = directory
        stem = f"{directory}/{self.base_offset:020d}"
        self.log_file.path = f"{stem}.log{self.suffix}"
        self.offset_index.path = f"{stem}.index{self.suffix}"
        self.time_index.path = f"{stem}.timeindex{self.suffix}"
        self.transaction_index.path = f"{stem}.txnindex{self.suffix}"

    def change_suffix(self, suffix: str) -> None:
        """Rename all files, say to `.deleted`. Descriptors in use stay valid."""
        stem = f"{self.directory}/{self.base_offset:020d}"
        self.log_file.rename(f"{stem}.log{suffix}")
        self.offset_index.rename(f"{stem}.index{suffix}")
        self.time_index.rename(f"{stem}.timeindex{suffix}")
        self.transaction_index.rename(f"{stem}.txnindex{suffix}")
        self.suffix = suffix

    def paths(self) -> tuple[str, ...]:
        """The files that belong to the segment, whether or not they exist."""
        return (self.log_file.path, self.offset_index.path, self.time_index.path, self.transaction_index.path)

    def index_paths(self) -> tuple[str, ...]:
        """The files of the indexes, whether or not they exist."""
        return self.paths()[1:]

    def delete(self) -> None:
        """Remove the files. Slices being sent stay readable."""
        self.release()
        self.offset_index.delete()
        self.time_index.delete()
        self.transaction_index.delete()
        unlink_if_exists(self.log_file.path)

    def release(self) -> None:
        """Close descriptors and mappings without writing anything."""
        self.log_file.release()
        self.offset_index.release()
        self.time_index.release()

    def close(self) -> None:
        """Store the largest timestamp, cut off preallocated space and close the files."""
        if self._max_timestamp != _UNKNOWN:
            self.time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
        self.offset_index.trim()
        self.time_index.trim()
        self.trim_log_file()
        self.release()


def segment_ms(config: LogConfig) -> int:
    """The age at which a segment is rolled; a compacted topic rolls early enough for `max.compaction.lag.ms`."""
    if "compact" in config.cleanup_policy and config.max_compaction_lag_ms > 0:
        return min(config.max_compaction_lag_ms, config.segment_ms)
    return config.segment_ms


def _random_jitter(jitter_ms: int, period_ms: int) -> int:
    """A delay below `segment.jitter.ms`, so that topics created together are not all rolled together."""
    bound = min(jitter_ms, period_ms)
    return int.from_bytes(os.urandom(4), "big") % bound if bound > 0 else 0
