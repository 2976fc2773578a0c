"""`bulk` makes the very bytes that `builder` makes, whatever the records."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.records import bulk
from tidelog.records.builder import BatchBuilder
from tidelog.records.bulk import assemble_batch, assemble_in_python
from tidelog.records.checksum import crc32c
from tidelog.records.compression import Codec
from tidelog.records.header import check_crc, read_header, stamp_producer

texts = st.text(max_size=20)
contents = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(texts, contents), max_size=3).map(tuple)
records = st.lists(st.tuples(st.integers(0, 1 << 42), contents, contents, headers), min_size=1, max_size=150)
codecs = st.sampled_from([Codec.NONE, Codec.GZIP, Codec.ZSTD])
producers = st.tuples(st.integers(-1, 1 << 60), st.integers(-1, 0x7FFF), st.integers(-1, 0x7FFFFFFF), st.booleans())


@given(records, codecs, producers)
@settings(deadline=None, max_examples=examples(80))
def test_a_batch_is_the_builders_byte_for_byte(records, codec, producer) -> None:
    made = assemble_batch(
        records,
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        is_transactional=producer[3],
    )
    builder = BatchBuilder(codec=codec)
    for timestamp, key, value, head in records:
        builder.append(timestamp, key, value, head)
    expected = builder.build(
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        is_transactional=producer[3],
    )
    assert bytes(made.buffer[: made.size_bytes]) == expected
    assert made.has_one_timestamp == (len({record[0] for record in records}) == 1)


def _assembled_in_python(records, stamp) -> Any:
    try:
        return assemble_in_python(records, bytearray, Codec.NONE, None, *stamp)
    except Exception:
        return None


int64s = st.integers(-(2**63), 2**63 - 1)
times = st.one_of(st.integers(0, 1 << 42), st.integers(5, 7), int64s, st.integers(-(2**70), 2**70))
strange = st.one_of(st.just(bytearray(b"a")), st.just(memoryview(b"a")), st.just("a"), st.just(5))
any_records = st.lists(
    st.one_of(
        st.tuples(times, contents, contents, st.just(())),
        st.tuples(times, contents, contents, headers),
        st.tuples(times, contents | strange, contents | strange, st.just(())),
        st.tuples(times, contents, contents),
    ),
    max_size=20,
)
stamps = st.tuples(st.integers(-(2**16), 2**16), int64s, st.integers(-(2**16), 2**16), st.integers(-(2**32), 2**32))
usual_stamps = st.tuples(st.sampled_from([0, 16]), int64s, st.integers(-1, 0x7FFF), st.integers(-1, 0x7FFFFFFF))


@pytest.mark.skipif(bulk._assemble is None, reason="the C module was not built")
@given(any_records | st.lists(st.tuples(times, contents, contents, st.just(())), max_size=200), usual_stamps | stamps)
@settings(deadline=None, max_examples=examples(300))
def test_the_c_function_makes_what_the_python_one_makes_or_leaves_it_to_it(records, stamp) -> None:
    assert bulk._assemble is not None
    for given_records in (records, tuple(records)):
        made = bulk._assemble(given_records, bytearray, *stamp, crc32c)
        assert made is None or made == _assembled_in_python(given_records, stamp)


@pytest.mark.skipif(bulk._assemble is None, reason="the C module was not built")
@given(records=st.lists(st.tuples(st.integers(0, 1 << 42), contents, contents, st.just(())), min_size=1, max_size=20))
@settings(deadline=None, max_examples=examples(50))
def test_the_c_function_leaves_plain_records_to_none_other(records) -> None:
    assert bulk._assemble is not None
    assert bulk._assemble(records, bytearray, 0, -1, -1, -1, crc32c) is not None


@pytest.mark.skipif(bulk._assemble is None, reason="the C module was not built")
@pytest.mark.parametrize("change", [list.clear, list.pop, lambda records: records.append((1, None, bytes(99), ()))])
def test_records_that_change_while_their_buffer_is_asked_for_are_rejected(change) -> None:
    """They were measured before, and the buffer has room for those."""
    records = [(1, b"k", b"v", ()), (1, b"k", b"w", ())]

    def buffer_of(size: int) -> bytearray:
        change(records)
        return bytearray(size)

    with pytest.raises(ValueError, match="records changed"):
        assemble_batch(records, buffer_of)


@pytest.mark.skipif(bulk._assemble is None, reason="the C module was not built")
def test_a_buffer_that_is_too_small_is_rejected() -> None:
    with pytest.raises(ValueError, match="too small"):
        assemble_batch([(1, b"k", b"v", ())], lambda size: bytearray(size - 1))


@given(records, producers, producers)
@settings(deadline=None, max_examples=examples(40))
def test_a_stamped_batch_is_as_if_built_so(records, first, second) -> None:
    def build(producer):
        return assemble_batch(
            records,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
            is_transactional=producer[3],
        )

    made, other = build(first), build(second)
    stamp_producer(made.buffer, made.size_bytes, *second)
    assert made.buffer == other.buffer
    assert check_crc(made.buffer, 0, read_header(made.buffer))
