"""Copies of logs in another log directory: made, given up, loaded again, and taking the log's place at any crash."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.unit.storage._logs import CONFIG, ManagedLogs, fill, values_of
from tidelog.storage import names
from tidelog.storage.directories.manager import DuplicatePartitionError, LogManager
from tidelog.storage.log import Log
from tidelog.wire.errors import ApiError, ErrorCode

TOPIC_ID = bytes(range(16))


class Move:
    """A partition in the first of two directories, with a copy in the second."""

    def __init__(self, root: Path, batches: int = 5) -> None:
        self.source, self.target = root / "one", root / "two"
        self.managed = ManagedLogs(self.source, self.target)
        self.manager = self.managed.start()
        self.log = self.manager.get_or_create_log("topic", 0, TOPIC_ID, CONFIG)
        assert self.log.parent_directory == str(self.source)
        fill(self.log, batches)
        self.values = values_of(self.log)
        self.copy = self.manager.create_future_log(self.log, str(self.target))

    def fill_copy(self) -> None:
        read = self.log.read(self.log.log_start_offset, 1 << 20, self.log.log_end_offset, True)
        assert read.slice is not None
        self.copy.append_as_follower(read.slice.read(), 0)
        self.copy.write_staged()

    def replace(self) -> Log:
        self.fill_copy()
        self.manager.marking_complete(self.copy)()
        self.copy.take_over_state(self.log, clean_point=-1)
        return self.manager.replace_with_future_log("topic", 0)

    def restart(self, *, is_killed: bool = True) -> LogManager:
        """Start again after a crash; without it, after a clean stop."""
        if is_killed:
            self.manager.unlock()
        else:
            self.manager.close()
        self.managed = ManagedLogs(self.source, self.target)
        self.manager = self.managed.start()
        return self.manager


@pytest.fixture
def move(tmp_path: Path) -> Move:
    return Move(tmp_path)


def directories(path: Path) -> list[str]:
    """Names of partition directories; what is unique in them is left out."""
    found = sorted(each.name for each in path.iterdir() if each.is_dir())
    return [name.partition(".")[0] + name[name.rindex("-") :] if "." in name else name for name in found]


def test_a_copy_has_kafkas_name_and_is_not_the_log(move: Move) -> None:
    assert directories(move.target) == ["topic-0-future"]
    topic, _, unique = os.path.basename(move.copy.directory).partition("-0.")
    assert topic == "topic"
    assert len(unique.removesuffix("-future")) == 32
    assert move.manager.get_log("topic", 0) is move.log
    assert move.manager.get_future_log("topic", 0) is move.copy
    assert move.copy.is_future
    assert move.copy.topic_id == TOPIC_ID
    move.manager.close()


def test_a_complete_copy_takes_the_place_of_its_log(move: Move) -> None:
    log = move.replace()
    assert log is move.copy
    assert move.manager.get_log("topic", 0) is log
    assert move.manager.get_future_log("topic", 0) is None
    assert not log.is_future
    assert directories(move.source) == ["topic-0-delete"]
    assert directories(move.target) == ["topic-0"]
    assert not (move.target / "topic-0" / names.REPLACEMENT_FILE).exists()
    fill(log, 1)
    move.managed.pass_time(120_000)
    assert directories(move.source) == []
    manager = move.restart(is_killed=False)
    found = manager.get_log("topic", 0)
    assert found is not None
    assert values_of(found)[: len(move.values)] == move.values
    assert found.high_watermark == 12
    manager.close()


def test_a_copy_is_carried_on_after_a_restart(move: Move) -> None:
    move.fill_copy()
    for is_killed in (True, False):
        manager = move.restart(is_killed=is_killed)
        copy, log = manager.get_future_log("topic", 0), manager.get_log("topic", 0)
        assert copy is not None
        assert log is not None
        assert values_of(copy) == values_of(log) == move.values
        assert copy.is_future
    move.manager.close()


def test_a_crash_between_the_two_renames_keeps_the_copy(move: Move, tmp_path: Path) -> None:
    """Both have the partition's name then. The copy may have grown, so the longer or the shorter is no sign."""
    shutil.copytree(move.source / "topic-0", tmp_path / "saved")
    log = move.replace()
    fill(log, 1)
    end_offset = log.log_end_offset
    move.manager.marking_complete(log)()
    shutil.rmtree(next(move.source.glob("*-delete")))
    shutil.copytree(tmp_path / "saved", move.source / "topic-0")
    manager = move.restart()
    found = manager.get_log("topic", 0)
    assert found is not None
    assert found.parent_directory == str(move.target)
    assert found.log_end_offset == end_offset
    assert directories(move.source) == ["topic-0-delete"]
    assert not (move.target / "topic-0" / names.REPLACEMENT_FILE).exists()
    manager.close()


