"""The index of waiting records: order, runs, cancellations, merges, and the checkpoint."""

from pathlib import Path

import pytest

from tidelog.records.delayed import Entry
from tidelog.storage.names import DELAYED_CHECKPOINT
from tidelog.storage.waiting import WaitingFiles, WaitingIndex
from tidelog.storage.waiting.files import AppliedLog
from tidelog.storage.waiting.runs import merge_runs

APPLIED = AppliedLog(50, 3)


def _entry(time: int, location: int = 0, key_hash: int = 0) -> bytes:
    return Entry(time, time, location, 10, key_hash).pack()


def _times(index: WaitingIndex) -> list[int]:
    return [int.from_bytes(entry[:8], "big") for entry in index.ordered()]


@pytest.fixture
def files(tmp_path: Path) -> WaitingFiles:
    return WaitingFiles(lambda: str(tmp_path))


def test_entries_come_in_order_from_memory_and_runs(files: WaitingFiles) -> None:
    index = files.new_index(recent_max=3)
    for time in (7, 2, 9, 4, 1, 8, 3):
        index.add(_entry(time))
    assert len(index.runs) == 2
    assert _times(index) == [1, 2, 3, 4, 7, 8, 9]
    assert index.first() == _entry(1)
    assert len(index) == 7


def test_an_entry_removed_out_of_order_is_passed_over(files: WaitingFiles) -> None:
    index = files.new_index(recent_max=3)
    for time in (1, 2, 3, 4):
        index.add(_entry(time))
    assert index.remove(_entry(2))
    assert not index.remove(_entry(2))
    assert not index.remove(_entry(99))
    assert (_times(index), len(index), len(index.dead)) == ([1, 3, 4], 3, 1)
    assert index.remove(_entry(1))
    assert (_times(index), len(index.dead)) == ([3, 4], 0)
    index.remove(_entry(3))
    assert index.runs == []


def test_an_entry_may_come_back(files: WaitingFiles) -> None:
    index = files.new_index(recent_max=2)
    index.add(_entry(1))
    index.add(_entry(2))
    index.remove(_entry(2))
    index.add(_entry(2))
    assert index.has(_entry(2))
    assert _times(index) == [1, 2]


def test_merged_runs_lose_what_was_taken_meanwhile(files: WaitingFiles) -> None:
    index = files.new_index(recent_max=2)
    for time in range(8):
        index.add(_entry(time))
    index.remove(_entry(5))
    path, sources = index.begin_merge()
    count = merge_runs(path, sources)
    for time in (0, 1, 7):
        index.remove(_entry(time))
    index.end_merge(path, count)
    assert len(index.runs) == 1
    assert (_times(index), len(index)) == ([2, 3, 4, 6], 4)


def test_a_checkpoint_brings_everything_back(files: WaitingFiles, tmp_path: Path) -> None:
    index = files.new_index(recent_max=3)
    for time in (5, 1, 3, 9):
        index.add(_entry(time, location=time * 5000))
    index.remove(_entry(3, location=15000))
    pending = {7: (2, [_entry(30)])}
    files.checkpoint(index, APPLIED, pending).write()
    loaded = WaitingFiles(lambda: str(tmp_path)).load(recent_max=3)
    assert loaded is not None
    again, applied, transactions = loaded
    assert (_times(again), applied, transactions) == ([1, 5, 9], APPLIED, pending)
    assert again.first_location == index.first_location
    assert 0 < (again.first_location or 0) <= 5000


def test_a_damaged_checkpoint_is_not_used(files: WaitingFiles, tmp_path: Path) -> None:
    index = files.new_index()
    index.add(_entry(1))
    files.checkpoint(index, APPLIED, {}).write()
    path = tmp_path / DELAYED_CHECKPOINT
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert files.load() is None
    path.unlink()
    assert files.load() is None


def test_a_run_that_is_missing_makes_the_checkpoint_useless(files: WaitingFiles, tmp_path: Path) -> None:
    index = files.new_index(recent_max=1)
    index.add(_entry(1))
    files.checkpoint(index, APPLIED, {}).write()
    for path in tmp_path.glob("*.run"):
        path.unlink()
    assert files.load() is None


def test_runs_that_no_checkpoint_names_are_removed(files: WaitingFiles, tmp_path: Path) -> None:
    index = files.new_index(recent_max=1)
    files.checkpoint(index, APPLIED, {}).write()
    index.add(_entry(1))
    assert len(list(tmp_path.glob("*.run"))) == 1
    assert files.load() is not None
    assert list(tmp_path.glob("*.run")) == []


def test_entries_are_found_by_the_hash_of_their_key(files: WaitingFiles) -> None:
    index = files.new_index(recent_max=2)
    for time in range(5):
        index.add(_entry(time, key_hash=time % 2))
    assert sorted(entry for piece in index.with_hash(1) for entry in piece) == [_entry(1, 0, 1), _entry(3, 0, 1)]


def test_a_floor_drops_what_seems_to_wait_below_it(files: WaitingFiles) -> None:
    index = files.new_index(recent_max=3)
    for time in (1, 2, 3, 4, 5):
        index.add(_entry(time, location=64 * time))
    index.settle(64 * 3)
    assert (_times(index), index.floor) == ([3, 4, 5], 192)
    index.settle(64)
    assert (_times(index), index.floor) == ([3, 4, 5], 192), "a floor never falls"
    files.checkpoint(index, APPLIED, {}).write()
    loaded = files.load()
    assert loaded is not None
    assert loaded[0].floor == 192
