"""What one cleaning leaves of a log, on real files, in plain Python: it defines what the kernels must do, too."""

import os
from pathlib import Path

import pytest

from tests.unit.storage.cleaner.support import (
    DAY_MS,
    EPOCH,
    NOW_MS,
    Kept,
    append,
    append_marker,
    batches_of,
    clean_log,
    compact,
    fetched,
    files_in,
    latest,
    make_log,
    plain,
    plan,
    records_of,
    reopen,
    run,
)
from tidelog.config import LogConfig
from tidelog.records.batch import iterate_records
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import read_header
from tidelog.records.kernels.compaction import PlainCompactor
from tidelog.records.legacy import convert_down, iterate_legacy_records
from tidelog.records.record import Record
from tidelog.storage.cleaner.cleaning import bytes_to_read
from tidelog.storage.cleaner.jobs import GroupCleaned, JobDone
from tidelog.storage.log import Log

K, L = b"k", b"l"


def test_the_last_record_of_each_key_stays_where_it_was(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, (K, b"1"), (L, b"1"), (K, b"2"))
    append(log, (L, b"2"))
    append(log, (b"m", b"1"))
    done = compact(log)
    assert records_of(log) == [Kept(2, K, b"2"), Kept(3, L, b"2"), Kept(4, b"m", b"1")]
    assert fetched(log) == records_of(log)
    assert (done.end_offset, done.records_read, done.records_kept) == (5, 5, 3)
    assert log.positions.clean_point == 5


