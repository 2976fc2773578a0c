"""A piece of a segment's file as Arrow batches: what one Spark task does. Called by `files`.

Batches of today go through the same decoders as fetched ones. Message sets from before Kafka 0.11 (magic 0 and 1) are
rare enough to be decoded one message at a time.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tidelog.client.aio.consumer.types import FetchedBatches
from tidelog.client.arrow.reading import decode_columns, make_decoder
from tidelog.client.arrow.schema import record_batches
from tidelog.records.errors import CorruptRecordError, InvalidRecordError
from tidelog.records.header import LOG_APPEND_TIME_BIT, MAGIC, TimestampType
from tidelog.records.kernels.arrow_decode import Columns, Decoder, micros
from tidelog.records.legacy import iterate_legacy_records
from tidelog.records.record import Record
from tidelog.spark.source.columns import Projection
from tidelog.spark.source.files_scan import FileEnd, Located, Window, corrupt, windows
from tidelog.storage.segment.transaction_index import AbortedTransaction

ROWS_A_BATCH: Final = 10_000
_NO_TIMESTAMP_TYPE: Final = -1
"""What Kafka's clients say of messages of magic 0."""


@dataclass(frozen=True)
class SegmentSplit(InputPartition):
    """Some bytes of a segment, and which of the records in them to give. Pickled to the task that reads it."""

    path: str
    topic: str
    partition: int
    start_position: int
    end_position: int
    may_be_torn: bool
    first_offset: int
    end_offset: int
    aborted: tuple[AbortedTransaction, ...] = ()
    check_crcs: bool = True


def read_split(split: SegmentSplit, projection: Projection) -> Iterator[pa.RecordBatch]:
    """The records of a split, at most 10,000 a batch. Raises CorruptRecordError, naming the file and the byte."""
    decoder = make_decoder(projection.wanted)
    end = FileEnd(split.end_position, split.may_be_torn)
    for window in windows(split.path, split.start_position, end, check_crcs=split.check_crcs):
        for is_legacy, group in groupby(window.batches, lambda each: each.header.magic < MAGIC):
            run = [each for each in group if _concerns(each, split)]
            if not run:
                continue
            decode = _legacy_run if is_legacy else _run
            yield from decode(window, run, split, projection.schema, decoder)
        if window.batches[-1].next_offset >= split.end_offset:
            return


def _concerns(batch: Located, split: SegmentSplit) -> bool:
    if batch.next_offset <= split.first_offset:
        return False
    # The offset of an old message may be that of the last one inside it, so its first one is not known here.
    return batch.header.magic < MAGIC or batch.header.base_offset < split.end_offset


def _run(
    window: Window, run: Sequence[Located], split: SegmentSplit, schema: pa.Schema, decoder: Decoder
) -> Iterator[pa.RecordBatch]:
    """Batches of magic 2 that follow each other."""
    first, last = run[0], run[-1]
    data = window.data[first.start : last.start + last.header.size_bytes]
    first_offset = max(split.first_offset, first.header.base_offset)
    aborted = tuple(
        (each.producer_id, each.first_offset)
        for each in split.aborted
        if each.last_offset >= first.header.base_offset and each.first_offset < last.next_offset
    )
    fetched = FetchedBatches(split.topic, split.partition, data, first_offset, last.next_offset, aborted)
    try:
        for columns in decode_columns(fetched, decoder):
            count = _rows_before(columns, split.end_offset)
            for batch in record_batches(columns, split.topic, split.partition, schema):
                yield from _sliced(batch, min(count, batch.num_rows))
                count -= min(count, batch.num_rows)
    except CorruptRecordError as error:
        raise corrupt(split.path, first.position, f"{error}, in the {len(data)} bytes from here") from error


def _rows_before(columns: Columns, end_offset: int) -> int:
    if columns.record_count and columns.offsets[columns.record_count - 1] < end_offset:
        return columns.record_count
    return bisect_left(columns.offsets, end_offset, 0, columns.record_count)


def _sliced(batch: pa.RecordBatch, count: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, count, ROWS_A_BATCH):
        yield batch.slice(start, min(ROWS_A_BATCH, count - start))


def _legacy_run(
    window: Window, run: Sequence[Located], split: SegmentSplit, schema: pa.Schema, _decoder: Decoder
) -> Iterator[pa.RecordBatch]:
    """Messages of magic 0 and 1, wrapped or not."""
    rows: list[tuple[Record, int]] = []
    for each in run:
        message = window.data[each.start : each.start + each.header.size_bytes]
        try:
            records = list(iterate_legacy_records(message))
        except (CorruptRecordError, InvalidRecordError) as error:
            raise corrupt(split.path, each.position, str(error)) from error
        kind = _timestamp_type(each)
        rows += [(record, kind) for record in records if split.first_offset <= record.offset < split.end_offset]
        if len(rows) >= ROWS_A_BATCH:
            yield from _legacy_batches(rows, split, schema)
            rows = []
    yield from _legacy_batches(rows, split, schema)


def _timestamp_type(batch: Located) -> int:
    if batch.header.magic == 0:
        return _NO_TIMESTAMP_TYPE
    is_append_time = batch.header.attributes & LOG_APPEND_TIME_BIT
    return int(TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME)


def _legacy_batches(
    rows: Sequence[tuple[Record, int]], split: SegmentSplit, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), ROWS_A_BATCH):
        some = rows[start : start + ROWS_A_BATCH]
        columns: dict[str, list[Any]] = {
            "key": [record.key for record, _ in some],
            "value": [record.value for record, _ in some],
            "topic": [split.topic] * len(some),
            "partition": [split.partition] * len(some),
            "offset": [record.offset for record, _ in some],
            "timestamp": [micros(record.timestamp) for record, _ in some],
            "timestampType": [kind for _, kind in some],
            "headers": [None] * len(some),
        }
        arrays = [pa.array(columns[field.name], field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
