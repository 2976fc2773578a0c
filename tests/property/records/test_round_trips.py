"""What is built is read again, whatever the records."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.property.records.strategies import NOW_MS, codecs, legacy_codecs, record_lists
from tidelog.records._varint import decode_varint, decode_varlong, encode_varint
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec, compress, decompress
from tidelog.records.header import check_crc, read_header
from tidelog.records.legacy import convert_down, convert_up, iterate_legacy_records
from tidelog.records.record import Record
from tidelog.records.validation import AppendRules, validate

some = settings(max_examples=examples(60), deadline=None)


@some
@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
def test_varints(small: int, large: int) -> None:
    assert decode_varint(b"x" + encode_varint(small), 1) == (small, 1 + len(encode_varint(small)))
    assert decode_varlong(encode_varint(large), 0) == (large, len(encode_varint(large)))


@some
@given(st.binary(max_size=2000), st.integers(1, 40), codecs)
def test_codecs(unit: bytes, repeats: int, codec: Codec) -> None:
    data = unit * repeats
    assert decompress(codec, compress(codec, data), len(data)) == data


@some
@given(record_lists(base_offset=11, min_size=0), codecs, st.one_of(st.none(), st.integers(0, 2**50)))
def test_batches(records: list[Record], codec: Codec, delete_horizon_ms: int | None) -> None:
    batch = build_batch(records, base_offset=11, codec=codec, delete_horizon_ms=delete_horizon_ms)
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert list(iterate_records(batch)) == records
    assert header.max_timestamp == max((record.timestamp for record in records), default=-1)


@some
@given(st.lists(record_lists(max_size=3), max_size=4), st.integers(0, 80))
def test_a_log_of_batches_is_walked_to_its_last_whole_one(batches: list[list[Record]], cut: int) -> None:
    parts = [build_batch(records) for records in batches]
    data = b"".join(parts)
    data = data[: max(0, len(data) - cut)]
    positions = [position for position, _ in iterate_batches(data)]
    ends = [sum(map(len, parts[: index + 1])) for index in range(len(parts))]
    assert len(positions) == sum(end <= len(data) for end in ends)


@some
@given(record_lists(base_offset=4, with_headers=False), legacy_codecs, st.sampled_from([0, 1]))
def test_down_to_an_old_magic_and_up_again(records: list[Record], codec: Codec, magic: int) -> None:
    message_set = convert_down(build_batch(records, base_offset=4, codec=codec), magic)
    expected = records if magic else [record._replace(timestamp=-1) for record in records]
    assert list(iterate_legacy_records(message_set)) == expected
    batch = convert_up(message_set, base_offset=4)
    assert list(iterate_records(batch)) == expected
    assert read_header(batch).codec is codec


@some
@given(record_lists(), codecs, st.one_of(st.none(), codecs), st.booleans())
def test_checking_keeps_the_records(
    records: list[Record], codec: Codec, target: Codec | None, is_compacted: bool
) -> None:
    """Whatever else the topic asks for, the records stay the same and only their offsets are assigned."""
    keyed = [record._replace(key=record.key or b"") for record in records]
    batch = build_batch(keyed, codec=codec)
    rules = AppendRules(codec=target, is_compacted=is_compacted)
    validated = validate(batch, rules, base_offset=900, leader_epoch=1, now_ms=NOW_MS)
    assert list(iterate_records(validated.records)) == [record._replace(offset=record.offset + 900) for record in keyed]
    assert check_crc(validated.records, 0, read_header(validated.records))
