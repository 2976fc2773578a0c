"""The C check of a batch returns what the Python one returns, whatever the bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.records.bulk import assemble_batch
from tidelog.records.checksum import crc32c
from tidelog.records.compression import Codec
from tidelog.records.header import seal
from tidelog.records.scanner import HAS_SPEEDUPS, TIMESTAMP_MAX, TIMESTAMP_MIN
from tidelog.records.usual import read_usual, read_usual_in_python

needs_c = pytest.mark.skipif(not HAS_SPEEDUPS, reason="the C module was not built")
contents = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=5), contents), max_size=2).map(tuple)
records = st.lists(st.tuples(st.integers(-1, 1 << 42), contents, contents, headers), min_size=1, max_size=6)
producers = st.tuples(st.integers(-1, 5), st.integers(-1, 5), st.integers(-1, 5), st.booleans())
edits = st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=2)
bounds = st.tuples(
    st.sampled_from([1 << 20, 70, 100]),
    st.sampled_from([100_000, 0, 1, 3]),
    st.sampled_from([TIMESTAMP_MIN, 0, 1 << 41]),
    st.sampled_from([TIMESTAMP_MAX, 1 << 41]),
    st.booleans(),
    st.sampled_from([1000, 0, 1]),
)


def batch_of(records, codec: Codec, producer, changes: list[tuple[int, int]], is_sealed: bool, cut: int) -> bytearray:
    producer_id, epoch, sequence, is_transactional = producer
    batch = assemble_batch(
        records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
    ).buffer
    for where, byte in changes:
        batch[where % len(batch)] = byte
    if is_sealed:
        seal(batch, len(batch))
    return batch[: len(batch) - cut] if cut else batch


batches = st.builds(
    batch_of,
    records,
    st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP]),
    producers,
    edits,
    st.sampled_from([True, True, False]),
    st.sampled_from([0, 0, 0, 1, 30]),
)


@needs_c
@given(batch=batches | st.binary(max_size=100).map(bytearray), bound=bounds)
@settings(deadline=None, max_examples=examples(400))
def test_the_c_check_returns_what_the_python_one_returns(
    batch: bytearray, bound: tuple[int, int, int, int, bool, int]
) -> None:
    view = memoryview(batch)
    assert read_usual(view, *bound, crc32c) == read_usual_in_python(view, *bound, crc32c)


@given(records=records)
@settings(deadline=None, max_examples=examples(50))
def test_a_batch_as_a_producer_builds_it_is_usual(records) -> None:
    made = assemble_batch(records)
    for read in (read_usual, read_usual_in_python):
        header = read(memoryview(made.buffer), 1 << 20, 100, TIMESTAMP_MIN, TIMESTAMP_MAX, False, 100, crc32c)
        assert header is not None
        assert header[-1] == len(records)
