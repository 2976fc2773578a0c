from typing import Any, NamedTuple

import pytest

from tidelog.records.batch import iterate_records
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import TimestampType, read_header
from tidelog.records.record import Record
from tidelog.records.rows import RowReader


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Any
    timestamp_type: TimestampType
    leader_epoch: int


def reader(batch: bytes, **options: Any) -> RowReader:
    return RowReader(batch, 0, read_header(batch), Row, "t", 3, **options)


def read_all(batch: bytes, chunk: int = 1000, **options: Any) -> list[Row]:
    rows: list[Row] = []
    reading = reader(batch, **options)
    while not reading.is_done:
        reading.read(rows, chunk)
    return rows


def as_records(rows: list[Row]) -> list[Record]:
    return [Record(row.offset, row.timestamp, row.key, row.value, row.headers) for row in rows]


def test_a_row_has_nine_fields() -> None:
    batch = build_batch([Record(7, 1000, b"k", b"v", (("h", b"x"),))], base_offset=7, partition_leader_epoch=4)
    assert read_all(batch) == [Row("t", 3, 7, 1000, b"k", b"v", (("h", b"x"),), TimestampType.CREATE_TIME, 4)]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_records_of_all_shapes_are_read_in_any_steps(codec: Codec, chunk: int) -> None:
    shapes = [
        (None, b""),
        (b"", None),
        (b"k" * 100, b"v" * 70),
        (b"key", b"v" * 9000),
        (None, b"v" * 2_000_000),
        (b"k" * 9000, b"v"),
    ]
    records = [
        Record(
            number,
            1_700_000_000_000 + number * 97,
            *shapes[number % len(shapes)],
            (("h", None),) if number % 5 == 4 else (),
        )
        for number in range(12)
    ]
    batch = build_batch(records, codec=codec)
    assert as_records(read_all(batch, chunk)) == records


def test_offsets_are_counted_over_every_width_of_their_deltas() -> None:
    """Deltas take one byte up to 63, two up to 8191, then three."""
    records = [Record(number, 5, None, b"x") for number in range(8200)]
    rows = read_all(build_batch(records, codec=Codec.LZ4))
    assert [row.offset for row in rows] == list(range(8200))
    assert {row.value for row in rows} == {b"x"}


def test_timestamps_may_fall() -> None:
    records = [Record(0, 1000, None, b""), Record(1, 10, None, b""), Record(2, 10**12, None, b"")]
    assert [row.timestamp for row in read_all(build_batch(records))] == [1000, 10, 10**12]


def test_log_append_time_is_that_of_the_batch() -> None:
    records = [Record(number, number, None, b"") for number in range(3)]
    batch = build_batch(records, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert as_records(read_all(batch)) == list(iterate_records(batch))
    assert {row.timestamp_type for row in read_all(batch)} == {TimestampType.LOG_APPEND_TIME}


@pytest.mark.parametrize("from_offset", [0, 100, 101, 105, 109, 110, 500])
def test_reading_may_begin_inside_a_batch(from_offset: int) -> None:
    records = [Record(100 + number, 5, None, b"v%d" % number) for number in range(10)]
    batch = build_batch(records, base_offset=100)
    expected = [each for each in records if each.offset >= from_offset]
    assert as_records(read_all(batch, from_offset=from_offset)) == expected


def test_and_inside_one_that_compaction_left_gaps_in() -> None:
    records = [Record(offset, 5, None, b"v") for offset in (100, 103, 104, 109)]
    batch = build_batch(records, base_offset=100)
    assert [row.offset for row in read_all(batch, from_offset=104)] == [104, 109]


def test_a_batch_that_compaction_emptied_has_no_rows() -> None:
    assert reader(build_batch([], base_offset=5, codec=Codec.GZIP)).is_done


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_records_that_are_cut_off_are_refused_and_nothing_is_returned(cut: int) -> None:
    batch = bytearray(build_batch([Record(number, 5, b"key", b"value") for number in range(3)]))
    del batch[-cut:]
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    rows: list[Row] = []
    with pytest.raises(CorruptRecordError, match="t-3"):
        reader(bytes(batch)).read(rows, 10)
    assert rows == []


def test_bytes_after_the_last_record_are_refused() -> None:
    batch = bytearray(build_batch([Record(0, 5, b"key", b"value")]) + b"\0")
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    with pytest.raises(CorruptRecordError):
        read_all(bytes(batch))
