"""Headers, checksums, patches and iteration of record batches."""

import pytest

from tests.unit.records.golden import GOLDEN, LOG_APPEND_TIME, RECORDS
from tests.unit.records.scans import SCANS
from tidelog.records.batch import iterate_batches, iterate_extents, iterate_records
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import (
    HEADER_BYTES,
    BatchHeader,
    TimestampType,
    assign_offset,
    check_crc,
    read_header,
    set_max_timestamp,
)
from tidelog.records.record import Record, encode_record
from tidelog.records.scanner import TIMESTAMP_MAX, TIMESTAMP_MIN, Fault

BATCH = build_batch([Record(0, 1000, b"k", b"v"), Record(1, 1007, None, None, (("h", b"x"),))])


def with_data(data: bytes, count: int) -> bytes:
    """A batch whose header is right and whose records are `data`."""
    header = bytearray(build_batch([])) + data
    header[8:12] = (HEADER_BYTES - 12 + len(data)).to_bytes(4, "big")
    header[57:61] = count.to_bytes(4, "big", signed=True)
    return bytes(header)


def test_every_field_of_a_header_kafka_wrote_is_read() -> None:
    batch = GOLDEN["magic 2 none"]
    header = read_header(batch)
    assert header == BatchHeader(
        base_offset=41,
        batch_length=len(batch) - 12,
        partition_leader_epoch=-1,
        magic=2,
        crc=int.from_bytes(batch[17:21], "big"),
        attributes=0,
        last_offset_delta=3,
        base_timestamp=1_600_000_000_000,
        max_timestamp=1_600_000_100_000,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=4,
    )
    assert (header.size_bytes, header.last_offset, header.next_offset) == (len(batch), 44, 45)
    assert not header.has_producer_id


def test_the_flags_of_the_attributes_are_distinguished() -> None:
    header = read_header(BATCH)
    flags = ("is_log_append_time", "is_transactional", "is_control", "has_delete_horizon")
    for bit, name in zip((0x08, 0x10, 0x20, 0x40), flags, strict=True):
        flagged = header._replace(attributes=bit)
        assert [getattr(flagged, other) for other in flags] == [other == name for other in flags]
    assert header._replace(attributes=0x08).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header._replace(attributes=0x40, base_timestamp=77).delete_horizon_ms == 77
    assert header.delete_horizon_ms is None


@pytest.mark.parametrize("codec", Codec)
def test_the_codec_is_in_the_low_bits(codec: Codec) -> None:
    header = read_header(BATCH)._replace(attributes=codec | 0x30)
    assert header.codec is codec
    assert header.is_compressed == (codec is not Codec.NONE)


def test_an_unknown_codec_is_corrupt() -> None:
    with pytest.raises(CorruptRecordError, match="codec 5"):
        _ = read_header(BATCH)._replace(attributes=5).codec


def test_the_last_sequence_wraps_to_zero() -> None:
    header = read_header(BATCH)
    assert header.last_sequence == -1
    assert header._replace(base_sequence=5, last_offset_delta=3).last_sequence == 8
    assert header._replace(base_sequence=2**31 - 2, last_offset_delta=3).last_sequence == 1


def test_a_header_that_is_not_all_there_is_corrupt() -> None:
    for size in (0, 1, HEADER_BYTES - 1):
        with pytest.raises(CorruptRecordError):
            read_header(BATCH[:size])


def test_batches_are_found_up_to_an_incomplete_one() -> None:
    data = BATCH + GOLDEN["magic 2 gzip"] + BATCH[:-1]
    assert [position for position, _ in iterate_batches(data)] == [0, len(BATCH)]
    assert [position for position, _ in iterate_batches(data + b"\0")] == [0, len(BATCH), len(data) - len(BATCH) + 1]
    assert list(iterate_batches(b"")) == []


def test_bytes_that_cannot_start_a_batch_stop_the_iteration_loudly() -> None:
    too_short = bytearray(BATCH)
    too_short[8:12] = (48).to_bytes(4, "big")
    with pytest.raises(CorruptRecordError, match="length of 48"):
        list(iterate_batches(BATCH + too_short))
    other_magic = bytearray(BATCH)
    other_magic[16] = 3
    with pytest.raises(CorruptRecordError, match="magic 3"):
        list(iterate_batches(BATCH + other_magic))


def test_any_changed_bit_behind_the_checksum_is_noticed() -> None:
    header = read_header(BATCH)
    assert check_crc(BATCH, 0, header)
    for index in range(21, len(BATCH)):
        changed = bytearray(BATCH)
        changed[index] ^= 0x10
        assert not check_crc(changed, 0, read_header(changed))
    assert not check_crc(BATCH[:-1], 0, header)


def test_offset_and_epoch_are_written_without_touching_the_checksum() -> None:
    data = bytearray(b"before" + BATCH)
    header = read_header(data, 6)
    assign_offset(data, 6, header, 2**40, 9)
    patched = read_header(data, 6)
    assert patched == header._replace(base_offset=2**40, partition_leader_epoch=9)
    assert check_crc(data, 6, patched)
    assert [record.offset for record in iterate_records(data, 6)] == [2**40, 2**40 + 1]
    assert data[:6] == b"before"


