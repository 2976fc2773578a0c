"""Converts the columns of a table to keys, values, partitions, timestamps and headers.

Called by `writing`, for one contiguous piece of a table at a time.
"""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.client.errors import SerializationFailed
from tidelog.records.record import Headers

_NO_TIMESTAMP: Final = -1

_BYTES_LIKE: Final = (
    pa.types.is_binary,
    pa.types.is_string,
    pa.types.is_large_binary,
    pa.types.is_large_string,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
    pa.types.is_string_view,
)


def binary_column(piece: pa.RecordBatch, name: str) -> pa.Array | None:
    """A column as Arrow's binary; None if it is null throughout. Text becomes UTF-8."""
    array = piece.column(name)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count == len(array):
        return None
    if pa.types.is_binary(array.type):
        return array
    if not any(matches(array.type) for matches in _BYTES_LIKE):
        raise SerializationFailed(f"column {name!r} is {array.type}: make it binary or string to send it")
    return array.cast(pa.binary())


def partition_column(piece: pa.RecordBatch, name: str, partition_count: int) -> pa.Array:
    """Partitions as 64-bit numbers; null where the key is to decide."""
    array = piece.column(name)
    if not pa.types.is_integer(array.type):
        raise SerializationFailed(f"column {name!r} is {array.type}: partitions are integers")
    if array.null_count < len(array):
        bounds = pc.min_max(array).as_py()
        for partition in bounds.values():
            check_partition(partition, partition_count)
    return array.cast(pa.int64())


def check_partition(partition: int, partition_count: int) -> None:
    """Refuse a partition that the topic does not have."""
    if not 0 <= partition < partition_count:
        raise ValueError(f"partition {partition} does not exist: the topic has {partition_count}")


def timestamp_column(piece: pa.RecordBatch, name: str, now_ms: int) -> pa.Array:
    """Times in milliseconds, as numbers. Null, and Kafka's -1 for none, become now."""
    array = piece.column(name)
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms", array.type.tz), safe=False)
    elif not pa.types.is_integer(array.type):
        raise SerializationFailed(f"column {name!r} is {array.type}: times are timestamps, or milliseconds as integers")
    array = array.cast(pa.int64())
    array = pc.fill_null(pc.if_else(pc.equal(array, _NO_TIMESTAMP), None, array), now_ms)
    if len(array) and (earliest := pc.min(array).as_py()) < 0:
        raise ValueError(f"column {name!r} has the time {earliest}, which is before 1970")
    return array


def header_column(piece: pa.RecordBatch, name: str) -> list[Headers] | None:
    """The headers of each row; None if there are none at all."""
    array = piece.column(name)
    if array.null_count == len(array):
        return None
    kind = array.type
    is_pairs = pa.types.is_list(kind) and pa.types.is_struct(kind.value_type) and kind.value_type.num_fields == 2
    if not (is_pairs or pa.types.is_map(kind)):
        raise SerializationFailed(f"column {name!r} is {kind}: headers are list<struct<key: string, value: binary>>")
    rows = [tuple([_header(name, each) for each in row or ()]) for row in array.to_pylist()]
    return rows if any(rows) else None


def _header(column: str, pair: Any) -> tuple[str, bytes | None]:
    name, value = pair.values() if isinstance(pair, dict) else pair
    if isinstance(value, str):
        value = value.encode()
    if not isinstance(name, str) or not (value is None or isinstance(value, bytes)):
        raise SerializationFailed(f"column {column!r} has the header {name!r}={value!r}: not a pair of text and bytes")
    return name, value