def test_a_fetch_from_a_gap_goes_on_with_what_comes_after_it(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    for number in range(20):
        append(log, (K, str(number).encode()))
    compact(log)
    assert [fetched(log, offset) for offset in (0, 7, 19)] == [[Kept(19, K, b"19")]] * 3


def test_batches_keep_their_place_their_producer_and_their_epoch(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, (K, b"1"), (L, b"1"), (b"m", b"1"), producer_id=7, producer_epoch=2, sequence=10)
    append(log, (K, b"2"), (b"m", b"2"))
    compact(log)
    (header, records), _ = batches_of(log)
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 2, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (7, 2, 10, 12)
    assert header.partition_leader_epoch == EPOCH
    assert [record.offset for record in records] == [1]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_is_compressed_again_with_its_codec(tmp_path: Path, codec: Codec) -> None:
    log = make_log(tmp_path)
    append(log, (K, b"1" * 100), (L, b"2" * 100), codec=codec)
    append(log, (K, b"3"))
    compact(log)
    (header, records), _ = batches_of(log)
    assert header.codec is codec
    assert [(record.offset, record.key, record.value) for record in records] == [(1, L, b"2" * 100)]


def test_timestamps_stay_what_they_were(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, (K, b"1"), (L, b"1"), timestamp=NOW_MS - 5)
    append(log, (K, b"2"), timestamp=NOW_MS)
    compact(log)
    (header, records), _ = batches_of(log)
    assert (header.base_timestamp, header.max_timestamp, records[0].timestamp) == (NOW_MS - 4, NOW_MS - 4, NOW_MS - 4)


def test_the_time_of_the_append_stays_in_batches_that_carry_it(tmp_path: Path) -> None:
    log = make_log(tmp_path, message_timestamp_type="LogAppendTime")
    append(log, (K, b"1"), (L, None), timestamp=1)
    append(log, (K, b"2"))
    compact(log)
    (header, records), _ = batches_of(log)
    assert header.is_log_append_time
    assert header.has_delete_horizon
    assert (header.max_timestamp, records[0].timestamp) == (NOW_MS, NOW_MS)


def test_a_tombstone_stays_until_its_horizon_which_is_kept_in_the_batch(tmp_path: Path) -> None:
    """KIP-534: the clock starts when the tombstone is first cleaned, and the batch says when it ends."""
    log = make_log(tmp_path, delete_retention_ms=DAY_MS)
    append(log, (K, b"1"))
    append(log, (K, None), (L, b"1"), timestamp=NOW_MS - 7)
    compact(log, NOW_MS)
    ((header, records),) = batches_of(log)
    assert header.delete_horizon_ms == NOW_MS + DAY_MS
    assert [(record.timestamp, record.value) for record in records] == [(NOW_MS - 7, None), (NOW_MS - 6, b"1")]

    append(log, (b"x", b"1"))
    compact(log, NOW_MS + DAY_MS - 1)
    assert batches_of(log)[0] == (header, records), "its time has not come"
    append(log, (b"x", b"2"))
    compact(log, NOW_MS + DAY_MS)
    assert records_of(log) == [Kept(2, L, b"1"), Kept(4, b"x", b"2")]
    assert batches_of(log)[0][0].delete_horizon_ms == NOW_MS + DAY_MS


def test_a_tombstone_removes_what_was_there_before_it(tmp_path: Path) -> None:
    log = make_log(tmp_path, delete_retention_ms=0)
    append(log, (K, b"1"), (L, b"1"))
    compact(log)
    append(log, (K, None))
    compact(log)
    assert records_of(log) == [Kept(1, L, b"1"), Kept(2, K, None)]
    append(log, (b"x", b"1"))
    compact(log, NOW_MS + 1)
    assert latest(log) == {L: b"1", b"x": b"1"}
    assert K not in [record.key for record in records_of(log)]


def test_a_key_that_comes_back_outlives_its_tombstone(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, (K, b"1"))
    append(log, (K, None))
    append(log, (K, b"2"))
    compact(log)
    assert records_of(log) == [Kept(2, K, b"2")]


def test_records_without_a_key_go_and_are_counted(tmp_path: Path) -> None:
    """Produce refuses them; a topic whose policy was changed may hold some."""
    log = make_log(tmp_path, cleanup_policy=("delete",))
    append(log, (None, b"1"), (K, b"1"))
    log.update_config(LogConfig(cleanup_policy=("compact",)))
    done = compact(log)
    assert records_of(log) == [Kept(1, K, b"1")]
    assert done.records_without_key == 1


def test_the_active_segment_is_not_touched(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, (K, b"1"))
    append(log, (K, b"2"))
    log.roll(NOW_MS)
    append(log, (K, b"3"))
    done = clean_log(log)
    assert records_of(log) == [Kept(1, K, b"2"), Kept(2, K, b"3")]
    assert done.end_offset == 2


def test_small_segments_are_merged_up_to_the_size_of_one(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    for number in range(9):
        append(log, (str(number).encode(), b"v" * 20))
        log.roll(NOW_MS)
    job = plan(log)._replace(segment_bytes=3 * log.segments[0].size_bytes)
    groups = [event.base_offsets for event in run(job, plain()) if isinstance(event, GroupCleaned)]
    assert groups == [(0, 1, 2), (3, 4, 5), (6, 7, 8)]


def test_a_segment_of_which_nothing_is_left_becomes_empty(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, (K, b"1"))
    log.roll(NOW_MS)
    append(log, (K, b"2"))
    log.roll(NOW_MS)
    job = plan(log)._replace(segment_bytes=1)
    sizes = [event.size_bytes for event in run(job, plain()) if isinstance(event, GroupCleaned)]
    assert sizes[0] == 0
    assert sizes[1] > 0
    compact(log)
    assert fetched(log) == [Kept(1, K, b"2")]


def test_a_search_by_time_goes_past_segments_of_which_nothing_is_left(tmp_path: Path) -> None:
    """The file of such a segment is younger than any record; the record that is looked for lies behind it."""
    log = make_log(tmp_path, segment_bytes=100)
    append(log, (K, b"1" * 20), timestamp=1000)
    append(log, (K, b"2" * 20), timestamp=2000)
    append(log, (K, b"3" * 20), timestamp=3000)
    log.update_config(LogConfig(cleanup_policy=("compact",), segment_bytes=14))
    compact(log)
    assert log.segments[0].size_bytes == 0
    found = log.offset_for_timestamp(500)
    assert found is not None
    assert (found.offset, found.timestamp) == (2, 3000)
    assert log.offset_for_timestamp(3001) is None


def test_the_indexes_are_those_that_reading_the_segment_again_would_give(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    for number in range(40):
        append(log, (str(number % 7).encode(), b"v" * number), timestamp=NOW_MS + 100 * (number % 13))
    compact(log)
    segment = log.segments[0]
    found = _index_entries(log)
    assert found[0]
    assert found[1]
    segment.offset_index.delete()
    segment.time_index.delete()
    reopened = reopen(log, is_clean=False)
    assert _index_entries(reopened) == found


def _index_entries(log: Log) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    segment = log.segments[0]
    offsets, times = segment.offset_index, segment.time_index
    return (
        [offsets.entry(slot) for slot in range(offsets.entries())],
        [times.entry(slot) for slot in range(times.entries())],
    )


def test_a_cleaned_segment_is_as_old_as_the_last_one_it_was_made_from(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    for number in range(2):
        append(log, (K, str(number).encode()))
        log.roll(NOW_MS)
    os.utime(log.segments[0].log_file.path, ns=(1_000_000, 1_000_000))
    os.utime(log.segments[1].log_file.path, ns=(2_000_000, 2_000_000))
    clean_log(log)
    assert log.segments[0].last_modified_ms() == 2


# --- producers ---


def test_the_last_batch_of_a_producer_stays_even_without_records(tmp_path: Path) -> None:
    """Without it the log would forget the last sequence, and take a retry for something new."""
    log = make_log(tmp_path)
    append(log, (K, b"1"), producer_id=7, sequence=0)
    append(log, (K, b"2"), (L, b"2"), producer_id=7, sequence=1)
    append(log, (K, b"3"), (L, b"3"))
    compact(log)
    emptied, kept = batches_of(log)
    assert (emptied[0].base_offset, emptied[0].last_offset, emptied[0].record_count) == (1, 2, 0)
    assert (emptied[0].base_sequence, emptied[0].last_sequence) == (1, 2)
    assert len(kept[1]) == 2
    reopened = reopen(log, is_clean=False)
    assert reopened.producer_state.producers[7].last_sequence == 2
    assert fetched(reopened) == [Kept(3, K, b"3"), Kept(4, L, b"3")]


def test_the_empty_batch_goes_when_its_producer_has_written_again(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, (K, b"1"), producer_id=7, sequence=0)
    append(log, (K, b"2"))
    compact(log)
    assert [header.record_count for header, _ in batches_of(log)] == [0, 1]
    append(log, (L, b"1"), producer_id=7, sequence=1)
    compact(log)
    assert [header.base_offset for header, _ in batches_of(log)] == [1, 2]


def test_the_empty_batch_goes_when_its_producer_has_expired(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, (K, b"1"), producer_id=7, sequence=0)
    append(log, (K, b"2"))
    log.producer_state.remove_expired(NOW_MS + 2 * DAY_MS)
    compact(log)
    assert [header.base_offset for header, _ in batches_of(log)] == [1]


# --- transactions ---


def test_records_of_an_aborted_transaction_go_whatever_their_keys(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, (K, b"kept"))
    append(log, (K, b"aborted"), (L, b"aborted"), producer_id=7, sequence=0, is_transactional=True)
    append_marker(log, 7, is_commit=False)
    compact(log)
    assert latest(log) == {K: b"kept"}


def test_an_abort_marker_stays_until_its_batches_are_gone_and_a_while_longer(tmp_path: Path) -> None:
    log = make_log(tmp_path, delete_retention_ms=DAY_MS)
    append(log, (K, b"aborted"), producer_id=7, sequence=0, is_transactional=True)
    append_marker(log, 7, is_commit=False)
    append(log, (L, b"1"), producer_id=7, sequence=1)  # so that no batch is the producer's last
    compact(log, NOW_MS)
    marker = batches_of(log)[0][0]
    assert (marker.is_control, marker.delete_horizon_ms) == (True, None), "this cleaning still saw the data"
    assert [entry.producer_id for entry in log.segments[0].transaction_index.entries()] == [7]

    append(log, (b"x", b"1"))
    compact(log, NOW_MS + 1)
    marker = batches_of(log)[0][0]
    assert (marker.is_control, marker.delete_horizon_ms) == (True, NOW_MS + 1 + DAY_MS)
    assert log.segments[0].transaction_index.entries() == []

    append(log, (b"x", b"2"))
    compact(log, NOW_MS + 1 + DAY_MS)
    assert not any(header.is_control for header, _ in batches_of(log))


def test_a_commit_marker_stays_while_any_of_its_records_does(tmp_path: Path) -> None:
    log = make_log(tmp_path, delete_retention_ms=0)
    append(log, (K, b"1"), producer_id=7, sequence=0, is_transactional=True)
    append_marker(log, 7, is_commit=True)
    append(log, (L, b"1"), producer_id=7, sequence=1)
    for later in range(3):
        append(log, (b"x", b"1"))
        compact(log, NOW_MS + later)
        assert batches_of(log)[1][0].is_control
        assert batches_of(log)[1][0].delete_horizon_ms is None
    append(log, (K, b"2"))
    compact(log, NOW_MS + 10)  # the data goes
    append(log, (b"x", b"2"))
    compact(log, NOW_MS + 11)  # the marker gets its horizon
    append(log, (b"x", b"3"))
    compact(log, NOW_MS + 12)
    assert not any(header.is_control for header, _ in batches_of(log))


def test_the_marker_that_is_all_a_log_knows_of_a_producer_stays_for_its_epoch(tmp_path: Path) -> None:
    log = make_log(tmp_path, delete_retention_ms=0)
    append(log, (K, b"1"), producer_id=7, sequence=0, is_transactional=True)
    append_marker(log, 7, is_commit=True, producer_epoch=5)
    assert log.producer_state.producers[7].last_offset == -1, "the marker began a new epoch"
    append(log, (K, b"2"))
    for later in range(5):
        append(log, (b"x", b"1"))
        compact(log, NOW_MS + later)
    control = [(header, records) for header, records in batches_of(log) if header.is_control]
    assert [(header.producer_epoch, len(records)) for header, records in control] == [(5, 0)]
    reopened = reopen(log, is_clean=False)
    assert reopened.log_end_offset == log.log_end_offset


def test_a_transaction_over_several_segments_is_known_in_each(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    for number in range(3):
        append(log, (str(number).encode(), b"aborted"), producer_id=7, sequence=number, is_transactional=True)
        append(log, (str(number).encode(), b"kept"))
        log.roll(NOW_MS)
    append_marker(log, 7, is_commit=False)
    log.roll(NOW_MS)
    job = plan(log)._replace(segment_bytes=1)
    assert job.end_offset == 7
    compact(log)
    assert {record.value for record in records_of(log)} == {b"kept"}


def test_nothing_of_an_open_transaction_or_behind_it_is_cleaned(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, (K, b"1"))
    append(log, (K, b"2"))
    log.roll(NOW_MS)
    append(log, (K, b"3"), producer_id=7, sequence=0, is_transactional=True)
    log.roll(NOW_MS)
    append(log, (K, b"4"))
    done = compact(log)
    assert done.end_offset == 2
    assert [record.value for record in records_of(log)] == [b"2", b"3", b"4"]


# --- bounds, old formats, damage ---


def test_a_map_that_is_full_cleans_as_far_as_it_goes(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    for number in range(6):
        append(log, (str(number).encode(), b"1"), (str(number).encode(), b"2"))
    done = compact(log, new_compactor=lambda: PlainCompactor(1 << 20, 0.9, keys_max=3))
    # The key of offset 5 is in the map already, but room is asked for first, as in Kafka.
    assert done.end_offset == 5
    assert [record.offset for record in records_of(log)] == [1, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    while log.positions.clean_point < 12:
        clean_log(log, new_compactor=lambda: PlainCompactor(1 << 20, 0.9, keys_max=3))
    assert [record.offset for record in records_of(log)] == [1, 3, 5, 7, 9, 11]


def test_the_map_takes_no_more_memory_than_it_may(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    for number in range(100):
        append(log, (b"%05d" % number, b"1"))
    compactor = PlainCompactor(10_000, 0.5)
    log.roll(NOW_MS)
    run(plan(log), compactor)
    assert compactor.is_full
    assert 0.4 < compactor.utilization() < 0.6


def test_a_window_smaller_than_a_batch_grows(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, (K, os.urandom(50_000)))
    append(log, (K, os.urandom(20_000)), (L, b"1"))
    log.roll(NOW_MS)
    *_, done = run(plan(log)._replace(buffer_bytes=0), plain())
    assert isinstance(done, JobDone)
    assert (done.records_read, done.records_kept) == (3, 2)


def test_messages_of_old_formats_are_cleaned_like_others(tmp_path: Path) -> None:
    """A directory of an old Kafka may hold them; what is rewritten becomes a batch of today."""
    log = make_log(tmp_path)
    old = [
        build_batch([Record(0, NOW_MS, K, b"1"), Record(1, NOW_MS, L, b"1")], base_offset=0, codec=Codec.GZIP),
        build_batch([Record(2, NOW_MS, K, b"2")], base_offset=2),
        build_batch([Record(3, NOW_MS, b"m", b"1")], base_offset=3),
        build_batch([Record(4, NOW_MS, b"m", None)], base_offset=4),
    ]
    data = b"".join(convert_down(batch, 1) for batch in old)
    log.segments[0].log_file.write([data], 0)
    log.segments[0].size_bytes = len(data)
    log.positions.truncate(5, 0)
    log._staging.written_bytes = len(data)
    log.update_high_watermark(5)
    done = compact(log)
    assert (done.records_read, done.records_kept) == (5, 3)
    segment = log.segments[0]
    kept = segment.log_file.read(0, segment.size_bytes)
    assert b"".join(convert_down(batch, 1) for batch in (old[1], old[3])) in kept
    assert _state_of_mixed(kept) == {L: b"1", K: b"2", b"m": None}


def _state_of_mixed(data: bytes) -> dict[bytes | None, bytes | None]:
    state: dict[bytes | None, bytes | None] = {}
    position = 0
    while position < len(data):
        size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
        batch = data[position : position + size]
        records = iterate_records(batch) if read_header(batch.ljust(61, b"\0")).magic == 2 else None
        for record in records or iterate_legacy_records(batch):
            state[record.key] = record.value
        position += size
    return state


@pytest.mark.parametrize("position", [18, 30, 70])
def test_a_batch_that_does_not_match_its_checksum_is_not_given_a_new_one(tmp_path: Path, position: int) -> None:
    log = make_log(tmp_path)
    append(log, (K, b"1"), (K, b"2"))
    log.roll(NOW_MS)
    path = Path(log.segments[0].log_file.path)
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecordError):
        run(plan(log), plain())
    assert files_in(log, ".cleaned") == []


def test_a_file_that_ends_within_a_batch_is_not_cleaned(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, (K, b"1"))
    log.roll(NOW_MS)
    job = plan(log)
    os.truncate(log.segments[0].log_file.path, 40)
    with pytest.raises(CorruptRecordError):
        run(job, plain())


def test_what_an_earlier_attempt_left_is_written_over(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, (K, b"1"))
    append(log, (K, b"2"))
    log.roll(NOW_MS)
    run(plan(log), plain())
    assert files_in(log, ".cleaned")
    clean_log(log)
    assert records_of(log) == [Kept(1, K, b"2")]
    assert files_in(log, ".cleaned") == []


def test_both_passes_count_towards_the_progress(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, (K, b"1"))
    compact(log)
    append(log, (K, b"2"))
    log.roll(NOW_MS)
    clean, dirty, _ = [segment.size_bytes for segment in log.segments]
    assert bytes_to_read(plan(log)) == dirty + clean + dirty
