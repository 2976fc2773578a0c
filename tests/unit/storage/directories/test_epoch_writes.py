"""The leader epochs of logs are written when they change, by other threads, and never go back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.unit.storage._logs import CONFIG, ManagedLogs, fill
from tidelog.storage.directories.background import Done
from tidelog.storage.directories.epoch_writes import MANY, EpochWrites
from tidelog.storage.log import Log
from tidelog.storage.names import LEADER_EPOCH_CHECKPOINT


class Thread:
    """Runs what it is given when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], object], Done]] = []

    def __call__(self, work: Callable[[], object], done: Done) -> None:
        self.waiting.append((work, done))

    def run(self) -> None:
        while self.waiting:
            self.run_one()

    def run_one(self) -> None:
        work, done = self.waiting.pop(0)
        try:
            work()
        except OSError as error:
            done(error)
        else:
            done(None)


def file_of(log: Log) -> str | None:
    path = Path(log.directory) / LEADER_EPOCH_CHECKPOINT
    return path.read_text() if path.exists() else None


def log_in(manager: ManagedLogs, partition: int = 0) -> Log:
    return manager.manager.get_or_create_log("topic", partition, None, CONFIG)


def managed(tmp_path: Path, thread: Thread) -> ManagedLogs:
    logs = ManagedLogs(tmp_path, background=thread)
    logs.start()
    return logs


def test_an_epoch_is_written_when_it_begins_and_when_it_is_cut_off(tmp_path: Path) -> None:
    thread = Thread()
    logs = managed(tmp_path, thread)
    log = log_in(logs)
    fill(log, 3)
    assert file_of(log) is None
    thread.run()
    assert file_of(log) == "0\n1\n0 0\n"
    end = log.log_end_offset
    log.leader_epochs.assign(9, end)
    thread.run()
    assert file_of(log) == f"0\n2\n0 0\n9 {end}\n"
    log.truncate_to(2, 0)
    thread.run()
    assert file_of(log) == "0\n1\n0 0\n"
    log.truncate_fully_and_start_at(100, 0)
    thread.run()
    assert file_of(log) == "0\n0\n"
    logs.manager.close()


def test_changes_while_a_write_runs_are_one_more_write(tmp_path: Path) -> None:
    thread = Thread()
    logs = managed(tmp_path, thread)
    one, other = log_in(logs, 0), log_in(logs, 1)
    for epoch in range(1, 6):
        one.leader_epochs.assign(epoch, epoch)
        other.leader_epochs.assign(epoch, epoch)
    assert len(thread.waiting) == 1
    thread.run_one()
    assert len(thread.waiting) == 1
    thread.run_one()
    assert thread.waiting == []
    assert file_of(one) == file_of(other) == "0\n5\n1 1\n2 2\n3 3\n4 4\n5 5\n"
    logs.manager.close()


def test_a_write_that_a_flush_overtook_does_nothing(tmp_path: Path) -> None:
    """A flush writes what is not on disk yet before the recovery point moves, whoever else is about to."""
    thread = Thread()
    logs = managed(tmp_path, thread)
    log = log_in(logs)
    fill(log, 1)
    log.leader_epochs.assign(2, 3)
    log.flush()
    newest = file_of(log)
    assert newest == "0\n2\n0 0\n2 3\n"
    thread.run()
    assert file_of(log) == newest
    logs.manager.close()


def test_a_new_log_of_the_name_of_a_deleted_one_does_not_get_its_epochs(tmp_path: Path) -> None:
    thread = Thread()
    logs = managed(tmp_path, thread)
    old = log_in(logs)
    old.leader_epochs.assign(7, 0)
    logs.manager.delete_log("topic", 0)
    new = log_in(logs)
    thread.run()
    assert file_of(new) is None
    logs.manager.close()


def test_many_files_are_synced_together_if_the_file_system_can_be(tmp_path: Path) -> None:
    thread = Thread()
    logs = managed(tmp_path, thread)
    each = [log_in(logs, partition) for partition in range(2 * MANY)]
    for can_sync in (True, False):
        syncs: list[bool] = []
        errors: list[BaseException | None] = []

        def sync(can_sync: bool = can_sync, syncs: list[bool] = syncs) -> bool:
            syncs.append(can_sync)
            return can_sync

        writes = EpochWrites(thread, errors.append, sync)
        epoch = 10 + can_sync
        for log in each:
            log.on_epochs_changed(writes.on_changed)
            log.leader_epochs.clear()
            log.leader_epochs.assign(epoch, 0)
        thread.run()
        # The first change began a job of its own.
        assert (syncs, errors) == ([can_sync], [None, None])
        assert {file_of(log) for log in each} == {f"0\n1\n{epoch} 0\n"}
        assert not list(tmp_path.glob("*/*.tmp"))
    logs.manager.close()


def test_logs_that_are_deleted_while_their_epochs_are_written_are_left_out(tmp_path: Path) -> None:
    """Their directories are renamed then; that is no failure of the disk, and the other logs get their epochs."""
    thread = Thread()
    logs = managed(tmp_path, thread)
    each = [log_in(logs, partition) for partition in range(2 * MANY)]
    errors: list[BaseException | None] = []

    def sync() -> bool:
        for partition in range(MANY):
            logs.manager.delete_log("topic", partition)
        return True

    writes = EpochWrites(thread, errors.append, sync)
    for log in each:
        log.on_epochs_changed(writes.on_changed)
        log.leader_epochs.assign(3, 0)
    thread.run()
    assert errors == [None, None]
    assert {file_of(log) for log in each[MANY:]} == {"0\n1\n3 0\n"}
    assert len(logs.manager.live_directories()) == 1
    logs.manager.close()


def test_a_disk_that_fails_is_reported(tmp_path: Path) -> None:
    thread = Thread()
    logs = managed(tmp_path, thread)
    log = log_in(logs)
    (Path(log.directory) / f"{LEADER_EPOCH_CHECKPOINT}.tmp").mkdir()
    log.leader_epochs.assign(1, 0)
    thread.run()
    assert logs.manager.live_directories() == []
