"""The kernels behind `header_columns`: headers of records, straight into Arrow's buffers.

They read what the kernels that decode records have checked: every length lies within its record.
"""

from typing import Any, Final

import numpy as np

from tidelog.records.kernels.parts import Bytes, Numbers, copy_bytes, kernel, varint_at

# Where the numbers of `totals` are.
HEADERS: Final = 0
NAME_BYTES: Final = 1
VALUE_BYTES: Final = 2
NULL_ROWS: Final = 3
NULL_VALUES: Final = 4
TOTALS: Final = 5


@kernel
def measure(data: Bytes, positions: Numbers, totals: Numbers) -> None:
    """Count headers and their bytes; `positions` has -1 for rows without."""
    end = np.int64(len(data))
    for row in range(len(positions)):
        if positions[row] < 0:
            continue
        count, position = varint_at(data, positions[row], end)
        totals[HEADERS] += count
        for _ in range(count):
            size, position = varint_at(data, position, end)
            totals[NAME_BYTES] += size
            size, position = varint_at(data, position + size, end)
            if size > 0:
                totals[VALUE_BYTES] += size
                position += size


@kernel
def fill(
    data: Bytes,
    positions: Numbers,
    totals: Numbers,
    starts: Any,
    row_bits: Bytes,
    name_starts: Any,
    names: Bytes,
    value_starts: Any,
    value_bits: Bytes,
    values: Bytes,
) -> None:
    """Write the headers into columns of the sizes that `measure` returned."""
    end = np.int64(len(data))
    header = name_end = value_end = np.int64(0)
    null_rows = null_values = np.int64(0)
    for row in range(len(positions)):
        starts[row] = header
        count = np.int64(0)
        position = np.int64(0)
        if positions[row] >= 0:
            count, position = varint_at(data, positions[row], end)
        if count:
            row_bits[row >> 3] |= np.uint8(1 << (row & 7))
        else:
            null_rows += 1
        for _ in range(count):
            name_starts[header] = name_end
            value_starts[header] = value_end
            size, position = varint_at(data, position, end)
            copy_bytes(data, position, size, names, name_end)
            name_end += size
            size, position = varint_at(data, position + size, end)
            if size < 0:
                null_values += 1
            else:
                value_bits[header >> 3] |= np.uint8(1 << (header & 7))
                copy_bytes(data, position, size, values, value_end)
                value_end += size
                position += size
            header += 1
    starts[len(positions)] = header
    name_starts[header] = name_end
    value_starts[header] = value_end
    totals[NULL_ROWS] = null_rows
    totals[NULL_VALUES] = null_values
