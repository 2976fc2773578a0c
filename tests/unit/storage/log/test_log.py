"""Reading, rolling, deleting, truncating, flushing and closing a log."""

import contextlib
import errno
import os
from pathlib import Path

import pytest

from tests.unit.storage.logs import NOW_MS, append, append_marker, batch, make_log, read_records, read_values, reopen
from tidelog.config import LogConfig
from tidelog.records.builder import build_batch
from tidelog.records.record import Record
from tidelog.storage._pools import DESCRIPTORS
from tidelog.storage.errors import LogDirFailure, OutOfDescriptorsError
from tidelog.storage.leader_epochs import EpochEntry
from tidelog.storage.log import Log
from tidelog.storage.types import DeletionReason, StartOffsetReason, TimestampOffset
from tidelog.wire.errors import ApiError, ErrorCode

BATCH = 69
"""The size of a batch with one record of one byte and no key."""


def fill(log: Log, count: int, timestamp: int = NOW_MS) -> None:
    for _ in range(count):
        append(log, b"%d" % (log.log_end_offset % 10), timestamps=[timestamp])
    log.update_high_watermark(log.log_end_offset)


def file_names(log: Log) -> list[str]:
    return sorted(path.name for path in Path(log.directory).iterdir())


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


# Reading


def test_the_batch_size_these_tests_count_with(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    fill(log, 1)
    assert log.size_bytes == BATCH


def test_reads_end_at_the_limit_given(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    fill(log, 10)
    for end in range(11):
        for start in range(end + 1):
            expected = [b"%d" % number for number in range(start, end)]
            assert read_values(log, start, end) == expected


def test_a_read_starts_with_the_batch_that_holds_the_offset(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, b"a", b"b", b"c")
    append(log, b"d")
    piece = log.read(1, 10_000, 4, True).slice
    assert piece is not None
    assert (piece.position, piece.length) == (0, log.size_bytes)


def test_a_limit_within_a_batch_leaves_the_batch_out(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, b"a")
    append(log, b"b", b"c")
    assert read_values(log, 0, 2) == [b"a"]
    assert log.read(1, 10_000, 2, True).slice is None


def test_a_small_limit_cuts_but_the_first_batch_may_be_whole(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    fill(log, 5)
    cut = log.read(0, 30, 5, False)
    assert cut.slice is not None
    assert (cut.slice.length, cut.is_first_batch_cut) == (30, True)
    whole = log.read(0, 30, 5, True)
    assert whole.slice is not None
    assert (whole.slice.length, whole.is_first_batch_cut) == (BATCH, False)
    partial = log.read(0, BATCH + 10, 5, True)
    assert partial.slice is not None
    assert (partial.slice.length, partial.is_first_batch_cut) == (BATCH + 10, False)
    assert log.read(0, 0, 5, False) == (None, -1, -1, True)


@pytest.mark.parametrize("max_bytes", [0, 10_000])
@pytest.mark.parametrize("offset", [-1, 2, 11, 1000])
def test_offsets_outside_the_log_are_out_of_range(tmp_path: Path, offset: int, max_bytes: int) -> None:
    log = make_log(tmp_path)
    fill(log, 10)
    log.maybe_increment_log_start_offset(3, StartOffsetReason.CLIENT_DELETION)
    with pytest.raises(ApiError) as raised:
        log.read(offset, max_bytes, 10, bool(max_bytes))
    assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(10, 1000, 10, True).slice is None


def test_reads_go_from_segment_to_segment(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_bytes=BATCH * 3)
    fill(log, 10)
    assert bases(log) == [0, 3, 6, 9]
    for start in range(10):
        assert read_values(log, start) == [b"%d" % number for number in range(start, 10)]
    assert read_values(log, 1, 5) == [b"1", b"2", b"3", b"4"]


def test_a_reader_at_the_end_is_served_without_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers that have caught up come back for the offset at which they were last served."""
    log = make_log(tmp_path)
    fill(log, 3)
    read_values(log, 0)
    fill(log, 2)
    monkeypatch.setattr(type(log.active_segment), "locate", None)
    read = log.read(3, 1000, 5, True)
    assert read.slice is not None
    assert (read.position, read.slice.length) == (3 * BATCH, 2 * BATCH)


def test_a_slice_survives_deletion_and_renaming(tmp_path: Path) -> None:
    log = make_log(tmp_path, retention_ms=1000)
    fill(log, 2, timestamp=0)
    piece = log.read(0, 10_000, 2, True).slice
    assert piece is not None
    expected = piece.read()
    assert len(log.delete_old_segments(NOW_MS)) == 1
    log.rename_for_delete()
    assert piece.read() == expected


def test_records_are_found_by_time(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_bytes=BATCH * 2)
    for timestamp in (10, 20, 30, 50, 40):
        append(log, b"x", timestamps=[timestamp])
    assert log.offset_for_timestamp(0) == TimestampOffset(10, 0, 3)
    assert log.offset_for_timestamp(21) == TimestampOffset(30, 2, 3)
    assert log.offset_for_timestamp(31) == TimestampOffset(50, 3, 3)
    assert log.offset_for_timestamp(51) is None
    assert log.max_timestamp_offset() == TimestampOffset(50, 3, 3)
    assert log.earliest() == TimestampOffset(-1, 0, 3)
    assert log.latest() == TimestampOffset(-1, 5, 3)


def test_records_before_the_log_start_are_not_found_by_time(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, b"a", b"b", b"c", timestamps=[10, 20, 30])
    log.update_high_watermark(3)
    log.maybe_increment_log_start_offset(2, StartOffsetReason.CLIENT_DELETION)
    assert log.offset_for_timestamp(5) == TimestampOffset(30, 2, 3)


def test_an_empty_log_has_no_timestamps(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    assert log.max_timestamp_offset() is None
    assert log.offset_for_timestamp(NOW_MS) is None
    assert log.earliest() == TimestampOffset(-1, 0, -1)


def test_offsets_before_a_time_as_old_clients_ask(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_bytes=BATCH * 3)
    fill(log, 7)
    for segment, modified in zip(log.segments, (1000, 2000, 3000), strict=True):
        os.utime(segment.log_file.path, (modified, modified))
    now_ms = 4_000_000
    assert log.offsets_before(-1, 10, now_ms) == [7, 6, 3, 0]
    assert log.offsets_before(-1, 1, now_ms) == [7]
    assert log.offsets_before(-2, 10, now_ms) == [0]
    assert log.offsets_before(2_500_000, 10, now_ms) == [3, 0]
    assert log.offsets_before(1, 10, now_ms) == []


# Rolling


def test_a_roll_trims_the_old_segment_and_snapshots_the_producers(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_index_bytes=100)
    append(log, b"a", producer_id=1)
    log.roll(NOW_MS)
    assert bases(log) == [0, 1]
    assert (Path(log.directory) / f"{0:020d}.index").stat().st_size == 0
    assert (Path(log.directory) / f"{0:020d}.timeindex").stat().st_size == 12
    assert (Path(log.directory) / f"{1:020d}.index").stat().st_size == 96
    assert f"{1:020d}.snapshot" in file_names(log)


def test_staged_batches_stay_in_their_segment(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    log.append_as_leader(batch(b"1"), 0, NOW_MS)
    log.roll(NOW_MS)
    log.append_as_leader(batch(b"1"), 0, NOW_MS)
    log.write_staged()
    assert [segment.size_bytes for segment in log.segments] == [BATCH, BATCH]
    assert len(read_values(log, 0)) == 2


def test_an_empty_segment_is_not_rolled(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    segment = log.active_segment
    assert log.roll(NOW_MS) is segment
    fill(log, 1)
    assert log.roll(NOW_MS) is not segment


def test_segments_roll_by_age_of_the_records(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_ms=1000)
    append(log, b"a", timestamps=[5000])
    append(log, b"b", timestamps=[6000])
    append(log, b"c", timestamps=[6001])
    append(log, b"d", timestamps=[5500])
    assert bases(log) == [0, 2]


def test_segments_roll_when_an_index_is_full(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_index_bytes=16, index_interval_bytes=0)
    fill(log, 8)
    assert len(log.segments) > 2
    assert read_values(log, 0) == [b"%d" % number for number in range(8)]


def test_indexes_too_small_for_one_entry_still_work(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_index_bytes=4, index_interval_bytes=0)
    fill(log, 4)
    assert read_values(log, 0) == [b"0", b"1", b"2", b"3"]


def test_a_changed_configuration_is_followed(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    fill(log, 2)
    log.update_config(LogConfig(segment_bytes=BATCH * 2, max_message_bytes=80))
    fill(log, 1)
    assert bases(log) == [0, 2]
    with pytest.raises(ApiError):
        append(log, b"x" * 80)


# Retention


def test_segments_go_when_their_newest_record_is_too_old(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_bytes=BATCH * 2, retention_ms=1000)
    fill(log, 2, timestamp=NOW_MS - 2000)
    append(log, b"x", timestamps=[NOW_MS - 3000])
    append(log, b"x", timestamps=[NOW_MS - 1000])
    fill(log, 2, timestamp=NOW_MS - 5000)
    deleted = log.delete_old_segments(NOW_MS)
    assert [(segment.base_offset, reason) for segment, reason in deleted] == [(0, DeletionReason.RETENTION_TIME)]
    assert (log.log_start_offset, bases(log)) == (2, [2, 4])


def test_the_active_segment_is_rolled_first_when_all_is_due(tmp_path: Path) -> None:
    log = make_log(tmp_path, retention_ms=1000)
    fill(log, 3, timestamp=NOW_MS - 2000)
    assert len(log.delete_old_segments(NOW_MS)) == 1
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (3, 3, [3])
    assert log.delete_old_segments(NOW_MS + 10**9) == []
    fill(log, 1)
    assert read_values(log, 3) == [b"3"]


def test_nothing_above_the_high_watermark_is_deleted(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_bytes=BATCH * 2, retention_ms=1000)
    fill(log, 6, timestamp=0)
    log.update_high_watermark(3)
    assert [segment.base_offset for segment, _ in log.delete_old_segments(NOW_MS)] == [0]


def test_size_keeps_at_least_what_is_asked_for(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_bytes=BATCH * 2, retention_bytes=BATCH * 5, retention_ms=-1)
    fill(log, 10)
    deleted = log.delete_old_segments(NOW_MS)
    assert [(segment.base_offset, reason) for segment, reason in deleted] == [
        (0, DeletionReason.RETENTION_SIZE),
        (2, DeletionReason.RETENTION_SIZE),
    ]
    assert log.size_bytes == BATCH * 6


def test_deleted_records_take_their_segments_along(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_bytes=BATCH * 2, cleanup_policy=("compact",), retention_ms=1)
    for _ in range(6):
        keyed = build_batch([Record(0, NOW_MS, b"k", b"v")])
        log.append_as_leader(bytearray(keyed), 0, NOW_MS)
    log.write_staged()
    log.update_high_watermark(6)
    assert log.delete_old_segments(NOW_MS + 10**6) == []
    log.maybe_increment_log_start_offset(3, StartOffsetReason.CLIENT_DELETION)
    deleted = log.delete_old_segments(NOW_MS)
    assert [reason for _, reason in deleted] == [DeletionReason.LOG_START_OFFSET] * len(deleted)
    assert bases(log)[0] <= 3 < bases(log)[1]


def test_the_log_start_cannot_pass_the_high_watermark(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    fill(log, 5)
    log.update_high_watermark(3)
    with pytest.raises(ApiError) as raised:
        log.maybe_increment_log_start_offset(4, StartOffsetReason.CLIENT_DELETION)
    assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.maybe_increment_log_start_offset(3, StartOffsetReason.CLIENT_DELETION)
    assert not log.maybe_increment_log_start_offset(2, StartOffsetReason.CLIENT_DELETION)
    assert log.leader_epochs.entries() == (EpochEntry(3, 3),)


def test_deleted_files_are_renamed_and_handed_over(tmp_path: Path) -> None:
    handed: list[tuple[list[str], int]] = []
    log = Log.create(
        str(tmp_path / "t-0"),
        "t",
        0,
        LogConfig(segment_bytes=BATCH, retention_ms=1000, file_delete_delay_ms=77),
        NOW_MS,
        on_files_deleted=lambda paths, delay_ms: handed.append((list(paths), delay_ms)),
    )
    fill(log, 3, timestamp=0)
    log.delete_old_segments(NOW_MS)
    [(paths, delay_ms)] = handed
    assert delay_ms == 77
    assert all(path.endswith(".deleted") for path in paths)
    assert {os.path.basename(path) for path in paths} >= {f"{1:020d}.log.deleted", f"{1:020d}.snapshot.deleted"}
    remaining = [name for name in file_names(log) if not name.endswith(".deleted")]
    assert [name[19:] for name in remaining] == ["3.index", "3.log", "3.snapshot", "3.timeindex"]


# Truncation


def test_truncation_removes_records_segments_and_epochs(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_bytes=BATCH * 2)
    fill(log, 7)
    log.leader_epochs.assign(9, 7)
    assert log.truncate_to(3, NOW_MS)
    assert (log.log_end_offset, log.written_end_offset, log.high_watermark) == (3, 3, 3)
    assert bases(log) == [0, 2]
    assert read_values(log, 0) == [b"0", b"1", b"2"]
    assert log.leader_epochs.latest_epoch == 3
    fill(log, 4)
    assert read_values(log, 0) == [b"%d" % number for number in range(7)]


def test_truncation_beyond_the_end_only_drops_an_epoch_without_records(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    fill(log, 2)
    log.leader_epochs.assign(9, 2)
    assert not log.truncate_to(2, NOW_MS)
    assert (log.log_end_offset, log.leader_epochs.latest_epoch) == (2, 3)


def test_truncation_to_a_segment_boundary_forgets_later_producers(tmp_path: Path) -> None:
    """The state is not only that of the last snapshot: appends since then must be undone, too."""
    log = make_log(tmp_path, segment_bytes=BATCH * 2)
    append(log, b"0", producer_id=1, sequence=0)
    append(log, b"1", producer_id=1, sequence=1)
    append(log, b"2", producer_id=1, sequence=2)
    append(log, b"3", producer_id=2, sequence=0)
    assert bases(log) == [0, 2]
    log.truncate_to(2, NOW_MS)
    assert [(entry.producer_id, entry.last_sequence) for entry in log.producer_state.active_producers()] == [(1, 1)]
    append(log, b"2", producer_id=1, sequence=2)


def test_truncation_replays_what_the_snapshot_lacks(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    for sequence in range(5):
        append(log, b"x", producer_id=1, sequence=sequence)
    log.truncate_to(3, NOW_MS)
    [entry] = log.producer_state.active_producers()
    assert (entry.last_sequence, entry.last_offset) == (2, 2)
    assert len(entry.batches) == 3


def test_truncation_reopens_a_transaction(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, b"x", producer_id=1, sequence=0, is_transactional=True)
    append_marker(log, 1, is_commit=False)
    log.update_high_watermark(2)
    assert log.last_stable_offset == 2
    log.truncate_to(1, NOW_MS)
    assert log.positions.first_unstable_offset == 0
    assert log.aborted_transactions(0, 10) == []


def test_truncation_before_the_first_segment_starts_over(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_bytes=BATCH * 2, retention_ms=1000)
    fill(log, 5, timestamp=0)
    log.delete_old_segments(NOW_MS)
    assert log.log_start_offset == 5
    log.truncate_to(2, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (2, 2, [2])


def test_a_log_can_start_again_elsewhere(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, b"a", producer_id=1)
    log.truncate_fully_and_start_at(500, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (500, 500, 500)
    assert (log.producer_state.active_producers(), log.leader_epochs.entries(), bases(log)) == ([], (), [500])
    fill(log, 1)
    assert read_records(log, 500)[0].offset == 500


def test_starting_again_at_the_same_offset(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    fill(log, 2)
    log.truncate_fully_and_start_at(0, NOW_MS)
    assert (log.log_end_offset, log.size_bytes) == (0, 0)
    fill(log, 1)
    assert read_values(log, 0) == [b"0"]


# Flushing


def test_a_flush_moves_the_recovery_point(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_bytes=BATCH * 2)
    fill(log, 5)
    assert (log.recovery_point, log.unflushed_messages) == (0, 5)
    job = log.prepare_flush(3)
    job.run()
    assert log.recovery_point == 0
    log.complete_flush(job, NOW_MS + 5)
    assert (log.recovery_point, log.flush_state.last_flush_ms) == (3, NOW_MS + 5)
    log.flush()
    assert (log.recovery_point, log.unflushed_messages) == (5, 0)


def test_a_flush_that_a_truncation_overtook_counts_for_nothing(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    fill(log, 5)
    job = log.prepare_flush()
    log.truncate_to(2, NOW_MS)
    fill(log, 3)
    job.run()
    log.complete_flush(job)
    assert log.recovery_point == 0


def test_what_a_flush_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New names and the indexes of rolled segments, whose rebuilding recovery will skip, must be on disk as well."""
    log = make_log(tmp_path, segment_bytes=BATCH * 2)
    fill(log, 3)
    synced: list[str] = []
    monkeypatch.setattr("tidelog.storage.log._flushing.sync_path", synced.append)
    log.flush()
    names = {os.path.basename(path) for path in synced}
    rolled = {f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.timeindex"}
    assert names >= {"topic-0", tmp_path.name, *rolled, f"{2:020d}.snapshot"}
    assert (Path(log.directory) / "leader-epoch-checkpoint").read_text() == "0\n1\n3 0\n"
    synced.clear()
    fill(log, 1)
    log.flush()
    assert synced == []


def test_a_flush_of_many_segments_keeps_one_descriptor(tmp_path: Path) -> None:
    """It may wait long for a thread, and other files need the descriptors meanwhile. Fails on 4724f6e."""
    log = make_log(tmp_path, segment_bytes=BATCH * 2)
    fill(log, 60)
    job = log.prepare_flush()
    while len(DESCRIPTORS):
        DESCRIPTORS.make_room()
    links = [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.lexists(entry.path)]
    held = [path for path in links if path.startswith(log.directory) and path.endswith(".log")]
    assert held == [str(Path(log.directory) / f"{58:020d}.log")]
    job.run()
    log.complete_flush(job)
    assert log.recovery_point == 60


def test_a_flush_that_a_rename_overtook_is_to_be_repeated(tmp_path: Path) -> None:
    """Files that it knew by their names were not there any more."""
    log = make_log(tmp_path, segment_bytes=BATCH * 2)
    fill(log, 5)
    job = log.prepare_flush()
    log._rename(log.directory + "-renamed")
    job.run()
    assert not log.complete_flush(job)
    assert log.recovery_point == 0
    again = log.prepare_flush()
    again.run()
    assert log.complete_flush(again)
    assert log.recovery_point == 5


def test_a_refused_sync_is_a_failed_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log(tmp_path)
    fill(log, 1)

    def refuse(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("tidelog.storage.log._flushing._sync_data", refuse)
    job = log.prepare_flush()
    with pytest.raises(LogDirFailure, match="Input/output error"):
        job.run()


# Closing and deleting


def test_a_closed_log_opens_again_with_everything(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_bytes=BATCH * 4, index_interval_bytes=0)
    for sequence in range(9):
        append(log, b"%d" % sequence, producer_id=1, sequence=sequence, timestamps=[NOW_MS + sequence])
    log.flush()
    log.close()
    again = reopen(log)
    assert again.log_end_offset == 9
    assert read_values(again, 0) == [b"%d" % number for number in range(9)]
    assert again.leader_epochs.latest_epoch == 3
    assert again.max_timestamp_offset() == TimestampOffset(NOW_MS + 8, 8, 3)
    info = append(again, b"8", producer_id=1, sequence=8)
    assert (info.is_duplicate, info.first_offset) == (True, 8)
    append(again, b"9", producer_id=1, sequence=9)
    assert read_values(again, 7) == [b"7", b"8", b"9"]


def test_closing_trims_the_indexes_and_leaves_a_snapshot(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, b"a", producer_id=1)
    log.close()
    sizes = {path.name: path.stat().st_size for path in Path(log.directory).iterdir()}
    assert sizes[f"{0:020d}.index"] == 0
    assert sizes[f"{0:020d}.timeindex"] == 12
    assert f"{1:020d}.snapshot" in sizes
    assert "leader-epoch-checkpoint" in sizes


def test_a_new_log_is_only_a_directory_with_three_files(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    assert [name[20:] for name in file_names(log)] == [".index", ".log", ".timeindex"]
    with pytest.raises(FileExistsError):
        make_log(tmp_path)


def test_renaming_for_deletion_frees_the_name(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    fill(log, 2)
    directory = log.rename_for_delete()
    name = os.path.basename(directory)
    assert name.startswith("topic-0.")
    assert name.endswith("-delete")
    assert len(name) == len("topic-0.") + 32 + len("-delete")
    assert read_values(log, 0) == [b"0", b"1"]
    make_log(tmp_path)


def test_indexes_of_a_log_that_is_deleted_are_cut_to_their_entries(tmp_path: Path) -> None:
    """Kafka's dump tool takes the zeros of a preallocated index for damage."""
    log = make_log(tmp_path)
    fill(log, 2)
    directory = log.rename_for_delete()
    sizes = {name[20:]: os.stat(os.path.join(directory, name)).st_size for name in os.listdir(directory)}
    assert sizes[".index"] % 8 == sizes[".timeindex"] % 12 == 0
    assert max(sizes[".index"], sizes[".timeindex"]) < 100
    assert read_values(log, 0) == [b"0", b"1"]


def test_a_long_topic_name_is_shortened_for_deletion(tmp_path: Path) -> None:
    topic = "t" * 249
    log = Log.create(str(tmp_path / f"{topic}-0"), topic, 0, LogConfig(), NOW_MS)
    assert len(os.path.basename(log.rename_for_delete())) == 255


def test_expired_producers_are_forgotten(tmp_path: Path) -> None:
    log = Log.create(str(tmp_path / "t-0"), "t", 0, LogConfig(), NOW_MS, producer_expiration_ms=1000)
    append(log, b"a", producer_id=1)
    assert log.producer_state.remove_expired(NOW_MS + 999) == 0
    assert log.producer_state.remove_expired(NOW_MS + 1000) == 1
    assert append(log, b"a", producer_id=1, sequence=44).first_offset == 1


def test_the_high_watermark_stays_within_the_log(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    fill(log, 4)
    assert log.update_high_watermark(100) == 4
    log.maybe_increment_log_start_offset(2, StartOffsetReason.CLIENT_DELETION)
    assert log.update_high_watermark(0) == 2


def test_a_roll_asks_for_a_flush_of_what_it_closed(tmp_path: Path) -> None:
    """Otherwise the recovery point would stay behind, and a crash would mean reading the whole log."""
    log = make_log(tmp_path, segment_bytes=BATCH * 2)
    log.on_rolled(lambda rolled: rolled.flush())
    fill(log, 5)
    assert log.recovery_point == 4


def test_a_flush_of_a_log_that_is_being_deleted_does_no_harm(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    fill(log, 2)
    job = log.prepare_flush()
    log.rename_for_delete()
    job.run()


@pytest.mark.parametrize("opens", range(6))
def test_a_roll_without_descriptors_changes_nothing_and_succeeds_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens: int
) -> None:
    """Whichever of the files cannot be opened. Fails on 4724f6e, where the log was of no use ever after."""
    log = make_log(tmp_path)
    append(log, b"a", b"b", producer_id=7)
    real_open, left = os.open, opens

    def scarce(path: str, flags: int, mode: int = 0o777) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.EMFILE, "Too many open files", path)
        return real_open(path, flags, mode)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", scarce)
        with contextlib.suppress(OutOfDescriptorsError):
            log.roll(NOW_MS)
    append(log, b"c")
    log.roll(NOW_MS)
    append(log, b"d")
    assert read_values(log, 0) == [b"a", b"b", b"c", b"d"]
    assert bases(log)[-1] == 3
    assert 7 in log.producer_state.producers
    log.close()
    assert read_values(reopen(log), 0) == [b"a", b"b", b"c", b"d"]
