"""The log manager: directories, creation and deletion, rounds, checkpoints, failing disks, clean shutdown."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.storage._logs import (
    CONFIG,
    START_MS,
    ManagedLogs,
    a_batch,
    fill,
    new_log,
    unpack_kafka_directory,
    values_of,
)
from tidelog.config import BrokerConfig, LogConfig
from tidelog.storage.checkpoints import (
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    OffsetCheckpointFile,
)
from tidelog.storage.directories.background import DIRECTORIES_AT_ONCE
from tidelog.storage.directories.log_directory import (
    CLEAN_SHUTDOWN_FILE,
    DirectoryLockedError,
    DirectoryNameError,
    LogDirectory,
)
from tidelog.storage.directories.manager import DuplicatePartitionError, LogManagerConfig, NoLogDirectoryError
from tidelog.storage.errors import LogDirFailure, StorageError
from tidelog.storage.loading.loader import Recovery
from tidelog.storage.log import Log
from tidelog.storage.types import StartOffsetReason
from tidelog.wire.errors import ApiError, ErrorCode

TOPIC_ID = bytes(range(1, 17))
OTHER_ID = bytes(range(2, 18))


def checkpoint(directory: Path, name: str) -> dict[tuple[str, int], int]:
    return OffsetCheckpointFile(str(directory), name).read()


def partition_names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_dir())


# Start and stop


def test_what_was_written_is_there_after_a_clean_restart(tmp_path: Path) -> None:
    manager = ManagedLogs(tmp_path).start()
    log = manager.get_or_create_log("topic", 0, TOPIC_ID, CONFIG)
    fill(log, 3)
    assert manager.close()
    assert (tmp_path / CLEAN_SHUTDOWN_FILE).exists()
    assert checkpoint(tmp_path, RECOVERY_POINT_FILE) == {("topic", 0): 6}
    assert checkpoint(tmp_path, HIGH_WATERMARK_FILE) == {("topic", 0): 6}
    again = ManagedLogs(tmp_path)
    again.manager.open_directories()
    summary = again.manager.load(lambda _: CONFIG)
    assert (summary.logs, summary.unclean_directories, summary.recovery) == (1, (), Recovery())
    assert not (tmp_path / CLEAN_SHUTDOWN_FILE).exists(), "from now on a crash is possible"
    opened = again.manager.get_log("topic", 0)
    assert opened is not None
    assert opened.topic_id == TOPIC_ID
    assert opened.high_watermark == 6
    assert len(values_of(opened)) == 6
    again.manager.close()


@pytest.mark.parametrize("is_offered", [True, False])
def test_very_many_logs_are_closed_as_cleanly_as_one(
    tmp_path: Path, is_offered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are synced together where the system offers that, else one by one."""
    if not is_offered:
        monkeypatch.setattr(LogDirectory, "sync_file_system", lambda _: False)
    manager = ManagedLogs(tmp_path).start()
    for partition in range(70):
        fill(manager.get_or_create_log("topic", partition, TOPIC_ID, CONFIG), partition % 3, leader_epoch=2)
    assert manager.close()
    assert checkpoint(tmp_path, RECOVERY_POINT_FILE) == {
        ("topic", partition): 2 * (partition % 3) for partition in range(70)
    }
    managed = ManagedLogs(tmp_path)
    managed.manager.open_directories()
    summary = managed.manager.load(lambda _: CONFIG)
    assert (summary.unclean_directories, summary.recovery) == ((), Recovery())
    log = managed.manager.get_log("topic", 2)
    assert log is not None
    assert log.leader_epochs.latest_epoch == 2
    assert len(values_of(log)) == 4
    managed.manager.close()


