"""What a task yields."""

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, LongType, StructField, StructType, TimestampType

from tests.unit.spark.source.fakes import FakeCluster, FakeLog, task_settings
from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.compression import Codec
from tidelog.records.errors import CorruptRecordError
from tidelog.records.legacy import convert_down
from tidelog.records.record import Record
from tidelog.spark.clients import Kept
from tidelog.spark.source.arrow_rows import MalformedTimestamp
from tidelog.spark.source.columns import full_schema, make_projection
from tidelog.spark.source.ranges import OffsetRange
from tidelog.spark.source.task_reader import RangePartition, read_partition, read_range

EVERYTHING = make_projection(full_schema({"includeHeaders": "true"}))


def _keeping(cluster):
    """Clients of which there is one already."""
    kept: Kept[Any] = Kept()
    return kept, lambda settings: kept.get(settings, lambda: cluster)


def _read(log, start, end, projection=EVERYTHING, settings=None):
    settings = settings or task_settings()
    kept, keep = _keeping(FakeCluster(t_0=log))
    keep(settings)
    batches = list(read_range(OffsetRange("t", 0, start, end), settings, projection, kept))
    assert len(kept) == 1, "the next task uses it as well"
    return pa.Table.from_batches(batches, projection.schema)


def test_rows_have_all_columns():
    log = FakeLog()
    log.add(
        build_batch(
            [
                Record(0, 1_600_000_000_123, b"k", b"v", (("h", b"1"), ("h", None))),
                Record(1, 1_600_000_000_124, None, None),
            ]
        )
    )
    table = _read(log, 0, 2)
    first, second = table.to_pylist()
    assert first["timestamp"].isoformat() == "2020-09-13T12:26:40.123000+00:00"
    del first["timestamp"], second["timestamp"]
    assert first == {
        "key": b"k",
        "value": b"v",
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
    }
    assert second == {
        "key": None,
        "value": None,
        "topic": "t",
        "partition": 0,
        "offset": 1,
        "timestampType": 0,
        "headers": None,
    }


def test_only_the_range_is_given_however_batches_lie():
    log = FakeLog()
    for _ in range(4):
        log.append(b"a", b"b", b"c", b"d", b"e")
    assert _read(log, 3, 17)["offset"].to_pylist() == list(range(3, 17))


def test_batches_have_ten_thousand_rows_at_most():
    log = FakeLog()
    for _ in range(3):
        log.append(*[b"v"] * 9_000)
    kept, keep = _keeping(FakeCluster(t_0=log))
    keep(task_settings())
    batches = list(read_range(OffsetRange("t", 0, 0, 27_000), task_settings(), EVERYTHING, kept))
    assert sum(each.num_rows for each in batches) == 27_000
    assert max(each.num_rows for each in batches) == 10_000
    assert {each.schema for each in batches} == {EVERYTHING.schema}


def test_only_chosen_columns_come_in_their_order():
    log = FakeLog()
    log.append(b"a", None)
    projection = make_projection(StructType([StructField("offset", LongType()), StructField("value", BinaryType())]))
    table = _read(log, 0, 2, projection)
    assert table.column_names == ["offset", "value"]
    assert table.to_pylist() == [{"offset": 0, "value": b"a"}, {"offset": 1, "value": None}]


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_are_read(codec):
    log = FakeLog()
    log.append(b"a" * 100, b"b" * 100, codec=codec)
    assert _read(log, 0, 2)["value"].to_pylist() == [b"a" * 100, b"b" * 100]


def _transactions():
    """Producer 1 commits, producer 2 aborts."""
    log = FakeLog()
    for producer_id in (1, 2, 1):
        log.append(
            b"of %d" % producer_id, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
        )
    for producer_id, is_commit in ((2, False), (1, True)):
        log.add(
            build_end_transaction_marker(
                is_commit=is_commit,
                coordinator_epoch=0,
                producer_id=producer_id,
                producer_epoch=0,
                base_offset=log.end,
                timestamp=0,
            )
        )
    log.aborted = [(2, 1)]
    return log


def test_aborted_records_are_hidden_from_readers_of_committed_ones():
    settings = task_settings(read_committed=True)
    assert _read(_transactions(), 0, 5, settings=settings)["value"].to_pylist() == [b"of 1", b"of 1"]


def test_markers_are_hidden_from_everybody():
    assert _read(_transactions(), 0, 5)["value"].to_pylist() == [b"of 1", b"of 2", b"of 1"]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_keep_offsets_and_times(magic, monkeypatch):
    log = FakeLog()
    log.append(b"a", b"b")
    modern, log.end = log.batches.pop(), 0
    log.append(b"a", b"b")
    log.batches = [convert_down(modern, magic)]
    monkeypatch.setattr(log, "read", lambda offset, size: log.batches[0])
    table = _read(log, 0, 2)
    assert table["value"].to_pylist() == [b"a", b"b"]
    assert table["offset"].to_pylist() == [0, 1]


def test_a_time_beyond_sparks_is_refused_and_can_be_left_out():
    log = FakeLog()
    log.append(b"a", timestamp=2**60)
    with pytest.raises(MalformedTimestamp, match="the record at offset 0 of t-0"):
        _read(log, 0, 1)
    projection = make_projection(StructType([StructField("value", BinaryType())]))
    assert _read(log, 0, 1, projection).num_rows == 1
    assert isinstance(full_schema({})["timestamp"].dataType, TimestampType)


def test_a_batch_that_cannot_be_read_is_located():
    log = FakeLog()
    log.append(b"a" * 50)
    damaged = bytearray(log.batches[0])
    damaged[61] = 0xFF
    log.batches[0] = bytes(damaged)
    with pytest.raises(CorruptRecordError, match="t-0, offsets 0 to 0: "):
        _read(log, 0, 1, settings=task_settings(check_crcs=False))


def test_a_task_that_ends_early_leaves_no_answer_for_the_next():
    """`limit` and failures end a task while the next answer is on its way."""
    log = FakeLog()
    for _ in range(10):
        log.append(b"v" * 100)
    cluster = FakeCluster(t_0=log)
    kept, keep = _keeping(cluster)
    settings = task_settings(fetch_bytes=200)
    keep(settings)
    rows: Any = read_range(OffsetRange("t", 0, 0, 10), settings, EVERYTHING, kept)
    next(rows)
    assert len(cluster.fetches) == 2
    rows.close()
    assert cluster.is_closed
    assert len(kept) == 0


def test_spark_plans_a_task_without_offsets_when_there_is_nothing():
    assert list(read_partition(InputPartition(None), task_settings(), EVERYTHING)) == []


def test_partitions_travel():
    partition = RangePartition(OffsetRange("t", 0, 1, 2))
    assert pickle.loads(pickle.dumps(partition)).wanted == partition.wanted
