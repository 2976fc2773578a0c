"""Which records stay when a log is compacted: the rules, in plain Python, which the compiled kernels repeat.

Cleaning reads a log twice. The first time `index_records` notes, for the part of the log that is not clean yet, the
last offset of every key. The second time `filter_records` looks at every batch of the log: a record goes if its key has
a later offset in the map, and a tombstone, whose value is null, goes once the batch's delete horizon has passed. Both
work on one batch. What is decided for whole batches (transactions, producers, control records) is the caller's matter.

A `Compactor` may also take a run of batches off the caller's hands, from a position on in a window of the file, and say
how far it came. Here that is nowhere: every batch goes through the caller, which is what a run must be equal to.

The map holds the keys themselves, so nothing can collide; its size is bounded by what Python needs for that.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from tidelog.records.compression import Buffer
from tidelog.records.header import LOG_APPEND_TIME_BIT, NO_TIMESTAMP, BatchHeader
from tidelog.records.record import Record, decode_records, encode_record

_ENTRY_BYTES: Final = 200
"""What a key costs in a dictionary besides its own bytes: two objects, and the entry with its share of free ones."""

NO_OFFSET: Final = -1


class Rules(NamedTuple):
    """What a round of cleaning decides by. `now_ms` is when it began: the same for all of it."""

    now_ms: int
    delete_retention_ms: int
    kept_offsets: Sequence[int] = ()
    """The last data offsets of producers that are still known, ascending: their batches stay, even without records."""


class Filtered(NamedTuple):
    """The records of a batch that stay, encoded anew and not compressed; none when `record_count` is 0."""

    record_count: int
    payload: bytes
    base_timestamp: int
    max_timestamp: int
    has_delete_horizon: bool


class Counts(NamedTuple):
    """What went through a compactor."""

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
    """Where the writing of a segment stands, as far as its indexes are concerned."""

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
        """Put whole batches at the end; the cursor has gone ahead already. `data` is not kept."""


class Compactor(Protocol):
    """The map of one round of cleaning, and the work on records that goes with it."""

    is_full: bool
    latest_offset: int
    """Up to here, inclusive, every key is in the map. Records beyond it stay."""

    def index_run(self, window: Buffer, start: int, stop: int, first_offset: int) -> int:
        """Note the keys of batches from `start` on; the position of the first batch that was left to the caller."""

    def index_records(self, data: bytes, header: BatchHeader, first_offset: int) -> None:
        """Note the keys of one batch, whose decompressed records are `data`; `is_full` ends it early.

        Records before `first_offset` are in the clean part of the log, and are left out.
        """

    def rewrite_run(self, window: Buffer, start: int, stop: int, rules: Rules, sink: Sink) -> int:
        """Filter batches from `start` on into `sink`; the position of the first batch that was left to the caller."""

    def filter_records(self, data: bytes, header: BatchHeader, rules: Rules) -> Filtered | None:
        """What stays of one batch; None when the batch can be kept as it is."""

    def keeps(self, record: Record, *, may_drop_tombstone: bool) -> bool:
        """Whether one record stays."""

    def utilization(self) -> float:
        """How full the map is, between 0 and 1."""

    def counts(self) -> Counts:
        """What went through so far."""


class PlainCompactor:
    """A `Compactor` without anything compiled. It defines the result."""

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
        # KIP-534: the first cleaning that meets a tombstone decides when it goes, and writes that into the batch.
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
    """All records of a batch, with a delete horizon: for markers, which go by the same rule as tombstones."""
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
