"""Message sets of magic 0 and 1, to and from batches."""

from zlib import crc32

import pytest

from tests.unit.records.golden import GOLDEN, LOG_APPEND_TIME, RECORDS
from tidelog.records._message_set import encode_message
from tidelog.records.batch import iterate_records
from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.compression import Codec, compress
from tidelog.records.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from tidelog.records.header import TimestampType, check_crc, read_header
from tidelog.records.legacy import convert_down, convert_up, iterate_legacy_records, read_message_set
from tidelog.records.record import Record

PLAIN = [record._replace(headers=()) for record in RECORDS]
LEGACY = [(magic, codec) for magic in (0, 1) for codec in ("none", "gzip", "snappy", "lz4")]
LIMIT = 1 << 20


def as_magic(magic: int, records: list[Record] = PLAIN) -> list[Record]:
    return records if magic else [record._replace(timestamp=-1) for record in records]


@pytest.mark.parametrize(("magic", "codec"), LEGACY)
def test_message_sets_that_kafka_wrote_are_read(magic: int, codec: str) -> None:
    message_set = GOLDEN[f"magic {magic} {codec}"]
    assert list(iterate_legacy_records(message_set)) == as_magic(magic)
    read = read_message_set(message_set, LIMIT)
    assert (read.magic, read.codec.name.lower(), read.is_log_append_time) == (magic, codec, False)


def test_the_log_append_time_of_a_wrapper_is_that_of_its_messages() -> None:
    message_set = GOLDEN["magic 1 log append time gzip"]
    assert read_message_set(message_set, LIMIT).is_log_append_time
    assert {record.timestamp for record in iterate_legacy_records(message_set)} == {LOG_APPEND_TIME}


@pytest.mark.parametrize(("magic", "codec"), LEGACY)
def test_a_message_set_becomes_one_batch(magic: int, codec: str) -> None:
    batch = convert_up(GOLDEN[f"magic {magic} {codec}"], base_offset=1000, partition_leader_epoch=6)
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert (header.codec.name.lower(), header.base_offset, header.partition_leader_epoch) == (codec, 1000, 6)
    assert header.max_timestamp == (1_600_000_100_000 if magic else -1)
    expected = [record._replace(offset=1000 + index) for index, record in enumerate(as_magic(magic))]
    assert list(iterate_records(batch)) == expected


def test_a_message_set_can_change_codec_and_time_on_the_way_up() -> None:
    batch = convert_up(
        GOLDEN["magic 1 gzip"],
        codec=Codec.ZSTD,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time=77,
    )
    assert read_header(batch).codec is Codec.ZSTD
    assert {record.timestamp for record in iterate_records(batch)} == {77}


@pytest.mark.parametrize("magic", [0, 1])
def test_an_uncompressed_batch_goes_down_to_kafkas_bytes(magic: int) -> None:
    assert convert_down(GOLDEN["magic 2 none"], magic) == GOLDEN[f"magic {magic} none"]


@pytest.mark.parametrize(("magic", "codec"), LEGACY)
def test_a_batch_goes_down_without_its_headers(magic: int, codec: str) -> None:
    message_set = convert_down(GOLDEN[f"magic 2 {codec}"], magic)
    assert list(iterate_legacy_records(message_set)) == as_magic(magic)
    wrapper = GOLDEN[f"magic {magic} {codec}"]
    assert message_set[:8] + message_set[16:18] == wrapper[:8] + wrapper[16:18]


def test_log_append_time_goes_down_as_a_flag() -> None:
    message_set = convert_down(GOLDEN["magic 2 log append time"], 1)
    assert {record.timestamp for record in iterate_legacy_records(message_set)} == {LOG_APPEND_TIME}
    assert message_set[17] & 0x08
    assert not convert_down(GOLDEN["magic 2 log append time"], 0)[17] & 0x08


def test_records_before_the_one_asked_for_are_dropped_only_where_messages_stand_alone() -> None:
    both = GOLDEN["magic 2 none"] + build_batch(
        [Record(45, 1, None, b"a"), Record(46, 1, None, b"b")], base_offset=45, codec=Codec.GZIP
    )
    offsets = [record.offset for record in iterate_legacy_records(convert_down(both, 1, first_offset=43))]
    assert offsets == [43, 44, 45, 46]


