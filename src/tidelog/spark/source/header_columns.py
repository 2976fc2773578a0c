"""A decoder that also makes a column of the headers, without a Python object for each. Needs Numba.

`task_reader` takes it where headers are asked for; without Numba, headers come as lists and `arrow_rows` turns them
into a column.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.client.arrow.memory import arrow_memory
from tidelog.records.compression import Buffer
from tidelog.records.kernels.arrow_decode import Columns, Wanted
from tidelog.records.kernels.arrow_decode_compiled import CompiledDecoder, readable
from tidelog.records.kernels.parts import WITH_HEADERS
from tidelog.spark.source import _header_kernels as kernels


class HeaderDecoder(CompiledDecoder):
    """A `Decoder` whose headers are Arrow's: `take_headers` after `take`."""

    def __init__(self, wanted: Wanted, kind: pa.DataType) -> None:
        """`kind` is the type of the column: a list of pairs of text and bytes."""
        super().__init__(Wanted(wanted.keys, wanted.values, headers=False), arrow_memory)
        self._kind = kind
        self._parts: list[pa.Array] = []
        self._taken: list[pa.Array] = []

    def take(self) -> Columns:
        self._taken, self._parts = self._parts, []
        return super().take()

    def take_headers(self) -> pa.Array:
        """The headers of the records that were taken last."""
        return pa.concat_arrays(self._taken) if self._taken else pa.nulls(0, self._kind)

    def _added(self, data: Buffer, before: int) -> None:
        """Read headers while the data they are in is at hand."""
        super()._added(data, before)
        state = self._rows.state
        if self.count == before:
            return
        if state[WITH_HEADERS]:
            positions = self._rows.header_positions[before : self.count]
            self._parts.append(header_array(readable(data), positions, self._kind))
            state[WITH_HEADERS] = 0
        else:
            self._parts.append(pa.nulls(self.count - before, self._kind))


def header_array(data: Any, positions: Any, kind: pa.DataType) -> pa.Array:
    """The headers at `positions` of `data`; null where the position is -1."""
    totals = np.zeros(kernels.TOTALS, dtype=np.int64)
    kernels.measure(data, positions, totals)
    rows, count = len(positions), int(totals[kernels.HEADERS])
    starts, name_starts, value_starts = (np.empty(size + 1, dtype=np.int32) for size in (rows, count, count))
    row_bits, value_bits = (np.zeros((size + 7) // 8, dtype=np.uint8) for size in (rows, count))
    names, values = (np.empty(int(totals[each]), dtype=np.uint8) for each in (kernels.NAME_BYTES, kernels.VALUE_BYTES))
    kernels.fill(data, positions, totals, starts, row_bits, name_starts, names, value_starts, value_bits, values)
    name_column = _column(count, 0, None, name_starts, names)
    value_column = _column(count, int(totals[kernels.NULL_VALUES]), value_bits, value_starts, values)
    pair = kind.value_type
    pairs = pa.StructArray.from_arrays([_as_text(name_column), value_column], fields=[pair.field(0), pair.field(1)])
    buffers = [pa.py_buffer(row_bits), pa.py_buffer(starts)]
    return pa.Array.from_buffers(kind, rows, buffers, int(totals[kernels.NULL_ROWS]), children=[pairs])


def _column(count: int, null_count: int, bits: Any, starts: Any, data: Any) -> pa.Array:
    validity = pa.py_buffer(bits) if null_count else None
    return pa.Array.from_buffers(pa.binary(), count, [validity, pa.py_buffer(starts), pa.py_buffer(data)], null_count)


def _as_text(names: pa.Array) -> pa.Array:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        # Not all of it is UTF-8, which Arrow's strings cannot have; Java's replace what is not.
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())