def test_a_disk_that_forgot_the_first_rename_costs_nothing(move: Move) -> None:
    log = move.replace()
    log.release()
    move.manager.marking_complete(log)()
    os.rename(move.target / "topic-0", move.target / "topic-0.0123456789abcdef0123456789abcdef-future")
    manager = move.restart()
    found = manager.get_log("topic", 0)
    assert found is not None
    assert values_of(found) == move.values
    assert directories(move.target) == ["topic-0"]
    manager.close()


def test_a_copy_that_is_not_complete_never_becomes_the_log(move: Move) -> None:
    """The disk of the log was replaced by an empty one: a log that is too short must not be taken for the whole one."""
    move.fill_copy()
    move.manager.unlock()
    shutil.rmtree(move.source / "topic-0")
    manager = move.restart()
    assert manager.get_log("topic", 0) is None
    assert manager.get_future_log("topic", 0) is not None
    manager.close()


def test_two_logs_of_which_none_is_the_replacement_need_an_operator(tmp_path: Path) -> None:
    move = Move(tmp_path)
    move.manager.unlock()
    shutil.copytree(move.source / "topic-0", move.target / "topic-0")
    with pytest.raises(DuplicatePartitionError, match="topic-0 exists in both"):
        ManagedLogs(move.source, move.target).start()


def test_a_copy_beside_its_log_is_dropped(move: Move) -> None:
    move.manager.unlock()
    os.rename(move.copy.directory, move.source / os.path.basename(move.copy.directory))
    manager = move.restart()
    assert manager.get_future_log("topic", 0) is None
    assert directories(move.source) == ["topic-0", "topic-0-delete"]
    manager.close()


def test_a_deleted_partition_takes_its_copy_with_it(move: Move) -> None:
    move.manager.delete_log("topic", 0)
    assert directories(move.source) == directories(move.target) == ["topic-0-delete"]
    assert move.manager.get_future_log("topic", 0) is None
    move.manager.close()


def test_a_move_is_given_up(move: Move) -> None:
    move.manager.delete_future_log("topic", 0)
    assert directories(move.target) == ["topic-0-delete"]
    assert move.manager.get_log("topic", 0) is move.log
    move.managed.pass_time(120_000)
    assert directories(move.target) == []
    move.manager.close()


def test_a_target_that_fails_takes_the_copy_and_leaves_the_log(move: Move) -> None:
    gone = move.manager.handle_log_dir_failure(str(move.target), "the test says so")
    assert gone.partitions == ()
    assert move.manager.get_future_log("topic", 0) is None
    assert move.manager.get_log("topic", 0) is move.log
    with pytest.raises(ApiError, match="cannot be moved while log directories are offline") as refused:
        move.manager.create_future_log(move.log, str(move.source))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    move.manager.close()


def test_a_topic_whose_name_is_too_long_is_not_moved(tmp_path: Path) -> None:
    manager = ManagedLogs(tmp_path / "one", tmp_path / "two").start()
    log = manager.get_or_create_log("t" * 240, 0, None, CONFIG)
    with pytest.raises(ApiError) as refused:
        manager.create_future_log(log, str(tmp_path / "two"))
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    manager.close()


def test_a_partition_is_created_in_the_directory_that_is_preferred(tmp_path: Path) -> None:
    manager = ManagedLogs(tmp_path / "one", tmp_path / "two").start()
    for partition in range(4):
        manager.prefer_directory("topic", partition, str(tmp_path / "two"))
    logs = [manager.get_or_create_log("topic", partition, None, CONFIG) for partition in range(4)]
    assert {log.parent_directory for log in logs} == {str(tmp_path / "two")}
    manager.delete_log("topic", 0)
    again = manager.get_or_create_log("topic", 0, None, CONFIG)
    assert again.parent_directory == str(tmp_path / "one"), "it was preferred once"
    manager.close()


def test_directories_are_described_with_copies_and_how_far_they_are(move: Move) -> None:
    described = {each.path: each.partitions for each in move.manager.describe_dirs()}
    (log,) = described[str(move.source)]
    (copy,) = described[str(move.target)]
    assert (log.is_future, log.offset_lag) == (False, 0)
    assert (copy.is_future, copy.offset_lag, copy.size_bytes) == (True, 10, 0)
    move.fill_copy()
    described = {each.path: each.partitions for each in move.manager.describe_dirs()}
    assert described[str(move.target)][0].offset_lag == 0
    move.manager.close()


def test_a_directory_that_holds_a_copy_counts_it_when_the_next_log_is_placed(move: Move) -> None:
    assert move.manager.get_or_create_log("other", 0, None, CONFIG).parent_directory == str(move.source)
    assert move.manager.get_or_create_log("other", 1, None, CONFIG).parent_directory == str(move.target)
    move.manager.close()
