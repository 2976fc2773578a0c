"""Which records stay when a log is compacted: the rules in plain Python; the compiled kernels give the same result.

Cleaning reads a log twice. First, `index_records` puts the last offset of every key in the dirty part of the log into a
map. Then `filter_records` checks every batch of the log: a record is removed if its key has a later offset in the map,
and a tombstone, whose value is null, once the batch's delete horizon has passed. Both work on one batch. The caller
decides about whole batches (transactions, producers, control records).

A `Compactor` may also handle a run of batches by itself, from a position in a window of the file, and return the
position it reached. The plain one handles none: every batch goes through the caller, which defines the result of a run.

The plain map has the keys themselves, so that keys cannot collide; its size is limited by the memory of its objects.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from tidelog.records.compression import Buffer
from tidelog.records.header import LOG_APPEND_TIME_BIT, NO_TIMESTAMP, BatchHeader
from tidelog.records.record import Record, decode_records, encode_record

_ENTRY_BYTES: Final = 200
"""Memory of a key in a dictionary besides its own bytes: two objects, and the entry with its share of free ones."""

NO_OFFSET: Final = -1


class Rules(NamedTuple):
    """The rules of one cleaning. `now_ms` is when it began."""

    now_ms: int
    delete_retention_ms: int
    kept_offsets: Sequence[int] = ()
    """The last data offsets of producers that are still known, ascending: their batches stay, even without records."""


class Filtered(NamedTuple):
    """The records of a batch that stay, encoded again and not compressed; none when `record_count` is 0."""

    record_count: int
    payload: bytes
    base_timestamp: int
    max_timestamp: int
    has_delete_horizon: bool


class Counts(NamedTuple):
    """The record counts of a compactor."""

    records_read: int
    records_kept: int
    records_without_key: int


class IndexEntry(NamedTuple):
    """An entry that is due in both indexes of the segment that is written: one for the offset, one for the time."""

    offset: int
    position: int
    timestamp: int
    timestamp_offset: int


class IndexCursor:
    """The state of writing a segment that its indexes need."""

    __slots__ = ("bytes_since_entry", "interval_bytes", "max_timestamp", "max_timestamp_offset", "position")

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.position = 0
        self.bytes_since_entry = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.interval_bytes = interval_bytes

    def advance(self, last_offset: int, max_timestamp: int, size_bytes: int) -> IndexEntry | None:
        """A batch of `size_bytes` goes to the end of the segment; the entry that is due with it."""
        entry = None
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self.bytes_since_entry > self.interval_bytes:
            entry = IndexEntry(last_offset, self.position, self.max_timestamp, self.max_timestamp_offset)
            self.bytes_since_entry = 0
        self.bytes_since_entry += size_bytes
        self.position += size_bytes
        return entry


class Sink(Protocol):
    """Where the batches that stay are written."""

    cursor: IndexCursor

    def write(self, data: Buffer, entries: Sequence[IndexEntry]) -> None:
        """Append whole batches; the cursor has been advanced already. `data` is not kept."""


class Compactor(Protocol):
    """The map of one cleaning, and the operations on records that use it."""

    latest_offset: int
    """Up to here, inclusive, every key is in the map. Records beyond it stay."""

    @property
    def is_full(self) -> bool:
        """Whether the map takes no more keys."""

    def index_run(self, window: Buffer, start: int, stop: int, first_offset: int) -> int:
        """Index the keys of batches from `start` on; the position of the first batch that was left to the caller."""

    def index_records(self, data: bytes, header: BatchHeader, first_offset: int) -> None:
        """Index the keys of one batch, whose decompressed records are `data`; stops early when the map is full.

        Records before `first_offset` are in the clean part of the log, and are left out.
        """

    def rewrite_run(self, window: Buffer, start: int, stop: int, rules: Rules, sink: Sink) -> int:
        """Filter batches from `start` on into `sink`; the position of the first batch that was left to the caller."""

    def filter_records(self, data: bytes, header: BatchHeader, rules: Rules) -> Filtered | None:
        """The records of one batch that stay; None when the batch can be kept unchanged."""

    def keeps(self, record: Record, *, may_drop_tombstone: bool) -> bool:
        """Whether one record stays."""

    def utilization(self) -> float:
        """How full the map is, between 0 and 1."""

    def counts(self) -> Counts:
        """The counts so far."""


class PlainCompactor:
    """A `Compactor` in plain Python. It defines the result."""

    def __init__(self, memory_bytes: int, load_factor: float, keys_max: int | None = None) -> None:
        """At most `memory_bytes` × `load_factor` of memory are used for the map, and at most `keys_max` keys kept."""
        self.is_full = False
        self.latest_offset = NO_OFFSET
        self._memory_bytes = memory_bytes
        self._bytes_left = int(memory_bytes * load_factor)
        self._keys_max = keys_max
        self._offsets: dict[bytes, int] = {}
        self._records_read = self._records_kept = self._records_without_key = 0

    def index_run(self, window: Buffer, start: int, stop: int, first_offset: int) -> int:  # noqa: ARG002
        return start

    def rewrite_run(self, window: Buffer, start: int, stop: int, rules: Rules, sink: Sink) -> int:  # noqa: ARG002
        return start

    def index_records(self, data: bytes, header: BatchHeader, first_offset: int) -> None:
        offsets = self._offsets
        for offset, _, key, _, _ in decode_records(data, header.record_count, header.base_offset, 0, None):
            if key is None or offset < first_offset:
                continue
            if self._bytes_left <= 0 or len(offsets) == self._keys_max:
                self.is_full = True
                return
            if key not in offsets:
                self._bytes_left -= len(key) + _ENTRY_BYTES
            offsets[key] = self.latest_offset = offset

    def filter_records(self, data: bytes, header: BatchHeader, rules: Rules) -> Filtered | None:
        log_append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME_BIT else None
        horizon_ms = header.delete_horizon_ms
        may_drop = horizon_ms is not None and rules.now_ms >= horizon_ms
        records = list(
            decode_records(data, header.record_count, header.base_offset, header.base_timestamp, log_append_time)
        )
        kept = [record for record in records if self.keeps(record, may_drop_tombstone=may_drop)]
        self._records_read += len(records)
        self._records_kept += len(kept)
        # KIP-534: the first cleaning that reads a tombstone writes its delete horizon into the batch.
        if horizon_ms is None and any(record.value is None for record in kept):
            horizon_ms = rules.now_ms + rules.delete_retention_ms
        elif len(kept) == len(records):
            return None
        return _encode(kept, header, horizon_ms)

    def keeps(self, record: Record, *, may_drop_tombstone: bool) -> bool:
        offset, key = record.offset, record.key
        if offset > self.latest_offset:
            return True
        if key is None:
            self._records_without_key += 1
            return False
        return offset >= self._offsets.get(key, NO_OFFSET) and not (record.value is None and may_drop_tombstone)

    def utilization(self) -> float:
        used_bytes = sum(map(len, self._offsets)) + _ENTRY_BYTES * len(self._offsets)
        return used_bytes / self._memory_bytes

    def counts(self) -> Counts:
        return Counts(self._records_read, self._records_kept, self._records_without_key)


def with_horizon(data: bytes, header: BatchHeader, horizon_ms: int) -> Filtered:
    """All records of a batch, with a delete horizon: for markers, which are removed by the same rule as tombstones."""
    log_append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME_BIT else None
    records = decode_records(data, header.record_count, header.base_offset, header.base_timestamp, log_append_time)
    return _encode(list(records), header, horizon_ms)


def _encode(kept: list[Record], header: BatchHeader, horizon_ms: int | None) -> Filtered:
    if not kept:
        return Filtered(0, b"", NO_TIMESTAMP, NO_TIMESTAMP, False)
    base_timestamp = kept[0].timestamp if horizon_ms is None else horizon_ms
    payload = b"".join(
        encode_record(timestamp - base_timestamp, offset - header.base_offset, key, value, headers)
        for offset, timestamp, key, value, headers in kept
    )
    max_timestamp = max(NO_TIMESTAMP, *(record.timestamp for record in kept))
    return Filtered(len(kept), payload, base_timestamp, max_timestamp, horizon_ms is not None)
