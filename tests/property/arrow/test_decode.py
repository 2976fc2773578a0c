"""The compiled decoder gives what the plain one gives, whatever the bytes are."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.arrow.strategies import batches, logs
from tests.property.effort import examples
from tests.unit.present import present
from tidelog.client.aio.consumer.types import FetchedBatches
from tidelog.client.arrow.reading import decode_columns
from tidelog.client.arrow.schema import SCHEMA, record_batches
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.compression import Codec
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import HEADER_BYTES, read_header
from tidelog.records.kernels.arrow_decode import PlainDecoder, Wanted, micros
from tidelog.records.kernels.arrow_decode_compiled import CompiledDecoder

_MODEST = settings(deadline=None, max_examples=examples(60))


def _rows(decoder, fetched, bytes_max=2**31 - 1):
    rows = []
    for columns in decode_columns(fetched, decoder, bytes_max):
        for batch in record_batches(columns, fetched.topic, fetched.partition, SCHEMA):
            batch.validate(full=True)
            # Times beyond what Python's calendar has are compared as numbers.
            rows += batch.set_column(5, "timestamp", batch.column(5).cast("int64")).to_pylist()
    return rows


def _fetched(data, first_offset=0, aborted=()):
    return FetchedBatches("orders", 3, memoryview(data), first_offset, 0, tuple(aborted))


@_MODEST
@given(
    logs(),
    st.integers(0, 40_000),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30_000)), max_size=3),
    st.sampled_from([1, 500, 2**31 - 1]),
)
def test_both_decoders_make_the_same_columns_of_the_same_log(data, first_offset, aborted, bytes_max):
    fetched = _fetched(data, first_offset, aborted)
    assert _rows(CompiledDecoder(), fetched, bytes_max) == _rows(PlainDecoder(), fetched)


@_MODEST
@given(logs(), st.integers(0, 40_000))
def test_what_memory_held_before_does_not_show(data, first_offset):
    decoder = CompiledDecoder(Wanted(), lambda count, kind: np.full(count, -1).astype(kind))
    fetched = _fetched(data, first_offset)
    assert _rows(decoder, fetched) == _rows(PlainDecoder(), fetched)


@_MODEST
@given(logs())
def test_columns_hold_what_the_records_hold(data):
    expected = [
        {
            "key": record.key,
            "value": record.value,
            "topic": "orders",
            "partition": 3,
            "offset": record.offset,
            "timestamp": micros(record.timestamp),
            "timestampType": int(header.is_log_append_time),
            "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
        }
        for position, header in iterate_batches(data)
        for record in iterate_records(data, position)
    ]
    assert _rows(CompiledDecoder(), _fetched(data)) == expected


@_MODEST
@given(logs(), st.booleans(), st.booleans())
def test_columns_that_are_not_wanted_are_not_made(data, keys, values):
    for columns in decode_columns(_fetched(data), CompiledDecoder(Wanted(keys, values, False))):
        assert (columns.keys is not None, columns.values is not None, columns.headers) == (keys, values, None)


@settings(deadline=None, max_examples=examples(150))
@given(batches(codecs=(Codec.NONE,)), st.data())
def test_damaged_records_are_refused_by_both_or_read_alike_by_both(batch, data):
    """Any byte of the records may be any other, and any number of them may be missing: nothing is read beyond them."""
    damaged = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    header = read_header(batch)
    records = bytes(damaged[HEADER_BYTES : data.draw(st.integers(HEADER_BYTES, len(batch)) | st.just(len(batch)))])
    outcomes: list[Any] = []
    for decoder in (PlainDecoder(), CompiledDecoder()):
        try:
            decoder.add_records(records, header, 0)
        except CorruptRecordError:
            outcomes.append(None)
            assert decoder.count == 0
        else:
            columns = decoder.take()
            outcomes.append([list(columns.offsets), list(columns.timestamps_us), bytes(present(columns.values).data)])
            outcomes[-1].append(columns.headers)
    assert outcomes[0] == outcomes[1]


@settings(deadline=None, max_examples=examples(150))
@given(logs(), st.data())
def test_a_damaged_log_is_decoded_or_refused_and_nothing_else(log, data):
    damaged = bytearray(log)
    if damaged:
        for _ in range(data.draw(st.integers(1, 4))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    fetched = _fetched(bytes(damaged[: data.draw(st.integers(0, len(damaged)) | st.just(len(damaged)))]))
    outcomes: list[Any] = []
    for decoder in (PlainDecoder(), CompiledDecoder()):
        try:
            outcomes.append(_rows(decoder, fetched))
        except CorruptRecordError:
            outcomes.append(None)
    assert outcomes[0] == outcomes[1]
