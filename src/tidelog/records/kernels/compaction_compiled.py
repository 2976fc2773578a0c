"""A `Compactor` on Numba: the same results as `PlainCompactor`, a hundred times as fast.

Needs NumPy and Numba, so it is imported by name and only in the cleaner's worker process. The first use on a machine
compiles for some seconds; the result is cached in `NUMBA_CACHE_DIR`.

Keys are kept as 128-bit hashes with a secret of the cleaning, 24 bytes each with the offset.
"""

from typing import Final

import numpy as np

from tidelog.records.compression import Buffer
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import LOG_APPEND_TIME_BIT, BatchHeader
from tidelog.records.kernels import _compaction as kernels
from tidelog.records.kernels._compile import Bytes
from tidelog.records.kernels.compaction import NO_OFFSET, Counts, Filtered, IndexEntry, Rules, Sink
from tidelog.records.record import Record

SLOT_BYTES: Final = 8 * kernels.SLOT_WORDS
SECRET_BYTES: Final = 16

_OUT_BYTES: Final = 4 * 1024 * 1024
_INPUT_BYTES: Final = 256 * 1024
_SCRATCH_ROWS: Final = 16 * 1024
_ENTRY_ROWS: Final = 1024
_SLOTS_MIN: Final = 64


class CompiledCompactor:
    """A `Compactor`. `records_max` limits the number of keys, so that a small log does not get a large table."""

    def __init__(
        self,
        memory_bytes: int,
        load_factor: float,
        keys_max: int | None = None,
        *,
        secret: bytes,
        records_max: int | None = None,
    ) -> None:
        slots = max(memory_bytes // SLOT_BYTES, 1)
        capacity = int(slots * load_factor)
        if records_max is not None:
            slots = min(slots, max(int(records_max / load_factor) + 1, _SLOTS_MIN))
        self._slots_allowed = max(memory_bytes // SLOT_BYTES, 1)
        self._table = np.zeros(slots * kernels.SLOT_WORDS, dtype=np.uint64)
        self._secret = np.frombuffer(secret, dtype="<u8").astype(np.uint64)
        self._state = np.zeros(kernels.STATE_NUMBERS, dtype=np.int64)
        self._state[kernels.KEYS_MAX] = capacity if keys_max is None else min(capacity, keys_max)
        self._state[kernels.LATEST_OFFSET] = NO_OFFSET
        self._batch = np.zeros(kernels.BATCH_NUMBERS, dtype=np.int64)
        self._kept = np.zeros(kernels.KEPT_NUMBERS, dtype=np.int64)
        self._cursor = np.zeros(kernels.CURSOR_NUMBERS, dtype=np.int64)
        self._outcome = np.zeros(kernels.OUTCOME_NUMBERS, dtype=np.int64)
        self._entries = np.zeros((_ENTRY_ROWS, 4), dtype=np.int64)
        self._scratch = np.zeros((_SCRATCH_ROWS, kernels.SCRATCH_NUMBERS), dtype=np.int64)
        self._out = np.zeros(_OUT_BYTES, dtype=np.uint8)
        self._input = np.zeros(_INPUT_BYTES, dtype=np.uint8)
        self._rules: Rules | None = None
        self._kept_offsets = np.zeros(0, dtype=np.int64)

    @property
    def is_full(self) -> bool:
        return bool(self._state[kernels.IS_FULL])

    @property
    def latest_offset(self) -> int:
        return int(self._state[kernels.LATEST_OFFSET])

    @latest_offset.setter
    def latest_offset(self, offset: int) -> None:
        self._state[kernels.LATEST_OFFSET] = offset

    def index_run(self, window: Buffer, start: int, stop: int, first_offset: int) -> int:
        array = np.frombuffer(window, dtype=np.uint8)
        return int(kernels.index_run(array, start, stop, first_offset, self._table, self._state, self._secret))

    def index_records(self, data: bytes, header: BatchHeader, first_offset: int) -> None:
        array, count = self._load(data), header.record_count
        status = kernels.index_records(
            array, 0, len(data), count, header.base_offset, first_offset, self._table, self._state, self._secret
        )
        _check(status, header)

    def rewrite_run(self, window: Buffer, start: int, stop: int, rules: Rules, sink: Sink) -> int:
        self._follow(rules)
        array = np.frombuffer(window, dtype=np.uint8)
        outcome, output = self._outcome, self._out.data
        while True:
            self._load_cursor(sink)
            kernels.rewrite_run(
                array,
                start,
                stop,
                self._batch,
                self._kept_offsets,
                self._table,
                self._state,
                self._secret,
                self._scratch,
                self._kept,
                self._out,
                self._cursor,
                self._entries,
                outcome,
            )
            start, used, entry_count, is_output_full = map(int, outcome)
            if used:
                self._store_cursor(sink)
                sink.write(output[:used], [IndexEntry(*row) for row in self._entries[:entry_count].tolist()])
            if not is_output_full:
                return start

    def filter_records(self, data: bytes, header: BatchHeader, rules: Rules) -> Filtered | None:
        self._follow(rules)
        array, count = self._load(data), header.record_count
        if count > len(self._scratch):
            # Every record takes at least seven bytes, so a larger count is false and gets no memory.
            _check(kernels.CORRUPT if count > len(data) else 0, header)
            self._scratch = np.zeros((count, kernels.SCRATCH_NUMBERS), dtype=np.int64)
        self._describe(header)
        status = kernels.select_records(
            array, 0, len(data), self._batch, self._table, self._state, self._secret, self._scratch, self._kept
        )
        _check(status, header)
        kept, base_timestamp, max_timestamp, has_horizon, is_unchanged = map(int, self._kept)
        if is_unchanged:
            return None
        if not kept:
            return Filtered(0, b"", -1, -1, False)
        out = self._out
        if len(data) + kernels.RECORD_GROWTH_MAX * count > len(out):
            out = np.empty(len(data) + kernels.RECORD_GROWTH_MAX * count, dtype=np.uint8)
        end = kernels.write_records(array, self._scratch, self._kept, out, 0)
        return Filtered(kept, out[:end].tobytes(), base_timestamp, max_timestamp, bool(has_horizon))

    def keeps(self, record: Record, *, may_drop_tombstone: bool) -> bool:
        if record.offset > self.latest_offset:
            return True
        if record.key is None:
            self._state[kernels.RECORDS_WITHOUT_KEY] += 1
            return False
        if record.value is None and may_drop_tombstone:
            return False
        key = self._load(record.key)
        return bool(record.offset >= kernels.latest_offset(key, 0, len(record.key), self._table, self._secret))

    def utilization(self) -> float:
        return float(self._state[kernels.KEYS]) / self._slots_allowed

    def counts(self) -> Counts:
        state = self._state
        return Counts(
            int(state[kernels.RECORDS_READ]),
            int(state[kernels.RECORDS_KEPT]),
            int(state[kernels.RECORDS_WITHOUT_KEY]),
        )

    def _load(self, data: bytes) -> Bytes:
        """Copy `data` into the input array: always the same type, so that there is one compiled form of each kernel."""
        if len(data) > len(self._input):
            self._input = np.zeros(len(data), dtype=np.uint8)
        self._input[: len(data)] = np.frombuffer(data, dtype=np.uint8)
        return self._input

    def _follow(self, rules: Rules) -> None:
        if rules is not self._rules:
            self._rules = rules
            self._batch[kernels.NOW_MS] = rules.now_ms
            self._batch[kernels.RETENTION_MS] = rules.delete_retention_ms
            self._kept_offsets = np.array(rules.kept_offsets, dtype=np.int64)

    def _describe(self, header: BatchHeader) -> None:
        batch = self._batch
        batch[kernels.BASE_OFFSET] = header.base_offset
        batch[kernels.BASE_TIMESTAMP] = header.base_timestamp
        batch[kernels.MAX_TIMESTAMP] = header.max_timestamp
        batch[kernels.IS_LOG_APPEND_TIME] = header.attributes & LOG_APPEND_TIME_BIT
        batch[kernels.HAS_HORIZON] = header.has_delete_horizon
        batch[kernels.COUNT] = header.record_count

    def _load_cursor(self, sink: Sink) -> None:
        source, target = sink.cursor, self._cursor
        target[kernels.POSITION] = source.position
        target[kernels.BYTES_SINCE_ENTRY] = source.bytes_since_entry
        target[kernels.CURSOR_MAX_TIMESTAMP] = source.max_timestamp
        target[kernels.CURSOR_MAX_OFFSET] = source.max_timestamp_offset
        target[kernels.INTERVAL_BYTES] = source.interval_bytes

    def _store_cursor(self, sink: Sink) -> None:
        source, target = self._cursor, sink.cursor
        target.position = int(source[kernels.POSITION])
        target.bytes_since_entry = int(source[kernels.BYTES_SINCE_ENTRY])
        target.max_timestamp = int(source[kernels.CURSOR_MAX_TIMESTAMP])
        target.max_timestamp_offset = int(source[kernels.CURSOR_MAX_OFFSET])


def _check(status: int, header: BatchHeader) -> None:
    if status < 0:
        raise CorruptRecordError(
            f"the {header.record_count} records of the batch at offset {header.base_offset} cannot be read"
        )