def test_gaps_of_compaction_are_kept_in_relative_offsets() -> None:
    batch = build_batch(
        [Record(103, 1, b"k", b"a"), Record(109, 1, b"l", b"b")], base_offset=100, last_offset=115, codec=Codec.GZIP
    )
    for magic in (0, 1):
        message_set = convert_down(batch, magic)
        assert int.from_bytes(message_set[:8], "big") == 109
        assert [record.offset for record in iterate_legacy_records(message_set)] == [103, 109]


def test_control_and_emptied_batches_have_no_form_in_old_magics() -> None:
    marker = build_end_transaction_marker(
        is_commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=1
    )
    emptied = build_batch([], last_offset=3, codec=Codec.GZIP) + build_batch([], last_offset=3)
    assert convert_down(marker + emptied, 1) == b""


def test_zstd_cannot_go_down() -> None:
    with pytest.raises(UnsupportedCompressionError):
        convert_down(GOLDEN["magic 2 zstd"], 1)


def test_only_old_magics_are_down() -> None:
    with pytest.raises(ValueError, match="magic 2"):
        convert_down(b"", 2)


def test_librdkafkas_wrapper_offset_of_zero_is_a_set_from_zero() -> None:
    inner = b"".join(encode_message(index, 1, 0, 5, None, b"v") for index in range(3))
    wrapper = encode_message(0, 1, Codec.GZIP, 5, None, compress(Codec.GZIP, inner))
    assert [record.offset for record in iterate_legacy_records(wrapper)] == [0, 1, 2]


def test_an_incomplete_message_at_the_end_is_left_out() -> None:
    message_set = GOLDEN["magic 1 none"]
    assert list(iterate_legacy_records(message_set[:-1])) == PLAIN[:-1]


def test_any_changed_bit_of_a_message_is_noticed() -> None:
    message = encode_message(0, 1, 0, 5, b"key", b"value")
    for index in range(12, len(message)):
        changed = bytearray(message)
        changed[index] ^= 0x08
        with pytest.raises(CorruptRecordError):
            list(iterate_legacy_records(changed))


def framed(body: bytes) -> bytes:
    """A message with a right size and checksum around any body."""
    return bytes(8) + (len(body) + 4).to_bytes(4, "big") + crc32(body).to_bytes(4, "big") + body


CORRUPT = {
    "size too small": bytes(8) + (13).to_bytes(4, "big") + bytes(13),
    "negative size": bytes(8) + b"\xff\xff\xff\xff" + bytes(20),
    "unknown magic": framed(b"\x05\0" + b"\xff" * 8),
    "magic 1 without room for a timestamp": framed(b"\1\0" + b"\xff" * 8),
    "key beyond the end": framed(b"\0\0" + b"\0\0\0\x09" + b"\xff" * 4),
    "key that leaves no room for a value": framed(b"\0\0" + b"\0\0\0\x04" + b"\xff" * 4),
    "negative key size": framed(b"\0\0" + b"\xff\xff\xff\xfe" + b"\xff" * 4),
    "value beyond the end": framed(b"\0\0" + b"\xff" * 4 + b"\0\0\0\x01"),
    "bytes after the value": framed(b"\0\0" + b"\xff" * 8 + b"!"),
    "broken wrapper": encode_message(0, 1, Codec.GZIP, 5, None, b"no gzip"),
}


@pytest.mark.parametrize("data", CORRUPT.values(), ids=CORRUPT.keys())
def test_malformed_messages_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        list(iterate_legacy_records(data))


ONE = encode_message(0, 1, 0, 5, None, b"v")


def wrapping(inner: bytes | None, *, offset: int = 0, codec: int = Codec.GZIP) -> bytes:
    return encode_message(offset, 1, codec, 5, None, None if inner is None else compress(Codec.GZIP, inner))


INVALID = {
    "no message": b"",
    "two magics": ONE + encode_message(1, 0, 0, 5, None, b"v"),
    "a wrapper beside another message": wrapping(ONE) + ONE,
    "a wrapper without value": wrapping(None),
    "a wrapper without messages": wrapping(b""),
    "a wrapper in a wrapper": wrapping(wrapping(ONE)),
    "another magic inside": wrapping(encode_message(0, 0, 0, 5, None, b"v")),
    "a wrapper offset below its messages": wrapping(encode_message(9, 1, 0, 5, None, b"v"), offset=3),
    "zstd": wrapping(ONE, codec=Codec.ZSTD),
    "an unknown codec": wrapping(ONE, codec=7),
}


@pytest.mark.parametrize("data", INVALID.values(), ids=INVALID.keys())
def test_sets_that_no_producer_may_send_are_invalid(data: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        read_message_set(data, LIMIT)
