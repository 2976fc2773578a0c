"""Decoded columns as the Arrow batches that Spark wants: its schema, its order, at most 10,000 rows each.

Over the memory that the kernels filled; only what every row has in common (topic, partition) is made here, once for
each task. `task_reader` is the caller.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.records.kernels.arrow_decode import BinaryColumn, Columns
from tidelog.spark.sentences import ForeseenError
from tidelog.spark.source.columns import HEADERS, Projection

ROWS_MAX: Final = 10_000
"""Fewer cost more for each row, more gain nothing and take memory."""

_MICROS_MAX: Final = 2**63 - 1
_MICROS_MIN: Final = -(2**63)


class MalformedTimestamp(ForeseenError, ValueError):  # noqa: N818 - says what was found
    """A record's time is beyond what Spark's timestamps reach."""


class ArrowRows:
    """Makes the batches of one partition of one topic."""

    def __init__(self, projection: Projection, topic: str, partition: int) -> None:
        self._projection = projection
        self._where = f"{topic}-{partition}"
        common: Mapping[str, Any] = {"topic": topic, "partition": partition}
        self._common = {
            name: pa.repeat(pa.scalar(common[name], projection.schema.field(name).type), ROWS_MAX)
            for name in projection.names
            if name in common
        }

    def batches(self, columns: Columns, end_offset: int, headers: pa.Array | None = None) -> Iterator[pa.RecordBatch]:
        """The rows before `end_offset`. `headers` is their column, if it was decoded as one."""
        count = _rows_before(columns, end_offset)
        schema = self._projection.schema
        whole = {} if headers is None else {HEADERS: headers}
        for field in schema:
            if field.name not in self._common and field.name not in whole:
                whole[field.name] = _ARRAYS[field.name](columns, field.type)
        if "timestamp" in whole and count:
            self._check_times(columns, whole["timestamp"], count)
        for start in range(0, count, ROWS_MAX):
            rows = min(ROWS_MAX, count - start)
            arrays = [
                whole[name].slice(start, rows) if name in whole else self._common[name].slice(0, rows)
                for name in self._projection.names
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _check_times(self, columns: Columns, times: pa.Array, count: int) -> None:
        """The kernels clamp a timestamp that does not fit; fail instead of showing a wrong one."""
        bounds = pc.min_max(times.slice(0, count).cast(pa.int64()))
        if bounds["max"].as_py() == _MICROS_MAX or bounds["min"].as_py() == _MICROS_MIN:
            bad = next(i for i in range(count) if columns.timestamps_us[i] in (_MICROS_MAX, _MICROS_MIN))
            raise MalformedTimestamp(
                f"the record at offset {columns.offsets[bad]} of {self._where} has a timestamp beyond the range "
                "of Spark: omit the column with .schema(...) to read the record"
            )


def _rows_before(columns: Columns, end_offset: int) -> int:
    count = columns.record_count
    if count and columns.offsets[count - 1] < end_offset:
        return count
    return bisect_left(columns.offsets, end_offset, 0, count)


def _fixed(kind: pa.DataType, count: int, numbers: Any) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(numbers)])


def _binary(kind: pa.DataType, count: int, column: BinaryColumn | None) -> pa.Array:
    assert column is not None, "a column was asked for that was not decoded"
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.positions), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, count, buffers, column.null_count)


def _headers(columns: Columns, kind: pa.DataType) -> pa.Array:
    """Lists of pairs, built column by column; null where a record has none, as in the official connector."""
    rows = columns.headers
    if rows is None:
        return pa.nulls(columns.record_count, kind)
    names: list[str] = []
    values: list[bytes | None] = []
    starts: list[int | None] = []
    for row in rows:
        starts.append(len(names) if row else None)
        for name, value in row:
            names.append(_text(name))
            values.append(value)
    starts.append(len(names))
    fields = [kind.value_type.field(index) for index in range(kind.value_type.num_fields)]
    pairs = pa.StructArray.from_arrays([pa.array(names, pa.string()), pa.array(values, pa.binary())], fields=fields)
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pairs, type=kind)


def _text(name: str) -> str:
    """A header's name; bytes in it that are no UTF-8 are replaced, as Arrow's strings cannot have them."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


_ARRAYS: Final[Mapping[str, Callable[[Columns, pa.DataType], pa.Array]]] = {
    "key": lambda columns, kind: _binary(kind, columns.record_count, columns.keys),
    "value": lambda columns, kind: _binary(kind, columns.record_count, columns.values),
    "offset": lambda columns, kind: _fixed(kind, columns.record_count, columns.offsets),
    "timestamp": lambda columns, kind: _fixed(kind, columns.record_count, columns.timestamps_us),
    "timestampType": lambda columns, kind: _fixed(kind, columns.record_count, columns.timestamp_types),
    "headers": _headers,
}