def test_closing_many_logs_takes_a_handful_of_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails on 4724f6e, where 60 logs took 340 syncs: a shutdown of 102 s on a disk that takes 300 ms for each."""
    manager = ManagedLogs(tmp_path).start()
    for partition in range(20):
        fill(manager.get_or_create_log("topic", partition, TOPIC_ID, CONFIG), 1)
    syncs: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _fd: syncs.append("fsync"))
    monkeypatch.setattr(os, "fdatasync", lambda _fd: syncs.append("fdatasync"))

    def sync_file_system(_directory: LogDirectory) -> bool:
        syncs.append("syncfs")
        return True

    monkeypatch.setattr(LogDirectory, "sync_file_system", sync_file_system)
    assert manager.close()
    assert syncs.count("syncfs") == 3
    assert len(syncs) <= 5, "but for the marker, every file is synced with the others"


def test_without_the_marker_logs_are_recovered_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = new_log(tmp_path)
    fill(log, 4)
    log.release()
    managed = ManagedLogs(tmp_path)
    managed.manager.open_directories()
    summary = managed.manager.load(lambda _: CONFIG)
    assert summary.unclean_directories == (str(tmp_path),)
    assert summary.recovery.batches == 4
    assert f"no clean shutdown was recorded in {tmp_path}: 1 segments with 4 batches read" in caplog.text
    managed.manager.close()


def test_recovery_on_several_threads_finds_the_same(tmp_path: Path) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    for directory in directories:
        directory.mkdir()
    for partition in range(12):
        log = new_log(directories[partition % 2], name=f"topic-{partition}")
        fill(log, partition)
        log.release()
    managed = ManagedLogs(*directories, num_recovery_threads_per_data_dir=3)
    manager = managed.start()
    ends = {log.partition: log.log_end_offset for log in manager.all_logs()}
    assert ends == {partition: 2 * partition for partition in range(12)}
    manager.close()


def test_missing_directories_are_created_and_one_named_twice_is_refused(tmp_path: Path) -> None:
    managed = ManagedLogs(tmp_path / "a" / "b")
    assert managed.manager.open_directories() == [str(tmp_path / "a" / "b")]
    managed.manager.close()
    with pytest.raises(StorageError, match="more than once"):
        ManagedLogs(tmp_path / "a", tmp_path / "x" / ".." / "a").manager.open_directories()


def test_a_directory_in_use_is_refused_and_nothing_stays_locked(tmp_path: Path) -> None:
    first = ManagedLogs(tmp_path / "b")
    first.manager.open_directories()
    second = ManagedLogs(tmp_path / "a", tmp_path / "b")
    with pytest.raises(DirectoryLockedError, match=str(tmp_path / "b")):
        second.manager.open_directories()
    first.manager.close()
    second.manager.open_directories()
    second.manager.close()


def test_what_is_no_partition_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    managed = ManagedLogs(tmp_path)
    managed.manager.open_directories()
    with pytest.raises(DirectoryNameError, match=r"lost\+found"):
        managed.manager.load(lambda _: CONFIG)
    managed.manager.unlock()


def test_a_partition_in_two_directories_stops_the_start(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        new_log(tmp_path / name).close()
    managed = ManagedLogs(tmp_path / "a", tmp_path / "b")
    managed.manager.open_directories()
    with pytest.raises(DuplicatePartitionError, match="topic-0 exists in both"):
        managed.manager.load(lambda _: CONFIG)
    managed.manager.unlock()


@pytest.mark.parametrize("name", [RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE])
def test_a_start_without_a_readable_checkpoint_is_still_a_start(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    manager = ManagedLogs(tmp_path).start()
    fill(manager.get_or_create_log("topic", 0, None, CONFIG), 3)
    manager.close()
    (tmp_path / name).write_bytes(b"nonsense")
    again = ManagedLogs(tmp_path).start()
    log = again.get_log("topic", 0)
    assert log is not None
    assert log.log_end_offset == 6
    assert f"malformed line 1 of checkpoint file {tmp_path / name}" in caplog.text
    again.close()


def test_a_directory_of_kafka_is_taken_over_with_its_topic_ids(tmp_path: Path) -> None:
    directory = unpack_kafka_directory(tmp_path)
    manager = ManagedLogs(directory).start()
    found = {(log.topic, log.partition): log.topic_id for log in manager.all_logs()}
    assert set(found) == {
        ("__consumer_offsets", 1),
        ("__transaction_state", 1),
        ("plain", 0),
        ("plain", 2),
        ("small-seg", 0),
        ("txn-topic", 0),
        ("txn-topic", 1),
        ("with.dots_and-dashes-7", 0),
    }
    assert all(topic_id and len(topic_id) == 16 for topic_id in found.values())
    assert found["plain", 0] == found["plain", 2]
    log = manager.get_log("small-seg", 0)
    assert log is not None
    assert log.high_watermark == 450
    manager.close()


# Logs


def test_new_logs_go_where_the_fewest_are(tmp_path: Path) -> None:
    directories = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    (tmp_path / "b").mkdir()
    new_log(tmp_path / "b", name="topic-9").close()
    manager = ManagedLogs(*directories).start()
    for partition in range(5):
        manager.get_or_create_log("topic", partition, TOPIC_ID, CONFIG)
    assert [len(partition_names(directory)) for directory in directories] == [2, 2, 2]
    manager.close()


def test_an_existing_log_is_not_created_again(tmp_path: Path) -> None:
    manager = ManagedLogs(tmp_path).start()
    log = manager.get_or_create_log("topic", 0, TOPIC_ID, CONFIG)
    assert manager.get_or_create_log("topic", 0, TOPIC_ID, CONFIG) is log
    assert manager.get_or_create_log("topic", 0, None, CONFIG) is log
    assert manager.logs_of("topic") == [log]
    assert manager.get_log("topic", 1) is None
    with pytest.raises(ApiError, match="belongs to topic id AQIDBAUGBwgJCgsMDQ4PEA") as caught:
        manager.get_or_create_log("topic", 0, OTHER_ID, CONFIG)
    assert caught.value.code is ErrorCode.INCONSISTENT_TOPIC_ID
    manager.close()


def test_a_log_of_a_time_before_topic_ids_gets_one(tmp_path: Path) -> None:
    new_log(tmp_path).close()
    manager = ManagedLogs(tmp_path).start()
    assert manager.get_or_create_log("topic", 0, TOPIC_ID, CONFIG).topic_id == TOPIC_ID
    manager.close()
    assert b"topic_id: AQIDBAUGBwgJCgsMDQ4PEA" in (tmp_path / "topic-0" / "partition.metadata").read_bytes()


def test_the_files_of_many_deleted_logs_are_let_go_of_in_parts(tmp_path: Path) -> None:
    """Ten thousand timers for ten thousand directories held the loop for 60 ms, all in the same moment."""
    count = 2 * DIRECTORIES_AT_ONCE + 10
    jobs: list[Callable[[], object]] = []

    def later(work: Callable[[], object], _done: object) -> None:
        jobs.append(work)

    managed = ManagedLogs(tmp_path, log_segment_delete_delay_ms=60_000, background=later)
    manager = managed.start()
    for partition in range(count):
        manager.get_or_create_log("wide", partition, TOPIC_ID, CONFIG)
    for partition in range(count):
        manager.delete_log("wide", partition)
    assert len(managed.scheduler.tasks()) == 1
    managed.pass_time(59_999)
    assert not jobs
    remaining: list[Any] = []
    while len(jobs) < 3:
        managed.pass_time(10)
        for job in jobs[len(remaining) :]:
            job()
            remaining.append(len(partition_names(tmp_path)))
    assert remaining == [count - DIRECTORIES_AT_ONCE, 10, 0]
    assert not managed.scheduler.tasks()


def test_a_deleted_log_is_renamed_at_once_and_removed_later(tmp_path: Path) -> None:
    managed = ManagedLogs(tmp_path, log_segment_delete_delay_ms=60_000)
    manager = managed.start()
    fill(manager.get_or_create_log("topic", 0, TOPIC_ID, CONFIG), 2)
    assert manager.delete_log("topic", 0)
    assert not manager.delete_log("topic", 0)
    (name,) = partition_names(tmp_path)
    assert name.startswith("topic-0.")
    assert name.endswith("-delete")
    fresh = manager.get_or_create_log("topic", 0, OTHER_ID, CONFIG)
    assert fresh.log_end_offset == 0
    managed.pass_time(59_000)
    assert name in partition_names(tmp_path)
    managed.pass_time(1_001)
    assert partition_names(tmp_path) == ["topic-0"]
    manager.close()


def test_a_deletion_that_a_crash_interrupted_is_finished(tmp_path: Path) -> None:
    first = ManagedLogs(tmp_path)
    fill(first.start().get_or_create_log("topic", 0, TOPIC_ID, CONFIG), 2)
    first.manager.delete_log("topic", 0)
    first.manager.unlock()
    second = ManagedLogs(tmp_path)
    second.start()
    assert len(partition_names(tmp_path)) == 1
    second.pass_time(60_001)
    assert partition_names(tmp_path) == []
    second.manager.close()


def test_a_new_partition_does_not_inherit_a_start_offset(tmp_path: Path) -> None:
    manager = ManagedLogs(tmp_path).start()
    log = manager.get_or_create_log("topic", 0, TOPIC_ID, CONFIG)
    fill(log, 5)
    log.maybe_increment_log_start_offset(4, StartOffsetReason.CLIENT_DELETION)
    manager.checkpoint_start_offsets()
    assert checkpoint(tmp_path, LOG_START_OFFSET_FILE) == {("topic", 0): 4}
    manager.delete_log("topic", 0)
    forget = manager.forget_deleted("topic")
    assert checkpoint(tmp_path, LOG_START_OFFSET_FILE) == {("topic", 0): 4}, "nothing is synced by the caller itself"
    forget()
    assert checkpoint(tmp_path, LOG_START_OFFSET_FILE) == {}
    manager.close()


def test_of_two_deletions_at_once_neither_ends_before_its_start_offset_is_forgotten(tmp_path: Path) -> None:
    manager = ManagedLogs(tmp_path).start()
    for topic in ("one", "other"):
        log = manager.get_or_create_log(topic, 0, TOPIC_ID, CONFIG)
        fill(log, 5)
        log.maybe_increment_log_start_offset(4, StartOffsetReason.CLIENT_DELETION)
    manager.checkpoint_start_offsets()
    manager.delete_log("one", 0)
    manager.delete_log("other", 0)
    first, second = manager.forget_deleted("one"), manager.forget_deleted("other")
    second()
    assert checkpoint(tmp_path, LOG_START_OFFSET_FILE) == {}
    first()
    assert checkpoint(tmp_path, LOG_START_OFFSET_FILE) == {}
    manager.close()


def test_stray_directories_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "topic-0.0123456789abcdef-stray").mkdir()
    managed = ManagedLogs(tmp_path)
    assert managed.start().all_logs() == []
    managed.pass_time(120_000)
    assert len(partition_names(tmp_path)) == 1
    assert caplog.text.count("is not loaded") == 1
    managed.manager.close()


def test_settings_reach_the_logs_of_their_topic(tmp_path: Path) -> None:
    manager = ManagedLogs(tmp_path).start()
    ours = manager.get_or_create_log("ours", 0, None, CONFIG)
    theirs = manager.get_or_create_log("theirs", 0, None, CONFIG)
    manager.update_config("ours", LogConfig(retention_ms=5))
    assert (ours.config.retention_ms, theirs.config.retention_ms) == (5, CONFIG.retention_ms)
    manager.close()


# Rounds


def test_rounds_begin_after_the_initial_delay_and_come_again(tmp_path: Path) -> None:
    managed = ManagedLogs(
        tmp_path,
        log_initial_task_delay_ms=1_000,
        log_retention_check_interval_ms=5_000,
        log_flush_offset_checkpoint_interval_ms=2_000,
    )
    manager = managed.start()
    manager.start_tasks()
    config = LogConfig(segment_index_bytes=4096, segment_bytes=1_000, retention_bytes=1_000, file_delete_delay_ms=500)
    log = manager.get_or_create_log("topic", 0, None, config)
    fill(log, 40)
    segments = len(log.segments)
    managed.pass_time(999)
    assert len(log.segments) == segments
    managed.pass_time(1)
    assert 1 <= len(log.segments) < segments
    assert checkpoint(tmp_path, RECOVERY_POINT_FILE) == {("topic", 0): log.recovery_point}
    assert list((tmp_path / "topic-0").glob("*.deleted"))
    managed.pass_time(500)
    assert not list((tmp_path / "topic-0").glob("*.deleted"))
    fill(log, 40)
    segments = len(log.segments)
    managed.pass_time(5_000)
    assert len(log.segments) < segments
    manager.close()


def test_logs_are_flushed_when_they_are_due(tmp_path: Path) -> None:
    flushed: list[Log] = []
    managed = ManagedLogs(
        tmp_path, log_flush_scheduler_interval_ms=100, log_initial_task_delay_ms=0, flush=flushed.append
    )
    manager = managed.start()
    manager.start_tasks()
    due = manager.get_or_create_log("due", 0, None, LogConfig(flush_ms=50, segment_index_bytes=4096))
    late = manager.get_or_create_log("late", 0, None, CONFIG)
    idle = manager.get_or_create_log("idle", 0, None, LogConfig(flush_ms=50, segment_index_bytes=4096))
    fill(due, 1)
    fill(late, 1)
    managed.pass_time(100)
    assert flushed == [due]
    assert idle.unflushed_messages == 0
    manager.close()


def test_idle_producers_are_forgotten(tmp_path: Path) -> None:
    managed = ManagedLogs(
        tmp_path,
        producer_id_expiration_ms=1_000,
        producer_id_expiration_check_interval_ms=600,
        log_initial_task_delay_ms=0,
    )
    manager = managed.start()
    manager.start_tasks()
    log = manager.get_or_create_log("topic", 0, None, CONFIG)
    log.append_as_leader(a_batch([b"x"], producer_id=7, producer_epoch=0, base_sequence=0), 0, START_MS)
    log.write_staged()
    managed.pass_time(600)
    assert len(log.producer_state.active_producers()) == 1
    managed.pass_time(600)
    assert log.producer_state.active_producers() == []
    manager.close()


def test_a_round_over_many_logs_is_made_in_slices(tmp_path: Path) -> None:
    """Each look at the clock costs a millisecond here, so that a slice is over after a few logs."""
    managed = ManagedLogs(tmp_path)
    manager = managed.start()
    for partition in range(20):
        fill(manager.get_or_create_log("topic", partition, None, CONFIG), 1)
    visited: list[Log] = []
    manager.housekeeping._flush = visited.append  # the round's work
    for log in manager.all_logs():
        log.update_config(LogConfig(flush_ms=0))
    original = managed.clock.monotonic_ms

    def monotonic_ms() -> int:
        managed.clock.advance(1)
        return original()

    manager.housekeeping._rounds._clock = _Clock(managed.clock.wall_ms, monotonic_ms)
    manager.housekeeping.flush_old_logs()
    first = len(visited)
    assert 0 < first < 20
    manager.housekeeping.flush_old_logs()
    assert len(visited) == first, "a round that is under way is not begun again"
    manager.delete_log("topic", 19)
    while len(visited) < 19:
        before = len(visited)
        managed.pass_time(5)
        assert len(visited) > before
    assert {log.partition for log in visited} == set(range(19)), "each once, and not what was deleted meanwhile"
    manager.close()


class _Clock:
    def __init__(self, wall_ms: Callable[[], int], monotonic_ms: Callable[[], int]) -> None:
        self.wall_ms = wall_ms
        self.monotonic_ms = monotonic_ms


def test_an_unchanged_checkpoint_is_not_written_again(tmp_path: Path) -> None:
    manager = ManagedLogs(tmp_path).start()
    fill(manager.get_or_create_log("topic", 0, None, CONFIG), 1)
    manager.checkpoint_high_watermarks()
    (tmp_path / HIGH_WATERMARK_FILE).unlink()
    manager.checkpoint_high_watermarks()
    assert not (tmp_path / HIGH_WATERMARK_FILE).exists()
    log = manager.get_log("topic", 0)
    assert log is not None
    fill(log, 1)
    manager.checkpoint_high_watermarks()
    assert checkpoint(tmp_path, HIGH_WATERMARK_FILE) == {("topic", 0): 4}
    manager.close()


def test_checkpoints_written_in_the_background_never_go_back(tmp_path: Path) -> None:
    """Two writes on two threads may end in either order; the file keeps what was handed over last."""
    waiting: list[Callable[[], None]] = []

    def background(work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        def run() -> None:
            work()
            done(None)

        waiting.append(run)

    manager = ManagedLogs(tmp_path, background=background).start()
    log = manager.get_or_create_log("topic", 0, None, CONFIG)
    for _ in range(2):
        fill(log, 1)
        manager.checkpoint_high_watermarks()
    epochs, older, newer = waiting
    epochs()
    for job in (newer, older):
        thread = threading.Thread(target=job)
        thread.start()
        thread.join()
    assert checkpoint(tmp_path, HIGH_WATERMARK_FILE) == {("topic", 0): 4}
    manager.close()


# Failing directories


def two_directories(tmp_path: Path, **arguments: object) -> tuple[ManagedLogs, Path, Path]:
    managed = ManagedLogs(tmp_path / "a", tmp_path / "b", **arguments)
    managed.start()
    for partition in range(4):
        fill(managed.manager.get_or_create_log("topic", partition, TOPIC_ID, CONFIG), 1)
    return managed, tmp_path / "a", tmp_path / "b"


def test_a_failed_directory_goes_offline_and_the_rest_serve(tmp_path: Path) -> None:
    managed, first, second = two_directories(tmp_path)
    manager = managed.manager
    failed = manager.handle_log_dir_failure(str(first), "the disk is gone")
    assert failed.partitions == (("topic", 0), ("topic", 2))
    assert not failed.is_last
    assert [log.partition for log in manager.all_logs()] == [1, 3]
    assert manager.offline_partitions() == {("topic", 0): str(first), ("topic", 2): str(first)}
    with pytest.raises(ApiError, match="offline") as caught:
        manager.get_or_create_log("topic", 0, TOPIC_ID, CONFIG)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(ApiError, match="offline"):
        manager.get_or_create_log("topic", 7, TOPIC_ID, CONFIG, is_new=False)
    assert manager.get_or_create_log("topic", 8, TOPIC_ID, CONFIG).parent_directory == str(second)
    described = {one.path: one for one in manager.describe_dirs()}
    assert described[str(first)].is_offline
    assert {entry.partition: entry.size_bytes > 0 for entry in described[str(second)].partitions} == {
        1: True,
        3: True,
        8: False,
    }
    assert not manager.close(), "not everything could be closed"
    assert (second / CLEAN_SHUTDOWN_FILE).exists()
    assert not (first / CLEAN_SHUTDOWN_FILE).exists()
    assert not manager.handle_log_dir_failure(str(first)).partitions


def test_the_last_directory_to_fail_is_reported_as_such(tmp_path: Path) -> None:
    managed, first, second = two_directories(tmp_path)
    assert not managed.manager.handle_log_dir_failure(str(first)).is_last
    assert managed.manager.handle_log_dir_failure(str(second)).is_last
    with pytest.raises(ApiError, match="no log directory is online"):
        managed.manager.get_or_create_log("new", 0, None, CONFIG)


def test_a_file_in_the_way_of_a_directory_takes_only_that_offline(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    managed = ManagedLogs(tmp_path / "a", tmp_path / "b")
    assert managed.manager.open_directories() == [str(tmp_path / "b")]
    managed.manager.load(lambda _: CONFIG)
    assert [one.is_offline for one in managed.manager.describe_dirs()] == [False, True]
    managed.manager.close()
    (tmp_path / "b2").touch()
    with pytest.raises(NoLogDirectoryError, match="b2"):
        ManagedLogs(tmp_path / "a", tmp_path / "b2").manager.open_directories()


def test_a_log_that_cannot_be_read_takes_its_directory_offline_at_start(tmp_path: Path) -> None:
    managed, first, second = two_directories(tmp_path)
    managed.manager.unlock()
    path = first / "topic-0" / "00000000000000000000.log"
    path.unlink()
    path.mkdir()
    again = ManagedLogs(first, second)
    manager = again.start()
    assert manager.live_directories() == [str(second)]
    assert [log.partition for log in manager.all_logs()] == [1, 3]
    manager.close()


def test_a_checkpoint_that_cannot_be_written_takes_its_directory_offline(tmp_path: Path) -> None:
    failures: list[LogDirFailure] = []
    managed, first, second = two_directories(tmp_path, on_failure=failures.append)
    (first / f"{RECOVERY_POINT_FILE}.tmp").mkdir()
    managed.manager.checkpoint_recovery_points()
    assert [failure.directory for failure in failures] == [str(first)]
    assert checkpoint(second, RECOVERY_POINT_FILE) != {}
    managed.manager.handle_log_dir_failure(failures[0].directory, failures[0].cause)
    managed.manager.checkpoint_recovery_points()
    assert len(failures) == 1
    managed.manager.close()


def test_a_log_that_cannot_be_created_goes_to_the_next_directory(tmp_path: Path) -> None:
    managed = ManagedLogs(tmp_path / "a", tmp_path / "b")
    manager = managed.start()
    os.rename(tmp_path / "a", tmp_path / "gone")
    log = manager.get_or_create_log("topic", 0, TOPIC_ID, CONFIG)
    assert log.parent_directory == str(tmp_path / "b")
    assert manager.live_directories() == [str(tmp_path / "b")]
    manager.close()


def test_settings_come_from_the_broker_configuration() -> None:
    config = LogManagerConfig.of(BrokerConfig())
    assert config == LogManagerConfig(BrokerConfig().log_dirs), "our defaults are the broker's"
