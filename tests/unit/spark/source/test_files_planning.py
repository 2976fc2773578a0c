"""Segment files: which of them are read, from where to where, and in how many pieces."""

import json
from struct import pack

import pytest

from tests.unit.spark.source.segment_files import START_MS, batch, read_offsets, splits_of, write_segment
from tidelog.records.errors import CorruptRecordError
from tidelog.spark.options import OptionError


@pytest.fixture
def logs(tmp_path):
    """Two topics in one log directory."""
    write_segment(tmp_path / "orders-0", 0, [batch(0, 5), batch(5, 5)])
    write_segment(tmp_path / "orders-0", 10, [batch(10, 5)])
    write_segment(tmp_path / "orders-1", 0, [batch(0, 2)])
    write_segment(tmp_path / "returns-0", 0, [batch(0, 1)])
    return tmp_path


def names(splits):
    return sorted({f"{split.topic}-{split.partition}" for split in splits})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["orders-0", "orders-1", "returns-0"]),
        ({"subscribe": "orders"}, ["orders-0", "orders-1"]),
        ({"subscribe": "orders, returns"}, ["orders-0", "orders-1", "returns-0"]),
        ({"subscribePattern": "ret.*"}, ["returns-0"]),
        ({"assign": '{"orders": [1]}'}, ["orders-1"]),
    ],
)
def test_topics_are_narrowed_as_with_a_cluster(logs, options, expected):
    assert names(splits_of(logs, **options)) == expected


@pytest.mark.parametrize("options", [{"subscribe": "orders,refunds"}, {"assign": '{"orders": [0, 7]}'}])
def test_what_is_named_must_be_there(logs, options):
    with pytest.raises(OptionError, match=r"(refunds|orders-7) is not among the files"):
        splits_of(logs, **options)


def test_a_partitions_directory_patterns_and_lists_are_paths_too(logs):
    assert names(splits_of(logs / "orders-1")) == ["orders-1"]
    assert names(splits_of(logs / "orders-*")) == ["orders-0", "orders-1"]
    assert names(splits_of(f"{logs}/orders-1, file://{logs}/returns-0")) == ["orders-1", "returns-0"]
    assert names(splits_of(f"{logs},{logs}/orders-1")) == ["orders-0", "orders-1", "returns-0"]


def test_two_copies_of_a_partition_are_refused(logs, tmp_path):
    write_segment(tmp_path / "replica" / "orders-1", 0, [batch(0, 2)])
    with pytest.raises(OptionError, match=r"orders-1 is found twice, in .*replica"):
        splits_of(f"{logs},{logs}/replica")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("{logs}/nowhere", "there is no such directory"),
        ("{logs}/x*", "there is no such directory"),
        ("s3://bucket/logs", "local or mounted"),
        ("{logs}/empty", "it has no partition directory"),
    ],
)
def test_paths_without_partitions_are_refused(logs, path, why):
    (logs / "empty").mkdir()
    with pytest.raises(OptionError, match=why):
        splits_of(path.format(logs=logs))


def test_files_and_partitions_on_their_way_in_or_out_are_passed_over(logs):
    for suffix in ("deleted", "cleaned", "swap"):
        (logs / "orders-1" / f"{2:020d}.log.{suffix}").write_bytes(b"\xff" * 100)
    write_segment(logs / "orders-2.8a7f-delete", 0, [batch(0, 1)])
    write_segment(logs / "orders-3.8a7f-future", 0, [batch(0, 1)])
    write_segment(logs / "__consumer_offsets-0", 0, [batch(0, 1)])
    assert names(splits_of(logs)) == ["orders-0", "orders-1", "returns-0"]
    assert names(splits_of(logs, subscribe="__consumer_offsets")) == ["__consumer_offsets-0"]


def test_records_before_the_log_start_offset_are_gone(logs):
    (logs / "log-start-offset-checkpoint").write_text("0\n1\norders 0 7\n")
    assert read_offsets(logs, subscribe="orders") == [*range(7, 15), 0, 1]
    assert read_offsets(logs / "orders-0") == list(range(7, 15))


