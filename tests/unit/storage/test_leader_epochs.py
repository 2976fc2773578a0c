"""Leader epochs: which began where, and what is asked of that."""

from pathlib import Path

import pytest

from tidelog.storage.checkpoints import CheckpointError
from tidelog.storage.leader_epochs import EpochEntry, LeaderEpochCache
from tidelog.storage.types import EpochEndOffset


@pytest.fixture
def cache(tmp_path: Path) -> LeaderEpochCache:
    made = LeaderEpochCache(str(tmp_path))
    for epoch, start_offset in ((1, 0), (3, 10), (5, 20)):
        made.assign(epoch, start_offset)
    return made


def test_an_epoch_is_assigned_once(cache: LeaderEpochCache) -> None:
    assert not cache.assign(5, 25)
    assert cache.entries()[-1] == EpochEntry(5, 20)
    assert cache.latest_epoch == 5


def test_a_new_entry_removes_those_it_contradicts(cache: LeaderEpochCache) -> None:
    """A leader that wrote nothing in epoch 5 left an entry that the next leader's records refute."""
    assert cache.assign(6, 15)
    assert cache.entries() == (EpochEntry(1, 0), EpochEntry(3, 10), EpochEntry(6, 15))


def test_an_epoch_begun_without_records_gives_way(cache: LeaderEpochCache) -> None:
    assert cache.assign(6, 20)
    assert cache.entries()[-2:] == (EpochEntry(3, 10), EpochEntry(6, 20))


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (-1, (-1, -1)),
        (0, (0, 0)),
        (1, (1, 10)),
        (2, (1, 10)),
        (3, (3, 20)),
        (4, (3, 20)),
        (5, (5, 33)),
        (6, (-1, -1)),
    ],
)
def test_where_an_epoch_ends(cache: LeaderEpochCache, epoch: int, expected: tuple[int, int]) -> None:
    assert cache.end_offset_for(epoch, 33) == EpochEndOffset(*expected)


def test_an_empty_cache_knows_nothing(tmp_path: Path) -> None:
    cache = LeaderEpochCache(str(tmp_path))
    assert cache.end_offset_for(0, 10) == EpochEndOffset(-1, -1)
    assert (cache.latest_epoch, cache.epoch_for_offset(4), cache.earliest()) == (-1, -1, None)


def test_the_epoch_of_an_offset(cache: LeaderEpochCache) -> None:
    assert [cache.epoch_for_offset(offset) for offset in (0, 9, 10, 19, 20, 99)] == [1, 1, 3, 3, 5, 5]


def test_truncation_from_the_end(cache: LeaderEpochCache) -> None:
    cache.truncate_from_end(20)
    assert cache.entries() == (EpochEntry(1, 0), EpochEntry(3, 10))
    cache.truncate_from_end(0)
    assert cache.entries() == ()


def test_truncation_from_the_start_moves_the_epoch_it_falls_into(cache: LeaderEpochCache) -> None:
    cache.truncate_from_start(15)
    assert cache.entries() == (EpochEntry(3, 15), EpochEntry(5, 20))
    cache.truncate_from_start(20)
    assert cache.entries() == (EpochEntry(5, 20),)
    cache.truncate_from_start(30)
    assert cache.entries() == (EpochEntry(5, 30),)


def test_the_checkpoint_is_kafkas_text(cache: LeaderEpochCache, tmp_path: Path) -> None:
    cache.flush()
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n1 0\n3 10\n5 20\n"
    assert LeaderEpochCache.load(str(tmp_path)).entries() == cache.entries()
    assert not (tmp_path / "leader-epoch-checkpoint.tmp").exists()


def test_nothing_is_written_when_nothing_changed(cache: LeaderEpochCache, tmp_path: Path) -> None:
    cache.flush()
    path = tmp_path / "leader-epoch-checkpoint"
    path.unlink()
    cache.flush()
    assert not path.exists()
    LeaderEpochCache(str(tmp_path)).flush()
    assert not path.exists()


def test_an_empty_file_is_an_empty_cache(tmp_path: Path) -> None:
    """Kafka creates the file before it has anything to write into it."""
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"")
    assert LeaderEpochCache.load(str(tmp_path)).entries() == ()


@pytest.mark.parametrize("line", ["1", "1 2 3", "x 2", "1 -2", "-1 5", "99999999999999999999 1"])
def test_a_malformed_line_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text(f"0\n1\n{line}\n")
    with pytest.raises(CheckpointError, match="line 3"):
        LeaderEpochCache.load(str(tmp_path))
