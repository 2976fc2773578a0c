"""Fetched bytes: walked and decoded as the plain code does it, whatever they are."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.client.aio.consumer.types import FetchedBatches
from tidelog.client.arrow.reading import decode_columns
from tidelog.records.batch import iterate_batches
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.records.errors import CorruptRecordError
from tidelog.records.kernels.arrow_decode import PlainDecoder, Wanted
from tidelog.records.record import Record
from tidelog.spark.source.arrow_rows import ArrowRows
from tidelog.spark.source.batch_walk import modernised, walk_batches
from tidelog.spark.source.columns import full_schema, make_projection
from tidelog.spark.source.header_columns import HeaderDecoder

PROJECTION = make_projection(full_schema({"includeHeaders": "true"}))
quick = settings(max_examples=examples(40), deadline=None)
names = st.text(max_size=6) | st.binary(max_size=4).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=6)), max_size=3).map(tuple)


@st.composite
def logs(draw):
    """Batches one after another, with gaps between and inside, some compressed."""
    parts, offset = [], draw(st.integers(0, 5))
    for _ in range(draw(st.integers(1, 4))):
        base, records = offset, []
        for _ in range(draw(st.integers(1, 6))):
            key, value = draw(st.none() | st.binary(max_size=5)), draw(st.none() | st.binary(max_size=20))
            records.append(Record(offset, draw(st.integers(0, 2**41)), key, value, draw(headers)))
            offset += draw(st.integers(1, 3))
        parts.append(build_batch(records, base_offset=base, codec=draw(st.sampled_from([Codec.NONE, Codec.LZ4]))))
        offset += draw(st.integers(0, 3))
    return b"".join(parts)


@quick
@given(logs(), st.integers(0, 30), st.integers(0, 30), st.integers(0, 80))
def test_a_walk_sees_the_whole_batches_before_the_end(data, first, size, cut):
    data = memoryview(data)[: max(len(data) - cut, 0)]
    end = first + size
    walk = walk_batches(data, first, end, check_crcs=True)
    whole = [(position, header) for position, header in iterate_batches(data) if header.base_offset < end]
    assert walk.size_bytes == sum(header.size_bytes for _, header in whole)
    assert walk.next_offset >= first
    if whole:
        assert walk.next_offset >= whole[-1][1].next_offset
    assert modernised(data[: walk.size_bytes]) == bytes(data[: walk.size_bytes])


@quick
@given(logs(), st.data())
def test_a_flipped_bit_is_found(data, draw):
    position = draw.draw(st.integers(21, len(data) - 1))
    damaged = bytearray(data)
    damaged[position] ^= 1 << draw.draw(st.integers(0, 7))
    try:
        walk = walk_batches(memoryview(damaged), 0, 2**60, check_crcs=True)
    except CorruptRecordError:
        return
    # What is not covered by a checksum are the first bytes of a later batch: its offset, length, epoch and magic.
    assert (
        walk.size_bytes < len(data)
        or walk.has_old_format
        or any(start <= position < start + 21 for start, _ in iterate_batches(data))
    )


@quick
@given(st.binary(max_size=200))
def test_any_bytes_are_walked_or_refused(data):
    try:
        walk = walk_batches(memoryview(data), 0, 100, check_crcs=True)
    except CorruptRecordError:
        return
    assert 0 <= walk.size_bytes <= len(data)


@pytest.mark.parametrize("wanted", [Wanted(), Wanted(keys=False, values=False)])
@quick
@given(data=logs(), first=st.integers(0, 12))
def test_headers_are_the_same_column_compiled_or_not(wanted, data, first):
    fetched = FetchedBatches("t", 0, memoryview(data), first, 1000, ())
    kind = PROJECTION.schema.field("headers").type
    compiled = HeaderDecoder(wanted, kind)
    found = [compiled.take_headers() for _ in decode_columns(fetched, compiled)]
    expected = []
    rows = ArrowRows(PROJECTION, "t", 0)
    for columns in decode_columns(fetched, PlainDecoder()):
        expected += [batch["headers"] for batch in rows.batches(columns, 1000)]
    assert pa.chunked_array(found, kind).to_pylist() == pa.chunked_array(expected, kind).to_pylist()
    for array in found:
        array.validate(full=True)


def test_the_shortest_message_is_not_left_out_at_the_end():
    """Without key and value it is a byte shorter than the fields of a batch that tell its offsets."""
    message = bytes.fromhex("00000000000000090000000ea7ec68030000ffffffffffffffff")
    walk = walk_batches(memoryview(message), 9, 100, check_crcs=True)
    assert walk == (len(message), 10, True)
    assert [header.base_offset for _, header in iterate_batches(modernised(memoryview(message)))] == [9]
