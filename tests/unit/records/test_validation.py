"""The checks of an append: what the hot path accepts, and which error each fault gets."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.records.golden import GOLDEN
from tidelog.records.batch import iterate_records
from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.checksum import crc32c
from tidelog.records.compression import Codec, compress
from tidelog.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)
from tidelog.records.header import HEADER_BYTES, TimestampType, check_crc, read_header
from tidelog.records.record import Record, encode_record
from tidelog.records.validation import (
    HEADERS_AT_ONCE_MAX,
    RECORDS_AT_ONCE_MAX,
    AppendRules,
    TooMuchWorkError,
    ValidatedRecords,
    assign,
    prepare,
    validate,
)
from tidelog.wire.errors import ErrorCode

NOW = 1_700_000_000_000
HOUR = 3_600_000
DEFAULT = AppendRules(after_max_ms=HOUR)
COMPACTED = AppendRules(is_compacted=True)
STAMPED = AppendRules(timestamp_type=TimestampType.LOG_APPEND_TIME)
RECORDS = [Record(index, NOW - 10 + index, b"k%d" % index, b"value") for index in range(3)]


def appended(records: Any, rules: AppendRules = DEFAULT, **options: Any) -> ValidatedRecords:
    return validate(records, rules, base_offset=500, leader_epoch=3, now_ms=NOW, **options)


@pytest.mark.parametrize("codec", Codec)
def test_of_a_good_batch_only_base_offset_and_leader_epoch_are_changed(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec, producer_id=4, producer_epoch=0, base_sequence=9, is_transactional=True)
    validated = appended(batch)
    patched = bytes(validated.records)
    assert patched[:8] + patched[12:16] == (500).to_bytes(8, "big") + (3).to_bytes(4, "big")
    assert patched[8:12] + patched[16:] == batch[8:12] + batch[16:]
    assert validated[1:] == (500, 502, NOW - 8, 502, 3, -1)


def test_a_writable_buffer_is_patched_in_place_and_a_constant_one_copied() -> None:
    batch = build_batch(RECORDS)
    buffer = bytearray(batch)
    appended(memoryview(buffer))
    assert read_header(buffer).base_offset == 500
    appended(batch)
    assert read_header(batch).base_offset == 0


@pytest.mark.parametrize(
    ("rules", "stores_as_is"),
    [
        (AppendRules(), True),
        (AppendRules(codec=Codec.NONE), True),
        (AppendRules(is_compacted=True, before_max_ms=HOUR), True),
        (AppendRules(codec=Codec.LZ4), False),
        (AppendRules(timestamp_type=TimestampType.LOG_APPEND_TIME), False),
    ],
)
def test_an_uncompressed_batch_is_stored_as_it_is_unless_the_rules_change_it(
    rules: AppendRules, stores_as_is: bool
) -> None:
    assert rules.stores_as_is is stores_as_is


def resized(batch: bytes, size: int) -> bytes:
    return batch[:8] + (size - 12).to_bytes(4, "big", signed=True) + batch[12:]


def checksum(batch: bytes | bytearray) -> bytes:
    return crc32c(bytes(batch[21:])).to_bytes(4, "big")


def with_records(data: bytes, count: int, codec: int = Codec.NONE) -> bytes:
    """A batch of any record data under a right header."""
    batch = bytearray(build_batch([Record(index, NOW, b"k", b"") for index in range(count)]))[:HEADER_BYTES] + data
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[22] = codec
    batch[17:21] = checksum(batch)
    return bytes(batch)


def control() -> bytes:
    return build_end_transaction_marker(
        is_commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW
    )


BATCH = build_batch(RECORDS)
FAULTS: dict[str, tuple[Callable[[], bytes], type[ValueError], ErrorCode]] = {
    "no bytes": (lambda: b"", InvalidRecordError, ErrorCode.INVALID_RECORD),
    "half a header": (lambda: BATCH[:40], CorruptRecordError, ErrorCode.CORRUPT_MESSAGE),
    "cut off": (lambda: BATCH[:-1], InvalidRecordError, ErrorCode.INVALID_RECORD),
    "two batches": (lambda: BATCH + BATCH, InvalidRecordError, ErrorCode.INVALID_RECORD),
    "length below the header": (lambda: resized(BATCH, 60), CorruptRecordError, ErrorCode.CORRUPT_MESSAGE),
    "negative length": (lambda: resized(BATCH, -1), CorruptRecordError, ErrorCode.CORRUPT_MESSAGE),
    "unknown magic": (lambda: BATCH[:16] + b"\3" + BATCH[17:], CorruptRecordError, ErrorCode.CORRUPT_MESSAGE),
    "old magic": (lambda: GOLDEN["magic 1 none"], InvalidRecordError, ErrorCode.INVALID_RECORD),
    "wrong checksum": (lambda: BATCH[:-1] + b"!", CorruptRecordError, ErrorCode.CORRUPT_MESSAGE),
    "base offset": (
        lambda: build_batch([Record(1, NOW, None, b"v")], base_offset=1),
        InvalidRecordError,
        ErrorCode.INVALID_RECORD,
    ),
    "more offsets than records": (
        lambda: build_batch(RECORDS, last_offset=5),
        InvalidRecordError,
        ErrorCode.INVALID_RECORD,
    ),
    "negative last offset delta": (
        lambda: build_batch(RECORDS, last_offset=-2),
        InvalidRecordError,
        ErrorCode.INVALID_RECORD,
    ),
    "no records": (lambda: build_batch([], last_offset=0), InvalidRecordError, ErrorCode.INVALID_RECORD),
    "control batch": (control, InvalidRecordError, ErrorCode.INVALID_RECORD),
    "producer id without sequence": (
        lambda: build_batch(RECORDS, producer_id=1, producer_epoch=0),
        InvalidRecordError,
        ErrorCode.INVALID_RECORD,
    ),
    "producer id without epoch": (
        lambda: build_batch(RECORDS, producer_id=1, base_sequence=0),
        InvalidRecordError,
        ErrorCode.INVALID_RECORD,
    ),
    "transaction without producer id": (
        lambda: build_batch(RECORDS, is_transactional=True),
        InvalidRecordError,
        ErrorCode.INVALID_RECORD,
    ),
    "unknown codec": (
        lambda: with_records(BATCH[HEADER_BYTES:], 3, 6),
        UnsupportedCompressionError,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ),
    "too large": (
        lambda: build_batch([Record(0, NOW, None, bytes(2_000_000))]),
        RecordTooLargeError,
        ErrorCode.MESSAGE_TOO_LARGE,
    ),
    "from the future": (
        lambda: build_batch([Record(0, NOW + HOUR + 1, None, b"v")]),
        InvalidTimestampError,
        ErrorCode.INVALID_TIMESTAMP,
    ),
}


@pytest.mark.parametrize(("make", "kind", "code"), FAULTS.values(), ids=FAULTS.keys())
def test_each_fault_gets_its_error(make: Callable[[], bytes], kind: type[ValueError], code: ErrorCode) -> None:
    batch = make()
    with pytest.raises(kind) as caught:
        appended(batch)
    assert caught.value.code is code  # type: ignore[attr-defined]
    assert type(caught.value) is kind


def test_bytes_after_the_batch_that_start_no_other_are_cut_off() -> None:
    batch = build_batch(RECORDS)
    assert len(appended(batch + bytes(5)).records) == len(batch)
    assert len(appended(batch + batch[:-1]).records) == len(batch)


def test_the_size_limit_is_inclusive() -> None:
    batch = build_batch(RECORDS)
    exact = AppendRules(max_message_bytes=len(batch))
    appended(batch, exact)
    with pytest.raises(RecordTooLargeError, match=f"max.message.bytes={len(batch) - 1}"):
        appended(batch, AppendRules(max_message_bytes=len(batch) - 1))


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    with pytest.raises(RecordBatchTooLargeError, match=r"segment\.bytes=100"):
        appended(build_batch(RECORDS), AppendRules(segment_bytes=100))


def test_a_batch_that_recompression_makes_too_large_is_refused() -> None:
    batch = build_batch([Record(0, NOW, None, bytes(5000))], codec=Codec.GZIP)
    with pytest.raises(RecordTooLargeError):
        appended(batch, AppendRules(codec=Codec.NONE, max_message_bytes=1000))


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("target", [None, Codec.NONE, Codec.ZSTD])
def test_records_without_key_are_named_on_compacted_topics(codec: Codec, target: Codec | None) -> None:
    records = [record._replace(key=None) if record.offset % 2 == 0 else record for record in RECORDS]
    with pytest.raises(InvalidRecordError) as caught:
        appended(build_batch(records, codec=codec), AppendRules(is_compacted=True, codec=target))
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in caught.value.record_errors] == [0, 2]
    assert "key" in caught.value.record_errors[0][1]
    assert "2 records" in caught.value.message


def test_an_empty_key_is_a_key() -> None:
    appended(build_batch([Record(0, NOW, b"", b"v")]), COMPACTED)


@pytest.mark.parametrize("target", [None, Codec.LZ4])
def test_timestamps_out_of_range_are_named(target: Codec | None) -> None:
    times = [NOW - 1001, NOW - 1000, NOW, NOW + 2000, NOW + 2001, -1]
    records = [Record(index, timestamp, None, b"v") for index, timestamp in enumerate(times)]
    rules = AppendRules(before_max_ms=1000, after_max_ms=2000, codec=target)
    with pytest.raises(InvalidTimestampError) as caught:
        appended(build_batch(records), rules)
    assert [index for index, _ in caught.value.record_errors] == [0, 4]
    assert str(NOW + 2001) in caught.value.record_errors[1][1]
    kept = [records[index]._replace(offset=place) for place, index in enumerate([1, 2, 3, 5])]
    assert appended(build_batch(kept), rules).max_timestamp == NOW + 2000


def test_keys_and_timestamps_at_fault_together_are_an_invalid_timestamp() -> None:
    records = [Record(0, NOW, None, b"v"), Record(1, NOW + 10, b"k", b"v")]
    with pytest.raises(InvalidTimestampError) as caught:
        appended(build_batch(records), AppendRules(is_compacted=True, after_max_ms=5))
    assert [index for index, _ in caught.value.record_errors] == [0, 1]


def test_a_max_timestamp_that_no_record_has_is_put_right() -> None:
    """The header claims the far future, the records do not: Kafka stores the batch with the true maximum."""
    batch = bytearray(build_batch(RECORDS))
    lied = build_batch([*RECORDS, Record(3, NOW + 10 * HOUR, None, b"")])
    batch[35:43] = lied[35:43]
    batch[17:21] = checksum(batch)
    validated = appended(bytes(batch))
    header = read_header(validated.records)
    assert header.max_timestamp == validated.max_timestamp == NOW - 8
    assert check_crc(validated.records, 0, header)


@pytest.mark.parametrize("codec", Codec)
def test_log_append_time_is_stamped_without_touching_the_records(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec)
    validated = appended(batch, STAMPED)
    header = read_header(validated.records)
    assert header.is_log_append_time
    assert check_crc(validated.records, 0, header)
    assert bytes(validated.records)[HEADER_BYTES:] == batch[HEADER_BYTES:]
    assert (validated.max_timestamp, validated.log_append_time, header.max_timestamp) == (NOW, NOW, NOW)
    assert {record.timestamp for record in iterate_records(validated.records)} == {NOW}


def test_a_producer_must_not_claim_log_append_time_where_the_broker_stamps() -> None:
    claimed = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=NOW)
    with pytest.raises(InvalidTimestampError) as caught:
        appended(claimed, STAMPED)
    assert len(caught.value.record_errors) == 3
    assert not read_header(appended(claimed).records).is_log_append_time


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", Codec)
def test_batches_are_stored_with_the_codec_of_the_topic(source: Codec, target: Codec) -> None:
    batch = build_batch(RECORDS, codec=source, producer_id=4, producer_epoch=1, base_sequence=9, is_transactional=True)
    validated = appended(batch, AppendRules(codec=target))
    header = read_header(validated.records)
    assert check_crc(validated.records, 0, header)
    assert header.codec is target
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional) == (4, 1, 9, True)
    assert (header.base_offset, header.partition_leader_epoch) == (500, 3)
    expected = [record._replace(offset=500 + record.offset) for record in RECORDS]
    assert list(iterate_records(validated.records)) == expected


def test_the_level_of_the_topic_is_used() -> None:
    records = [Record(0, NOW, None, b"".join(b"%d " % (number * number % 9973) for number in range(9000)))]
    sizes = [
        len(appended(build_batch(records), AppendRules(codec=Codec.GZIP, level=level)).records) for level in (1, 9)
    ]
    assert sizes[1] < sizes[0]


UNEVEN = {
    "a gap": encode_record(0, 0, b"k", b"v") + encode_record(0, 2, b"k", b"v"),
    "backwards": encode_record(0, 1, b"k", b"v") + encode_record(0, 0, b"k", b"v"),
    "all alike": encode_record(0, 0, b"k", b"v") * 2,
}


@pytest.mark.parametrize("data", UNEVEN.values(), ids=UNEVEN.keys())
def test_offsets_that_do_not_count_up_are_numbered_again(data: bytes) -> None:
    """Kafka stores an uncompressed batch with such offsets, and numbers them when it recompresses."""
    for batch, rules in (
        (with_records(data, 2), DEFAULT),
        (with_records(data, 2), COMPACTED),
        (with_records(data, 2), AppendRules(codec=Codec.GZIP)),
        (with_records(compress(Codec.LZ4, data), 2, Codec.LZ4), AppendRules(codec=Codec.GZIP)),
    ):
        numbered = appended(batch, rules)
        assert [record.offset for record in iterate_records(numbered.records)] == [500, 501]
        assert check_crc(numbered.records, 0, read_header(numbered.records))


@pytest.mark.parametrize("data", UNEVEN.values(), ids=UNEVEN.keys())
def test_offsets_in_a_compressed_batch_must_count_up(data: bytes) -> None:
    """Kafka means to number them again, too, and fails with UNKNOWN_SERVER_ERROR."""
    with pytest.raises(InvalidRecordError) as caught:
        appended(with_records(compress(Codec.LZ4, data), 2, Codec.LZ4))
    assert len(caught.value.record_errors) == 1


def test_a_bomb_of_records_is_not_taken_apart() -> None:
    """A few kilobytes may hold a hundred thousand equal records; they are refused before an object is made of each."""
    count = 100_001  # one more than are encoded again
    bomb = with_records(compress(Codec.ZSTD, encode_record(0, 0, b"k", b"v") * count), count, Codec.ZSTD)
    assert len(bomb) < 10_000
    with pytest.raises(InvalidRecordError) as caught:
        appended(bomb, AppendRules(codec=Codec.GZIP))
    assert [index for index, _ in caught.value.record_errors] == [1]


def test_the_errors_of_a_batch_do_not_outgrow_it() -> None:
    batch = build_batch([Record(offset, NOW, None, b"") for offset in range(5000)])
    with pytest.raises(InvalidRecordError) as caught:
        appended(batch, COMPACTED)
    assert [index for index, _ in caught.value.record_errors] == list(range(1000))


GOOD = encode_record(0, 0, b"k", b"v")
GARBAGE = {
    "fewer records than claimed": with_records(GOOD, 2),
    "more records than claimed": with_records(GOOD + encode_record(0, 1, b"k", b"v"), 1),
    "two billion records in nothing": with_records(b"", 1)[:57] + (2**31 - 1).to_bytes(4, "big"),
    "a record that is cut off": with_records(GOOD[:-1], 1),
    "bytes left over": with_records(GOOD + b"\0", 1),
    "a negative length": with_records(b"\x09" + bytes(20), 1),
    "a key that is too long": with_records(GOOD.replace(b"\x02k", b"\x7ek"), 1),
    "a key of minus two bytes": with_records(b"\x0c\0\0\0\x03\x01\0", 1),
    "a negative header count": with_records(GOOD[:-1] + b"\x01", 1),
    "noise for gzip": with_records(b"garbage", 1, Codec.GZIP),
    "noise for snappy": with_records(b"garbage", 1, Codec.SNAPPY),
    "noise for lz4": with_records(b"garbage", 1, Codec.LZ4),
    "noise for zstd": with_records(b"garbage", 1, Codec.ZSTD),
    "nothing for zstd": with_records(b"", 1, Codec.ZSTD),
    "compressed records that are cut off": with_records(compress(Codec.LZ4, GOOD[:-1]), 1, Codec.LZ4),
    "compressed records that are too few": with_records(compress(Codec.SNAPPY, GOOD), 2, Codec.SNAPPY),
}


@pytest.mark.parametrize("rules", [DEFAULT, COMPACTED, STAMPED, AppendRules(codec=Codec.GZIP)])
@pytest.mark.parametrize("batch", GARBAGE.values(), ids=GARBAGE.keys())
def test_records_must_be_well_formed_whatever_the_rules(batch: bytes, rules: AppendRules) -> None:
    """Their checksum holds: a producer that got CORRUPT_MESSAGE would send them again for ever."""
    sealed = bytearray(batch)
    sealed[23:27] = (int.from_bytes(sealed[57:61], "big") - 1).to_bytes(4, "big")
    sealed[17:21] = checksum(sealed)
    with pytest.raises(InvalidRecordError) as caught:
        appended(bytes(sealed), rules)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def long_batch(codec: Codec, count: int, value: bytes = b"") -> bytes:
    return build_batch([Record(index, NOW, b"k", value) for index in range(count)], codec=codec)


LONG_WORK: dict[str, tuple[bytes, AppendRules]] = {
    "many records": (long_batch(Codec.NONE, RECORDS_AT_ONCE_MAX + 1), DEFAULT),
    "a large content": (long_batch(Codec.ZSTD, 2, bytes(400_000)), DEFAULT),
    "a large content to be stored uncompressed": (long_batch(Codec.GZIP, 2, bytes(400_000)), AppendRules(Codec.NONE)),
    "much to compress": (long_batch(Codec.NONE, 2, bytes(40_000)), AppendRules(codec=Codec.ZSTD)),
    "many records to be numbered again": (with_records(GOOD * 500, 500), DEFAULT),
    "many headers": (
        build_batch([Record(0, NOW, b"k", b"v", (("", None),) * (HEADERS_AT_ONCE_MAX + 1))]),
        DEFAULT,
    ),
    "a large message set": (GOLDEN["magic 1 none"] * 100, DEFAULT),
}


@pytest.mark.parametrize(("batch", "rules"), LONG_WORK.values(), ids=LONG_WORK.keys())
def test_long_work_is_not_begun_on_the_event_loop(batch: bytes, rules: AppendRules) -> None:
    with pytest.raises(TooMuchWorkError):
        prepare(batch, rules, NOW, only_magic_2=False, on_loop=True)
    prepared = prepare(batch, rules, NOW, only_magic_2=False)
    assert assign(prepared, rules, 500, 3, NOW).first_offset == 500


@pytest.mark.parametrize("codec", Codec)
def test_short_work_is_done_on_the_event_loop(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec)
    for rules in (DEFAULT, COMPACTED, STAMPED, AppendRules(codec=Codec.LZ4)):
        assert prepare(batch, rules, NOW, on_loop=True).header.record_count == 3


def test_a_count_that_cannot_fit_is_refused_before_anything_is_decompressed() -> None:
    batch = bytearray(build_batch(RECORDS, codec=Codec.GZIP))
    batch[23:27] = (2**31 - 2).to_bytes(4, "big")
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")
    batch[17:21] = checksum(batch)
    with pytest.raises(InvalidRecordError, match="2147483647 records cannot fit"):
        appended(bytes(batch))


def test_a_batch_that_expands_too_far_is_refused() -> None:
    batch = build_batch([Record(0, NOW, b"k", bytes(100_000))], codec=Codec.ZSTD)
    with pytest.raises(InvalidRecordError, match="limit of 1000"):
        appended(batch, AppendRules(is_compacted=True, decompressed_bytes_max=1000))


def test_coordinators_may_write_markers_and_any_base_offset() -> None:
    validated = appended(control(), AppendRules(codec=Codec.GZIP, is_compacted=True), from_client=False)
    header = read_header(validated.records)
    assert header.is_control
    assert not header.is_compressed
    moved = build_batch([Record(9, NOW, b"k", b"v")], base_offset=9)
    assert appended(moved, from_client=False).first_offset == 500


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_message_sets_of_old_producers_become_one_batch(magic: int, codec: str) -> None:
    validated = appended(GOLDEN[f"magic {magic} {codec}"], only_magic_2=False)
    header = read_header(validated.records)
    assert check_crc(validated.records, 0, header)
    assert (header.codec.name.lower(), header.partition_leader_epoch) == (codec, 3)
    assert validated[1:] == (500, 503, 1_600_000_100_000 if magic else -1, 503, 4, -1)
    assert [record.offset for record in iterate_records(validated.records)] == [500, 501, 502, 503]


def test_message_sets_are_held_to_the_rules_too() -> None:
    message_set = GOLDEN["magic 1 gzip"]
    with pytest.raises(InvalidRecordError) as caught:
        appended(message_set, COMPACTED, only_magic_2=False)
    assert [index for index, _ in caught.value.record_errors] == [1]
    with pytest.raises(InvalidTimestampError):
        appended(message_set, AppendRules(before_max_ms=HOUR), only_magic_2=False)
    with pytest.raises(RecordTooLargeError):
        appended(GOLDEN["magic 1 none"], AppendRules(max_message_bytes=200), only_magic_2=False)
    stamped = appended(message_set, STAMPED, only_magic_2=False)
    assert {record.timestamp for record in iterate_records(stamped.records)} == {NOW}
