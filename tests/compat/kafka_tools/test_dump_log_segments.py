"""Kafka's own dump tool reads every kind of file that we write."""

import pytest

from benchmarks.apache_kafka import dump_log_segments
from tests.compat.kafka_tools import dump_output
from tests.compat.kafka_tools.dump_output import DumpedFile
from tests.compat.kafka_tools.samples import (
    CODECS,
    IDEMPOTENT,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    SEGMENTED,
    Sent,
    WrittenLog,
)

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def dumped_logs(our_log: WrittenLog) -> dict[str, list[DumpedFile]]:
    """All our `.log` files, dumped in one go, by topic."""
    output = dump_log_segments(our_log.files(".log"), "--deep-iteration", "--print-data-log")
    assert dump_output.complaints(output) == []
    by_topic: dict[str, list[DumpedFile]] = {}
    for file in dump_output.parse(output):
        by_topic.setdefault(file.path.parent.name.removesuffix("-0"), []).append(file)
    return by_topic


def test_every_record_is_read_back_as_it_was_produced(
    our_log: WrittenLog, dumped_logs: dict[str, list[DumpedFile]]
) -> None:
    for topic, sent in our_log.records.items():
        records = [record for file in dumped_logs[topic] for record in file.records]
        assert [int(record["offset"] or 0) for record in records] == list(range(len(sent))), topic
        assert [_as_sent(record) for record in records] == sent, topic


@pytest.mark.parametrize("codec", CODECS)
def test_batches_keep_the_codec_they_came_with(codec: str, dumped_logs: dict[str, list[DumpedFile]]) -> None:
    batches = [row for file in dumped_logs[f"codec-{codec}"] for row in file.rows if "baseOffset" in row]
    assert batches
    assert {batch["compresscodec"].lower() for batch in batches} == {codec}
    assert {batch["isvalid"] for batch in batches} == {"true"}
    assert {batch["magic"] for batch in batches} == {"2"}
    assert {batch["partitionLeaderEpoch"] for batch in batches} == {"0"}


def test_segments_follow_each_other_without_a_gap(dumped_logs: dict[str, list[DumpedFile]]) -> None:
    files = dumped_logs[SEGMENTED]
    assert len(files) > 3, "the topic was made to roll"
    next_offset = 0
    for file in files:
        assert int(file.path.stem) == next_offset
        next_offset = int(file.rows[-1]["lastOffset"]) + 1


def test_indexes_agree_with_the_log_entry_by_entry(our_log: WrittenLog) -> None:
    """Without options the tool looks each index entry up in the log beside it and reports what does not fit."""
    indexes = our_log.partition_files(SEGMENTED, ".index") + our_log.partition_files(SEGMENTED, ".timeindex")
    output = dump_log_segments(indexes)
    assert dump_output.complaints(output) == []
    active = our_log.partition_files(SEGMENTED, ".log")[-1].stem
    without = [file.path.name for file in dump_output.parse(output) if not file.rows and file.path.stem != active]
    assert without == [], "each rolled segment has entries in both indexes"


def test_indexes_pass_the_sanity_check(our_log: WrittenLog) -> None:
    indexes = our_log.files(".index") + our_log.files(".timeindex")
    output = dump_log_segments(indexes, "--index-sanity-check")
    assert output.count("passed sanity check.") + output.count(".index is empty.") == len(indexes), output
    assert output.count(".timeindex passed sanity check.") == len(indexes) // 2


def test_producer_snapshots_hold_the_last_batches(our_log: WrittenLog) -> None:
    snapshots = our_log.partition_files(IDEMPOTENT, ".snapshot")
    assert snapshots, "a clean shutdown leaves a snapshot at the log end"
    (file,) = dump_output.parse(dump_log_segments(snapshots[-1:]))
    (producer,) = file.rows
    assert (producer["producerId"], producer["producerEpoch"]) == (str(PRODUCER_ID), str(PRODUCER_EPOCH))
    assert (producer["firstSequence"], producer["lastSequence"], producer["lastOffset"]) == ("6", "8", "8")


def test_each_roll_leaves_a_producer_snapshot(our_log: WrittenLog) -> None:
    snapshots = our_log.partition_files(SEGMENTED, ".snapshot")
    rolled_at = [int(path.stem) for path in our_log.partition_files(SEGMENTED, ".log")[1:]]
    assert [int(path.stem) for path in snapshots] == [*rolled_at, len(our_log.records[SEGMENTED])]
    files = dump_output.parse(dump_log_segments(snapshots))
    assert len(files) == len(snapshots)
    assert all(file.rows for file in files)


def _as_sent(record: dict[str, str | None]) -> Sent:
    """A dumped record as it was sent; the tool prints sizes of -1 for null keys and values."""
    headers = record["headers"] or ""
    return Sent(
        record["key"] if record["key_size"] != "-1" else None,
        record["value"] if record["value_size"] != "-1" else None,
        tuple(headers.split(",")) if headers else (),
        int(record["timestamp"] or 0),
    )
