"""`bulk` makes the very bytes that `builder` makes, whatever the records."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.records.builder import BatchBuilder
from tidelog.records.bulk import assemble_batch
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
