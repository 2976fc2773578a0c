"""Batches built at once and record by record, and the markers that end transactions."""

import pytest

from tests.unit.records.golden import GOLDEN, LOG_APPEND_TIME, RECORDS
from tidelog.records.batch import iterate_records
from tidelog.records.builder import BatchBuilder, build_batch, build_end_transaction_marker
from tidelog.records.compression import Codec
from tidelog.records.control import ControlType, EndTransactionMarker, control_type, parse_end_transaction_marker
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import HEADER_BYTES, TimestampType, check_crc, read_header
from tidelog.records.record import Record


def test_an_uncompressed_batch_is_kafkas_to_the_byte() -> None:
    assert build_batch(RECORDS, base_offset=41) == GOLDEN["magic 2 none"]
    stamped = build_batch(
        RECORDS, base_offset=41, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=LOG_APPEND_TIME
    )
    assert stamped == GOLDEN["magic 2 log append time"]


def test_every_argument_reaches_the_header() -> None:
    batch = build_batch(
        [Record(100, 5, b"k", b"v"), Record(104, 3, b"k", b"v")],
        base_offset=98,
        last_offset=110,
        codec=Codec.LZ4,
        producer_id=2**40,
        producer_epoch=12,
        base_sequence=77,
        partition_leader_epoch=4,
        is_transactional=True,
    )
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert header.size_bytes == len(batch)
    assert (header.base_offset, header.last_offset, header.record_count) == (98, 110, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 12, 77)
    assert (header.partition_leader_epoch, header.codec, header.max_timestamp) == (4, Codec.LZ4, 5)
    assert header.is_transactional
    assert not header.is_control
    assert [record.offset for record in iterate_records(batch)] == [100, 104]


def test_the_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    records = [Record(0, 1000, b"k", None), Record(1, 2000, b"l", None)]
    batch = build_batch(records, delete_horizon_ms=1500)
    header = read_header(batch)
    assert (header.has_delete_horizon, header.delete_horizon_ms, header.max_timestamp) == (True, 1500, 2000)
    assert list(iterate_records(batch)) == records


def test_an_emptied_batch_keeps_its_place_and_its_producer() -> None:
    batch = build_batch(
        [], base_offset=10, last_offset=19, codec=Codec.GZIP, producer_id=3, producer_epoch=1, base_sequence=5
    )
    header = read_header(batch)
    assert len(batch) == HEADER_BYTES
    assert (header.next_offset, header.last_sequence, header.record_count) == (20, 14, 0)
    assert list(iterate_records(batch)) == []


def test_offsets_must_rise() -> None:
    with pytest.raises(ValueError, match="offset delta 0 does not follow 0"):
        build_batch([Record(0, 1, None, b"a"), Record(0, 1, None, b"b")])


def test_a_builder_numbers_the_records_that_it_is_given() -> None:
    builder = BatchBuilder()
    for index in range(300):
        assert builder.append(1000 + index, b"%d" % index, b"v" * index, (("h", b"x" * index),)) == index
    assert builder.record_count == 300
    assert read_header(builder.build()).record_count == 300


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_says_how_the_transaction_ended(is_commit: bool) -> None:
    batch = build_end_transaction_marker(
        is_commit=is_commit, producer_id=7, producer_epoch=2, coordinator_epoch=31, timestamp=99, base_offset=500
    )
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, -1)
    (record,) = iterate_records(batch)
    assert (record.offset, record.timestamp) == (500, 99)
    assert record.key == (b"\0\0\0\1" if is_commit else b"\0\0\0\0")
    assert parse_end_transaction_marker(record) == EndTransactionMarker(is_commit, 31)


def test_control_records_of_later_versions_are_read_as_far_as_they_go() -> None:
    assert control_type(Record(0, 0, b"\0\0\0\x63", b"")) is ControlType.UNKNOWN
    assert control_type(Record(0, 0, b"\0\0\0\2", b"")) is ControlType.LEADER_CHANGE
    later = Record(0, 0, b"\0\1\0\1", b"\0\1\0\0\0\5and more")
    assert parse_end_transaction_marker(later) == EndTransactionMarker(True, 5)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0\0\0", b""),
        (b"\xff\xff\0\0", b"\0\0\0\0\0\0"),
        (b"\0\0\0\2", b"\0\0\0\0\0\0"),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0\0\0\0\0"),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\0"),
    ],
)
def test_what_is_no_marker_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptRecordError):
        parse_end_transaction_marker(Record(3, 0, key, value))