def test_log_append_time_becomes_the_time_of_every_record() -> None:
    data = bytearray(BATCH)
    set_max_timestamp(data, 0, read_header(data), TimestampType.LOG_APPEND_TIME, 5555)
    header = read_header(data)
    assert header.is_log_append_time
    assert check_crc(data, 0, header)
    assert [record.timestamp for record in iterate_records(data)] == [5555, 5555]
    set_max_timestamp(data, 0, header, TimestampType.CREATE_TIME, 1007)
    assert bytes(data) == BATCH


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_that_kafka_wrote_are_read(codec: str) -> None:
    batch = GOLDEN[f"magic 2 {codec}"]
    assert check_crc(batch, 0, read_header(batch))
    assert list(iterate_records(batch)) == RECORDS
    assert list(iterate_records(memoryview(b"xyz" + batch), 3)) == RECORDS


def test_the_log_append_time_that_kafka_wrote_replaces_the_timestamps() -> None:
    records = list(iterate_records(GOLDEN["magic 2 log append time"]))
    assert records == [record._replace(timestamp=LOG_APPEND_TIME) for record in RECORDS]


def test_header_keys_that_are_not_text_survive() -> None:
    """Kafka never looks at them; what a producer wrote must come back byte for byte when a batch is rewritten."""
    data = encode_record(0, 0, b"k", b"v", (("abc", b"1"),)).replace(b"abc", b"\xff\xfea")
    (record,) = iterate_records(with_data(data, 1))
    assert record.headers == (("\udcff\udcfea", b"1"),)
    assert build_batch([record]).endswith(data)


GOOD = encode_record(1, 0, b"key", b"value", (("h", b"x"), ("n", None)))
BAD_DATA = {
    "nothing": b"",
    "cut off": GOOD[:-1],
    "bytes left": GOOD + b"\0",
    "length too long": bytes([GOOD[0] + 2]) + GOOD[1:] + b"\0\0",
    "length too short": bytes([GOOD[0] - 2]) + GOOD[1:],
    "negative length": b"\x01" + GOOD[1:],
    "huge length": b"\xfe\xff\xff\xff\x0f" + GOOD[1:],
    "varint without end": b"\xff" * 20,
    "varint of 33 bits": b"\xfe\xff\xff\xff\x7f" + GOOD[1:],
    "varlong of 65 bits": b"\x1a\0" + b"\xff" * 9 + b"\x7f" + b"\0\x01\x01\0",
    "varlong without end": b"\x1c\0" + b"\xff" * 11 + b"\0\x01\x01\0",
    "negative key size": b"\x0c\0\0\0\x03\x01\0",
    "negative value size": b"\x0c\0\0\0\x01\x03\0",
    "key beyond the record": b"\x0c\0\0\0\x7e\x01\0",
    "value beyond the record": b"\x0c\0\0\0\x01\x7e\0",
    "negative header count": b"\x0c\0\0\0\x01\x01\x01",
    "more headers than bytes": b"\x0c\0\0\0\x01\x01\x7e",
    "negative header key size": b"\x0e\0\0\0\x01\x01\x02\x01\0",
    "negative header value size": b"\x10\0\0\0\x01\x01\x02\0\x03",
}


@pytest.mark.parametrize("data", BAD_DATA.values(), ids=BAD_DATA.keys())
def test_malformed_records_are_corrupt_to_reader_and_scanner_alike(data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        list(iterate_records(with_data(data, 1)))
    for scan in SCANS.values():
        position, _, _, fault = scan(data, 0, 0, 1, 0, TIMESTAMP_MIN, TIMESTAMP_MAX, False, -1, 2**31)
        assert fault in (Fault.CUT_OFF, Fault.MALFORMED) or position != len(data)


def test_a_batch_that_cannot_be_read_is_corrupt() -> None:
    for batch in (BATCH[:-1], with_data(GOOD, -1), bytes(61), BATCH[:16] + b"\1" + BATCH[17:]):
        with pytest.raises(CorruptRecordError):
            iterate_records(batch)


def test_a_false_record_count_costs_nothing() -> None:
    with pytest.raises(CorruptRecordError, match="2147483647 records"):
        list(iterate_records(with_data(GOOD, 2**31 - 1)))


# A message of magic 0 without key and value, which is shorter than the header up to a batch's last offset.
SHORTEST = bytes.fromhex("00000000000000090000000ea7ec68030000ffffffffffffffff")


def test_extents_are_those_of_batches_and_of_messages() -> None:
    batch = build_batch([Record(5, 1000, b"k", b"v"), Record(7, 1000, b"k", b"v")], base_offset=5)
    message = GOLDEN["magic 1 none"]
    found = list(iterate_extents(batch + message + SHORTEST))
    assert found[0] == (0, len(batch), 2, 5, 7)
    assert found[1][:3] == (len(batch), found[1].end, 1)
    assert found[1].base_offset == found[1].last_offset == int.from_bytes(message[:8], "big")
    assert found[-1] == (len(batch) + len(message), len(batch + message + SHORTEST), 0, 9, 9)


@pytest.mark.parametrize("data", [BATCH, SHORTEST])
def test_no_extent_is_found_of_what_is_cut_off(data: bytes) -> None:
    for size in range(len(data)):
        assert list(iterate_extents(data[:size])) == []
        assert [each.end for each in iterate_extents(BATCH + data[:size])] == [len(BATCH)]


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13])
def test_a_length_that_nothing_has_ends_the_extents(length: int) -> None:
    damaged = BATCH[:8] + length.to_bytes(4, "big", signed=True) + BATCH[12:]
    extents = iterate_extents(BATCH + damaged)
    assert next(extents).end == len(BATCH)
    with pytest.raises(CorruptRecordError, match=f"byte {len(BATCH)} claims a length of {length}"):
        next(extents)


def test_batches_are_iterated_from_a_position_on() -> None:
    assert [position for position, _ in iterate_batches(BATCH * 3, len(BATCH))] == [len(BATCH), 2 * len(BATCH)]
