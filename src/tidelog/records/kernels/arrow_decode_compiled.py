"""A `Decoder` on Numba: the same columns as `PlainDecoder`, some hundred times as fast.

Needs NumPy and Numba, so it is imported by name and only where they are allowed. The first use on a machine compiles
for some seconds; the result is cached beside this file, or in `NUMBA_CACHE_DIR`. Kernels run without the interpreter
lock.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tidelog.records.compression import Buffer
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import LOG_APPEND_TIME_BIT, BatchHeader
from tidelog.records.kernels import _arrow_decode as kernels
from tidelog.records.kernels._compile import Bytes
from tidelog.records.kernels.arrow_decode import EVERYTHING, BinaryColumn, Columns, Wanted, check_count
from tidelog.records.record import Headers, decode_headers

_NO_HEADERS: Final[Headers] = ()


def readable(data: Buffer) -> Bytes:
    """`data` for a kernel. Always read-only, so that there is one compiled form of each kernel."""
    array = np.frombuffer(data, dtype=np.uint8)
    array.flags.writeable = False
    return array


class CompiledDecoder:
    """A `Decoder`. `empty` allocates an array of a size and a type, as `numpy.empty` does."""

    def __init__(self, wanted: Wanted = EVERYTHING, empty: Callable[[int, Any], Any] = np.empty) -> None:
        self._wanted = wanted
        self._empty = empty
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self.data_bytes = 0
        self._rows_max = 0
        self._bytes_max = 0
        self._rows = self._allocate(0, 0)
        self._headers: list[Headers] = []

    def add_run(self, window: Buffer, start: int, first_offset: int, *, sees_transactions: bool) -> int:
        data = readable(window)
        count, stop = map(int, kernels.count_run(data, start, len(data), sees_transactions))
        if stop == start:
            return start
        self._reserve(count, stop - start)
        before = self.count
        position = int(kernels.add_run(data, start, stop, first_offset, self._rows))
        self.data_bytes += position - start
        self._added(window, before)
        return position

    def add_records(self, data: bytes, header: BatchHeader, first_offset: int) -> None:
        check_count(header, len(data))
        self._reserve(header.record_count, len(data))
        before = self.count
        status = kernels.add_records(
            readable(data),
            0,
            len(data),
            header.record_count,
            header.base_offset,
            header.base_timestamp,
            header.max_timestamp,
            header.attributes & LOG_APPEND_TIME_BIT != 0,
            first_offset,
            self._rows,
        )
        if status < 0:
            raise CorruptRecordError(
                f"the {header.record_count} records of the batch at offset {header.base_offset} cannot be read"
            )
        self.data_bytes += len(data)
        self._added(data, before)

    def take(self) -> Columns:
        rows, state, count, wanted = self._rows, self._rows.state, self.count, self._wanted
        columns = Columns(
            count,
            rows.offsets[:count],
            rows.timestamps[:count],
            rows.types[:count],
            _column(
                count,
                rows.key_positions,
                rows.key_data,
                rows.key_bits,
                state[kernels.KEY_BYTES],
                state[kernels.KEY_NULLS],
            )
            if wanted.keys
            else None,
            _column(
                count,
                rows.value_positions,
                rows.value_data,
                rows.value_bits,
                state[kernels.VALUE_BYTES],
                state[kernels.VALUE_NULLS],
            )
            if wanted.values
            else None,
            [*self._headers, *[_NO_HEADERS] * (count - len(self._headers))] if self._headers else None,
        )
        self._clear()
        return columns

    def _added(self, data: Buffer, before: int) -> None:
        """Update the counts after a kernel, and read the headers while their data is available."""
        state = self._rows.state
        self.count = int(state[kernels.COUNT])
        if state[kernels.WITH_HEADERS] and self._wanted.headers:
            headers = self._headers
            headers.extend([_NO_HEADERS] * (before - len(headers)))
            content = bytes(data)
            for position in self._rows.header_positions[before : self.count].tolist():
                headers.append(_NO_HEADERS if position < 0 else decode_headers(content, position)[0])
            state[kernels.WITH_HEADERS] = 0

    def _reserve(self, count: int, size_bytes: int) -> None:
        """Make room. Memory that is never written to costs nothing, so the bytes of both columns are reserved twice."""
        rows_needed, bytes_needed = self.count + count, self.data_bytes + size_bytes
        if rows_needed <= self._rows_max and bytes_needed <= self._bytes_max:
            return
        if rows_needed > self._rows_max:
            self._rows_max = max(rows_needed, 2 * self._rows_max)
        if bytes_needed > self._bytes_max:
            self._bytes_max = max(bytes_needed, 2 * self._bytes_max)
        old, self._rows = self._rows, self._allocate(self._rows_max, self._bytes_max)
        if self.count:
            self._move(old)

    def _allocate(self, rows_max: int, bytes_max: int) -> kernels.Rows:
        wanted, empty = self._wanted, self._empty
        key_rows, key_bytes = (rows_max, bytes_max) if wanted.keys else (0, 0)
        value_rows, value_bytes = (rows_max, bytes_max) if wanted.values else (0, 0)
        return kernels.Rows(
            empty(rows_max, np.int64),
            empty(rows_max, np.int64),
            empty(rows_max, np.int32),
            _positions(empty(key_rows + 1, np.int32)),
            np.zeros((key_rows + 7) // 8, dtype=np.uint8),
            empty(key_bytes, np.uint8),
            _positions(empty(value_rows + 1, np.int32)),
            np.zeros((value_rows + 7) // 8, dtype=np.uint8),
            empty(value_bytes, np.uint8),
            empty(rows_max, np.int64),
            np.zeros(kernels.STATE_NUMBERS, dtype=np.int64),
            wanted.keys,
            wanted.values,
        )

    def _move(self, old: kernels.Rows) -> None:
        """What was added so far, into the larger columns; untouched rest is not copied."""
        count, new, state = self.count, self._rows, old.state
        lengths = {
            "key_positions": count + 1,
            "key_bits": (count + 7) // 8,
            "key_data": int(state[kernels.KEY_BYTES]),
            "value_positions": count + 1,
            "value_bits": (count + 7) // 8,
            "value_data": int(state[kernels.VALUE_BYTES]),
            "state": len(state),
        }
        for name, source, target in zip(kernels.Rows._fields, old, new, strict=True):
            if isinstance(source, np.ndarray) and isinstance(target, np.ndarray):
                length = min(lengths.get(name, count), len(source))
                target[:length] = source[:length]


def _positions(positions: Any) -> Any:
    positions[0] = 0
    return positions


def _column(count: int, positions: Any, data: Bytes, bits: Bytes, data_bytes: int, null_count: int) -> BinaryColumn:
    validity = bits[: (count + 7) // 8] if null_count else None
    return BinaryColumn(positions[: count + 1], data[:data_bytes], validity, int(null_count))
