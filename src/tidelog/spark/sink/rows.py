"""Checks rows, and chooses the partitions of their records.

The columns are those of Spark's own connector, found by their exact names; other columns are left out. `check_columns`
runs on the driver when a write is planned, the rest in tasks, on whole columns.
"""

import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from tidelog.client.aio.producer.partitioners import own_partitioner
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.arrow.columns import binary_column
from tidelog.client.arrow.encoding import Encoding, Piece, compiled_encoding, plain_encoding
from tidelog.spark.options import OptionError
from tidelog.spark.sink.errors import SinkError

ROWS_FOR_KERNELS: Final = 2000

_KERNELS: Final = "tidelog.records.kernels.arrow_encode_compiled"
_UNBOUNDED: Final = 1 << 62
_COLUMNS: Final = ("key", "value", "headers", "topic", "partition")


class NoSuchPartition(SinkError):  # noqa: N818 - says what is wrong
    """A row names a partition that its topic does not have, as far as is known."""


class _Rule(NamedTuple):
    """The types that a column may have."""

    fits: tuple[type[DataType], ...]
    words: str


_RULES: Final = {
    "value": _Rule((StringType, BinaryType), "string or binary"),
    "key": _Rule((StringType, BinaryType), "string or binary"),
    "headers": _Rule((ArrayType,), "array<struct<key:string,value:binary>>"),
    "topic": _Rule((StringType,), "string"),
    "partition": _Rule((IntegerType,), "int"),
}


def check_columns(schema: StructType, topic: str | None) -> tuple[str, ...]:
    """The columns to be written, in our order. Raises OptionError for what is missing or of another type."""
    kinds = {field.name: field.dataType for field in schema.fields}
    if "value" not in kinds:
        raise OptionError(f"the column 'value' is missing: the columns are {', '.join(kinds) or 'none'}")
    if topic is None and "topic" not in kinds:
        raise OptionError("the topic is missing: set the option 'topic', or add a column 'topic'")
    unused = "topic" if topic is not None else None
    for name, rule in _RULES.items():
        kind = None if name == unused else kinds.get(name)
        if kind is not None and not _fits(name, kind, rule):
            raise OptionError(f"the column {name!r} is {kind.simpleString()}: it must be {rule.words}")
    return tuple(name for name in _COLUMNS if name in kinds and name != unused)


def _fits(name: str, kind: DataType, rule: _Rule) -> bool:
    if not isinstance(kind, rule.fits):
        return False
    if name != "headers":
        return True
    assert isinstance(kind, ArrayType)
    pair = kind.elementType
    return (
        isinstance(pair, StructType)
        and [field.name for field in pair.fields] == ["key", "value"]
        and isinstance(pair.fields[0].dataType, StringType)
        and isinstance(pair.fields[1].dataType, BinaryType)
    )


def is_worth_kernels(row_count: int) -> bool:
    """Whether rows are many enough to load the compiled kernels for, or these are loaded already.

    Loading takes a worker more than a second, which a stream of small batches would wait for.
    """
    return row_count >= ROWS_FOR_KERNELS or _KERNELS in sys.modules


def by_topic(rows: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic, in their order."""
    if topic is not None:
        yield topic, rows
        return
    names = rows.column("topic")
    if names.null_count:
        raise SinkError(
            f"{names.null_count} of {rows.num_rows} rows have no topic: the column 'topic' is null there. "
            "Set the option 'topic', or fill the column ('to_topic' in a pipeline)"
        )
    found = names.unique().to_pylist()
    if len(found) == 1:
        yield found[0], rows
        return
    for name in found:
        yield name, rows.filter(pc.equal(names, name))


def checked_headers(headers: pa.Array) -> pa.Array:
    """The column of headers. Raises SinkError where one of the pairs in it is null, or has no name."""
    pairs = headers.flatten()
    nameless = pairs.null_count or pairs.field("key").null_count
    if nameless:
        raise SinkError(f"{nameless} headers are null or have no key: only the value of a header may be null")
    return headers


class Partitioner:
    """Chooses partitions as Kafka's producer does: the column `partition`, else murmur2 of the key, else `spread`."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self._plain = plain_encoding(settings)
        self._compiled: Encoding | None = None
        self._own = own_partitioner(settings.partitioner_class)

    def choose(
        self, rows: pa.RecordBatch, topic: str, partition_count: int, *, spread: int, sticky_bytes: int = _UNBOUNDED
    ) -> pa.Array:
        """A partition for every row, as 64-bit numbers. Rows without key begin at `spread`, and move on after
        `sticky_bytes`."""
        given = self._given(rows, topic, partition_count)
        if given is not None and not given.null_count:
            return given
        names = rows.schema.names
        keys = binary_column(rows, "key") if "key" in names else None
        values = binary_column(rows, "value") if "value" in names else None
        piece = Piece(rows.num_rows, keys, values, None, None)
        if self._own is not None:
            chosen = self._asked(piece, topic, partition_count)
        else:
            encoding = self._encoding(rows.num_rows)
            chosen, _ = encoding.choose(piece, partition_count, spread % partition_count, sticky_bytes)
        return chosen if given is None else pc.coalesce(given, chosen)

    def _encoding(self, row_count: int) -> Encoding:
        if self._compiled is None and is_worth_kernels(row_count):
            self._compiled = compiled_encoding(self._settings)
        return self._compiled or self._plain

    def _given(self, rows: pa.RecordBatch, topic: str, partition_count: int) -> pa.Array | None:
        if "partition" not in rows.schema.names:
            return None
        given = rows.column("partition")
        if given.null_count == len(given):
            return None
        bounds = pc.min_max(given).as_py()
        for partition in bounds.values():
            _check_partition(partition, topic, partition_count)
        return given.cast(pa.int64())

    def _asked(self, piece: Piece, topic: str, partition_count: int) -> pa.Array:
        assert self._own is not None
        chosen = [
            self._own(topic, key, value, partition_count)
            for key, value in zip(piece.key_list(), piece.value_list(), strict=True)
        ]
        for partition in set(chosen):
            _check_partition(partition, topic, partition_count)
        return pa.array(chosen, pa.int64())


def _check_partition(partition: int, topic: str, partition_count: int) -> None:
    if not 0 <= partition < partition_count:
        raise NoSuchPartition(f"topic {topic!r} has no partition {partition}: it has {partition_count}")