def test_offsets_bound_what_is_read_even_inside_of_batches(logs):
    assert read_offsets(
        logs,
        subscribe="orders",
        startingOffsets=json.dumps({"orders": {"0": 3, "1": -2}}),
        endingOffsets=json.dumps({"orders": {"0": 12, "1": 1}}),
    ) == [*range(3, 12), 0]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"startingOffsets": "latest"}, "nothing would be read"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "nothing would be read"),
        ({"endingOffsets": "earliest"}, "nothing would be read"),
        ({"startingOffsets": '{"orders": {"0": 0}}'}, "does not name orders-1"),
        ({"startingOffsets": '{"orders": {"0": 0, "1": 0, "2": 0}}'}, "names orders-2"),
        ({"endingOffsets": '{"orders": {"0": 99, "1": 0}}'}, "ends orders-0 at 99, and its files end at 15"),
        ({"startingOffsets": '{"orders": {"0": 9, "1": 3}}'}, "orders-1 would be read from offset 3 to 2"),
        ({"startingTimestamp": "9999999999999"}, "there are none"),
        ({"isolation.level": "serializable"}, "read_committed, read_uncommitted"),
        ({"maxOffsetsPerTrigger": "10"}, "is for streams"),
        ({"kafka.bootstrap.servers": "localhost:9092"}, "no cluster is asked"),
    ],
)
def test_what_cannot_be_obeyed_is_refused(logs, options, why):
    with pytest.raises(OptionError, match=why):
        splits_of(logs, subscribe="orders", **options)


def test_without_fail_on_data_loss_what_is_there_is_read(logs):
    (logs / "log-start-offset-checkpoint").write_text("0\n1\norders 0 7\n")
    wanted = {"startingOffsets": '{"orders": {"0": 2}}', "endingOffsets": '{"orders": {"0": 99}}'}
    with pytest.raises(OptionError, match="its files end at 15"):
        read_offsets(logs / "orders-0", **wanted)
    assert read_offsets(logs / "orders-0", failOnDataLoss="false", **wanted) == list(range(7, 15))


def test_times_bound_what_is_read(logs):
    """The record at offset n is n seconds after the first."""
    at_4, at_11 = START_MS + 3500, START_MS + 11_000
    assert read_offsets(logs / "orders-0", startingTimestamp=at_4, endingTimestamp=at_11) == list(range(4, 11))
    each = json.dumps({"orders": {"0": at_11}})
    assert read_offsets(logs / "orders-0", startingOffsetsByTimestamp=each) == list(range(11, 15))
    late = {"startingTimestamp": 9_999_999_999_999, "startingOffsetsByTimestampStrategy": "latest"}
    assert read_offsets(logs / "orders-0", **late) == []


def test_segments_that_end_too_early_are_not_looked_into_for_a_time(logs):
    """Their time index says so."""
    (logs / "orders-0" / f"{0:020d}.timeindex").write_bytes(pack(">qi", START_MS + 9000, 9))
    (logs / "orders-0" / f"{0:020d}.log").write_bytes(b"\xff" * 100)
    with pytest.raises(CorruptRecordError):
        splits_of(logs / "orders-0")
    (logs / "orders-0" / f"{10:020d}.snapshot").write_bytes(bytes.fromhex("0001 48674bc7 00000000"))
    found = splits_of(logs / "orders-0", startingTimestamp=START_MS + 12_000)
    assert [(split.first_offset, split.end_offset) for split in found] == [(12, 15)]


def test_large_segments_are_cut_at_their_index(tmp_path):
    batches = [batch(offset, 10) for offset in range(0, 100, 10)]
    write_segment(tmp_path / "orders-0", 0, batches, index=True)
    size = len(batches[0])
    found = splits_of(tmp_path, maxPartitionBytes=3 * size)
    assert [(split.first_offset, split.end_offset) for split in found] == [(0, 30), (30, 60), (60, 90), (90, 100)]
    assert read_offsets(tmp_path, maxPartitionBytes=3 * size) == list(range(100))
    middle = splits_of(
        tmp_path,
        maxPartitionBytes=3 * size,
        startingOffsets='{"orders": {"0": 45}}',
        endingOffsets='{"orders": {"0": 60}}',
    )
    assert [(split.first_offset, split.end_offset) for split in middle] == [(45, 60)]


@pytest.mark.parametrize("entry", [(5, 7), (5, 1_000_000), (50, 100), (1, 0)])
def test_an_index_that_points_at_no_batch_does_not_matter(tmp_path, entry):
    batches = [batch(offset, 10) for offset in range(0, 100, 10)]
    path = write_segment(tmp_path / "orders-0", 0, batches)
    path.with_suffix(".index").write_bytes(pack(">ii", *entry))
    assert read_offsets(tmp_path, maxPartitionBytes=1) == list(range(100))
