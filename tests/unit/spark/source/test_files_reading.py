"""Segment files as rows: what is in them, of every age and codec, and what is damaged."""

import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from tests.unit.records.golden import GOLDEN, LOG_APPEND_TIME, RECORDS
from tests.unit.spark.source.segment_files import START_MS, batch, read_offsets, read_rows, splits_of, write_segment
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import TimestampType
from tidelog.records.record import Record
from tidelog.spark.options import OptionError
from tidelog.spark.source import files_decode, files_scan


def test_every_record_of_every_segment_is_read_in_order(tmp_path):
    orders = tmp_path / "orders-0"
    write_segment(orders, 0, [batch(0, 3), batch(3, 2)])
    write_segment(orders, 5, [batch(5, 4, codec=Codec.LZ4)])
    rows = read_rows(tmp_path)
    assert [row[4] for row in rows] == list(range(9))
    key, value, topic, partition, offset, timestamp, kind = rows[7]
    assert (key, value, topic, partition, offset, kind) == (b"k1", b"value-7", "orders", 0, 7, 0)
    assert round(timestamp.timestamp() * 1000) == START_MS + 7000


def test_each_segment_is_a_task_of_its_own(tmp_path):
    write_segment(tmp_path / "orders-0", 0, [batch(0, 3)])
    write_segment(tmp_path / "orders-0", 3, [batch(3, 3)])
    write_segment(tmp_path / "orders-1", 0, [batch(0, 3)])
    assert [(split.partition, split.first_offset) for split in splits_of(tmp_path)] == [(0, 0), (0, 3), (1, 0)]


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_is_read(tmp_path, codec):
    write_segment(tmp_path / "orders-0", 0, [batch(0, 5, codec=codec)])
    assert [row[1] for row in read_rows(tmp_path)] == [b"value-%d" % offset for offset in range(5)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_message_sets_of_old_brokers_are_read_beside_new_batches(tmp_path, magic, codec):
    write_segment(tmp_path / "orders-0", 0, [GOLDEN[f"magic {magic} {codec}"], batch(100, 2)])
    rows = read_rows(tmp_path)
    assert [row[:2] for row in rows[:-2]] == [(record.key, record.value) for record in RECORDS]
    assert {row[6] for row in rows[:-2]} == ({0} if magic else {-1}), "magic 0 has no times, and Kafka says -1 for that"
    assert [row[4] for row in rows[-2:]] == [100, 101]


def test_log_append_times_are_distinguished(tmp_path):
    newer = batch(100, 1, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=LOG_APPEND_TIME)
    write_segment(tmp_path / "orders-0", 0, [GOLDEN["magic 1 log append time gzip"], newer])
    rows = read_rows(tmp_path)
    assert {(row[6], round(row[5].timestamp() * 1000)) for row in rows} == {(1, LOG_APPEND_TIME)}


def test_headers_come_if_asked_for(tmp_path):
    records = [Record(0, START_MS, None, None, (("trace", b"\x01"), ("empty", None))), Record(1, START_MS, b"", b"")]
    write_segment(tmp_path / "orders-0", 0, [build_batch(records)])
    rows = read_rows(tmp_path, includeHeaders="true")
    assert rows[0][:2] == (None, None)
    assert rows[0][7] == [{"key": "trace", "value": b"\x01"}, {"key": "empty", "value": None}]
    assert rows[1][:2] == (b"", b"")
    assert rows[1][7] is None


def test_a_schema_is_a_projection(tmp_path):
    write_segment(tmp_path / "orders-0", 0, [batch(0, 2), GOLDEN["magic 1 gzip"]])
    schema = StructType([StructField("offset", LongType()), StructField("value", BinaryType())])
    assert read_rows(tmp_path, schema)[:2] == [(0, b"value-0"), (1, b"value-1")]
    with pytest.raises(OptionError, match="'value' as string: it is binary"):
        read_rows(tmp_path, StructType([StructField("value", StringType())]))


def test_rows_come_in_batches_of_ten_thousand(tmp_path, monkeypatch):
    monkeypatch.setattr(files_decode, "ROWS_A_BATCH", 4)
    write_segment(tmp_path / "orders-0", 0, [batch(0, 10), batch(10, 1)])
    assert read_offsets(tmp_path) == list(range(11))


@pytest.mark.parametrize("window_bytes", [70, 200, 1000])
def test_windows_smaller_than_a_batch_grow(tmp_path, monkeypatch, window_bytes):
    monkeypatch.setattr(files_scan, "WINDOW_BYTES", window_bytes)
    monkeypatch.setattr(files_scan, "HEADERS_WINDOW_BYTES", 64)
    write_segment(tmp_path / "orders-0", 0, [batch(0, 1), batch(1, 30), GOLDEN["magic 0 none"], batch(100, 3)])
    assert read_offsets(tmp_path)[-3:] == [100, 101, 102]
    assert read_offsets(tmp_path)[:31] == list(range(31))


@pytest.mark.parametrize("cut", [1, 13, 40, 62, 90])
def test_a_torn_tail_of_the_last_segment_is_its_end(tmp_path, cut):
    """A broker may be in the middle of a write, or have died there."""
    write_segment(tmp_path / "orders-0", 0, [batch(0, 3), batch(3, 3)[:cut]])
    assert read_offsets(tmp_path) == [0, 1, 2]


def test_zeros_that_were_reserved_end_the_last_segment(tmp_path):
    write_segment(tmp_path / "orders-0", 0, [batch(0, 3), bytes(4096)])
    assert read_offsets(tmp_path) == [0, 1, 2]


@pytest.mark.parametrize("tail", [batch(3, 3)[:80], bytes(4096)])
def test_the_same_in_the_middle_of_a_log_is_damage(tmp_path, tail):
    path = write_segment(tmp_path / "orders-0", 0, [batch(0, 3), tail])
    write_segment(tmp_path / "orders-0", 6, [batch(6, 1)])
    position = len(batch(0, 3))
    with pytest.raises(CorruptRecordError, match=rf"{path.name} is damaged at byte {position}"):
        read_offsets(tmp_path)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_wrong_checksum_names_file_and_position(tmp_path, magic):
    damaged = bytearray(batch(3, 3) if magic == 2 else GOLDEN[f"magic {magic} gzip"])
    damaged[-1] ^= 1
    path = write_segment(tmp_path / "orders-0", 0, [batch(0, 3), bytes(damaged), batch(6, 1)])
    with pytest.raises(CorruptRecordError, match=rf"{path} is damaged at byte {len(batch(0, 3))}: the checksum of"):
        read_offsets(tmp_path)


def test_bytes_that_are_no_batch_name_file_and_position(tmp_path):
    path = write_segment(tmp_path / "orders-0", 0, [batch(0, 3), b"\xff" * 200])
    with pytest.raises(CorruptRecordError, match=rf"{path} is damaged at byte {len(batch(0, 3))}: invalid magic 255"):
        read_offsets(tmp_path)


def test_an_empty_segment_has_no_rows(tmp_path):
    write_segment(tmp_path / "orders-0", 0, [])
    assert read_offsets(tmp_path) == []
