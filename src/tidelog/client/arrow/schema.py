"""The columns of records in Arrow: names, types and order as Spark's Kafka source has them.

key            binary, null where the record has none
value          binary, null for a tombstone
topic          string
partition      int32
offset         int64
timestamp      timestamp[us, UTC]
timestampType  int32, 0 for CreateTime and 1 for LogAppendTime
headers        list<struct<key: string, value: binary>>, null where there are none
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from tidelog.records.kernels.arrow_decode import BinaryColumn, Columns, Wanted
from tidelog.records.record import Headers

HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")

SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP_TYPE),
        ("timestampType", pa.int32()),
        ("headers", HEADERS_TYPE),
    ]
)

ROWS_MAX: Final = 4 * 1024 * 1024
"""Records of one Arrow batch: so many names of a topic are within what a column of strings can hold."""


def schema_of(columns: Sequence[str] | None) -> pa.Schema:
    """The schema of these columns, in this order; all of them for None. Raises ValueError for unknown ones."""
    if columns is None:
        return SCHEMA
    unknown = [name for name in columns if name not in SCHEMA.names]
    if unknown:
        raise ValueError(f"records have no column {unknown[0]!r}; there are {', '.join(SCHEMA.names)}")
    return pa.schema([SCHEMA.field(name) for name in columns])


def wanted_by(schema: pa.Schema) -> Wanted:
    """What has to be decoded for a schema."""
    return Wanted("key" in schema.names, "value" in schema.names, "headers" in schema.names)


def record_batches(columns: Columns, topic: str, partition: int, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Columns of one partition as Arrow batches over the same memory."""
    whole = {name: _ARRAYS[name](columns) for name in schema.names if name in _ARRAYS}
    batches: list[pa.RecordBatch] = []
    for start in range(0, columns.record_count, ROWS_MAX):
        count = min(ROWS_MAX, columns.record_count - start)
        same = {"topic": (topic, pa.string()), "partition": (partition, pa.int32())}
        arrays = [
            whole[name].slice(start, count) if name in whole else pa.repeat(pa.scalar(*same[name]), count)
            for name in schema.names
        ]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return batches


def _fixed(kind: pa.DataType, count: int, numbers: Any) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(numbers)])


def _binary(count: int, column: BinaryColumn | None) -> pa.Array:
    assert column is not None, "a column was asked for that was not decoded"
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.positions), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers, column.null_count)


def _headers(count: int, headers: list[Headers] | None) -> pa.Array:
    if headers is None:
        return pa.nulls(count, HEADERS_TYPE)
    rows = [[{"key": _text(key), "value": value} for key, value in each] if each else None for each in headers]
    return pa.array(rows, HEADERS_TYPE)


def _text(name: str) -> str:
    """A header's name; bytes in it that are no UTF-8 are replaced, as Arrow's strings cannot have them."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


_ARRAYS: Final = {
    "key": lambda columns: _binary(columns.record_count, columns.keys),
    "value": lambda columns: _binary(columns.record_count, columns.values),
    "offset": lambda columns: _fixed(pa.int64(), columns.record_count, columns.offsets),
    "timestamp": lambda columns: _fixed(TIMESTAMP_TYPE, columns.record_count, columns.timestamps_us),
    "timestampType": lambda columns: _fixed(pa.int32(), columns.record_count, columns.timestamp_types),
    "headers": lambda columns: _headers(columns.record_count, columns.headers),
}
