"""Fetched batches to Arrow: called by `poll_arrow` of both consumers, and by other users of fetched batches.

Markers are left out, and with read_committed what was aborted, as `poll` does it. Batches that are not compressed are
decoded in runs, without a step of Python for each.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tidelog.client.aio.consumer.aborted import AbortedFilter
from tidelog.client.aio.consumer.engine import ConsumerEngine
from tidelog.client.aio.consumer.errors import CorruptRecords
from tidelog.client.aio.consumer.types import FetchedBatches
from tidelog.client.arrow.schema import record_batches, schema_of, wanted_by
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.records.batch import record_data
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import HEADER_BYTES, LENGTH_PREFIX_BYTES, BatchHeader, read_header
from tidelog.records.kernels.arrow_decode import COLUMN_BYTES_MAX, Columns, Decoder, PlainDecoder, Wanted

__all__ = ["decode_columns", "make_decoder", "put_back", "to_table"]


def to_table(fetched: Sequence[FetchedBatches], columns: Sequence[str] | None = None) -> pa.Table:
    """The records of `fetched`, a chunk or more for each. Raises CorruptRecords."""
    schema = schema_of(columns)
    decoder = make_decoder(wanted_by(schema))
    batches: list[pa.RecordBatch] = []
    for each in fetched:
        try:
            for decoded in decode_columns(each, decoder):
                batches += record_batches(decoded, each.topic, each.partition, schema)
        except CorruptRecordError as error:
            raise CorruptRecords(TopicPartition(each.topic, each.partition), each.first_offset, error) from error
    return pa.Table.from_batches(batches, schema)


def put_back(engine: ConsumerEngine, fetched: Sequence[FetchedBatches]) -> None:
    """Have `fetched` fetched again: called when it could not be decoded. What was fetched first is put back last."""
    for each in reversed(fetched):
        engine.seek(TopicPartition(each.topic, each.partition), OffsetAndMetadata(each.first_offset))


def make_decoder(wanted: Wanted) -> Decoder:
    """The fast decoder where Numba is installed, else the plain one."""
    try:
        from tidelog.client.arrow.memory import arrow_memory
        from tidelog.records.kernels.arrow_decode_compiled import CompiledDecoder
    except ImportError:
        return PlainDecoder(wanted)
    return CompiledDecoder(wanted, arrow_memory)


def decode_columns(fetched: FetchedBatches, decoder: Decoder, bytes_max: int = COLUMN_BYTES_MAX) -> Iterator[Columns]:
    """The records of `fetched` that are to be seen; several times columns if one cannot hold `bytes_max` bytes."""
    data, first_offset = fetched.data, fetched.first_offset
    aborted = AbortedFilter(fetched.aborted) if fetched.aborted else None
    position, stop = 0, len(data)
    while position < stop:
        if decoder.count and decoder.data_bytes + stop - position > bytes_max:
            yield decoder.take()
        position = decoder.add_run(data, position, first_offset, sees_transactions=aborted is None)
        if position < stop:
            header = _checked_header(data, position)
            if not _is_hidden(header, first_offset, aborted):
                records = record_data(data, position, header)
                if decoder.count and decoder.data_bytes + len(records) > bytes_max:
                    yield decoder.take()
                decoder.add_records(records, header, first_offset)
            position += header.size_bytes
    if decoder.count:
        yield decoder.take()


def _checked_header(data: memoryview, position: int) -> BatchHeader:
    header = read_header(data, position)
    if header.batch_length < HEADER_BYTES - LENGTH_PREFIX_BYTES or header.size_bytes > len(data) - position:
        raise CorruptRecordError(f"batch of {header.size_bytes} bytes at byte {position} of {len(data)} is not whole")
    return header


def _is_hidden(header: BatchHeader, first_offset: int, aborted: AbortedFilter | None) -> bool:
    """Whether an application shall not see the batch."""
    if header.is_control:
        if aborted is not None:
            aborted.pass_marker(header)
        return True
    return (aborted is not None and aborted.covers(header)) or header.next_offset <= first_offset
