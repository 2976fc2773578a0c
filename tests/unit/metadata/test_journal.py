"""The second copy of what the tree's write-ahead log holds: whatever happens to one, nothing acknowledged is lost."""

import logging
import random
import shutil
from pathlib import Path

import pytest

from tidelog.metadata import embedded
from tidelog.metadata._journal import Journal, JournalEntry, format_entry, parse_journal
from tidelog.metadata.embedded import EmbeddedStore
from tidelog.metadata.store import Check, Create, Delete, Operation, Set

OPERATIONS: list[Operation] = [
    Create("/a", b"\x00\xff{}", sequential=True),
    Create("/b", b"", ephemeral=True),
    Set("/a", "ä€".encode(), 3),
    Delete("/a", 4),
    Check("/b"),
]


def test_an_entry_is_read_as_it_was_written() -> None:
    data = format_entry(7, 1_700_000_000_000, OPERATIONS) + format_entry(8, 5, [])
    assert parse_journal(data) == (
        [JournalEntry(7, 1_700_000_000_000, OPERATIONS), JournalEntry(8, 5, [])],
        len(data),
    )


def test_entries_end_at_the_first_that_is_cut_off_or_damaged() -> None:
    first, second = format_entry(7, 1, OPERATIONS), format_entry(8, 2, OPERATIONS)
    for end in range(len(second)):
        assert parse_journal(first + second[:end]) == ([JournalEntry(7, 1, OPERATIONS)], len(first))
    for position in range(len(second)):
        damaged = bytearray(second)
        damaged[position] ^= 1 << position % 8
        assert parse_journal(first + bytes(damaged))[0] == [JournalEntry(7, 1, OPERATIONS)]


def test_a_journal_that_cannot_be_written_is_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(str(tmp_path / "missing" / "journal"))
    with caplog.at_level(logging.WARNING):
        journal.begin()
    journal.append(1, 2, OPERATIONS)
    assert "no second copy" in caplog.text
    assert journal.read() == []


# --- in the store ---


def contents(store: EmbeddedStore, path: str = "/") -> dict[str, tuple[bytes, int]]:
    data, stat = store.get(path)
    found = {path: (data, stat.version)}
    for name in store.children(path):
        found |= contents(store, f"{path.rstrip('/')}/{name}")
    return found


def fill(store: EmbeddedStore) -> None:
    store.create("/topics")
    for number in range(12):
        store.multi([Create(f"/topics/{number}", b"settings" * 20), Create(f"/topics/{number}/state", b"leader")])
        store.set(f"/topics/{number}/state", b"leader %d" % number)
    store.delete("/topics/7/state")
    store.create("/topics/change_", sequential=True)
    store.create("/here", ephemeral=True)


@pytest.fixture
def crashed(tmp_path: Path) -> tuple[Path, dict[str, tuple[bytes, int]]]:
    """The files of a store whose process was killed, and what it had committed."""
    home = tmp_path / "running"
    home.mkdir()
    store = EmbeddedStore(str(home / "tree.sqlite"))
    fill(store)
    expected = contents(store)
    shutil.copytree(home, tmp_path / "crashed")
    store.close()
    del expected["/here"]
    return tmp_path / "crashed", expected


@pytest.mark.parametrize("seed", range(8))
def test_a_flipped_bit_in_the_write_ahead_log_costs_nothing(
    crashed: tuple[Path, dict[str, tuple[bytes, int]]], seed: int
) -> None:
    home, expected = crashed
    log = home / "tree.sqlite-wal"
    data = bytearray(log.read_bytes())
    source = random.Random(seed)
    data[source.randrange(len(data)) if seed else 3] ^= 1 << source.randrange(8)
    log.write_bytes(data)
    for _ in range(2):
        store = EmbeddedStore(str(home / "tree.sqlite"))
        assert contents(store) == expected
        store.close()


def test_a_lost_write_ahead_log_is_restored_and_reported(
    crashed: tuple[Path, dict[str, tuple[bytes, int]]], caplog: pytest.LogCaptureFixture
) -> None:
    home, expected = crashed
    (home / "tree.sqlite-wal").unlink()
    store = EmbeddedStore(str(home / "tree.sqlite"))
    assert contents(store) == expected
    assert "had lost its last" in caplog.text
    store.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_journal_costs_nothing(crashed: tuple[Path, dict[str, tuple[bytes, int]]], seed: int) -> None:
    home, expected = crashed
    journal = home / "tree.sqlite.journal"
    data = bytearray(journal.read_bytes())
    data[random.Random(seed).randrange(len(data))] ^= 1
    journal.write_bytes(data)
    store = EmbeddedStore(str(home / "tree.sqlite"))
    assert contents(store) == expected
    store.close()


def test_a_journal_of_another_tree_is_put_aside(
    crashed: tuple[Path, dict[str, tuple[bytes, int]]], caplog: pytest.LogCaptureFixture
) -> None:
    home, _ = crashed
    journal = home / "tree.sqlite.journal"
    entries, _ = parse_journal(journal.read_bytes())
    journal.write_bytes(b"".join(format_entry(*entry) for entry in entries[5:]))
    for name in ("tree.sqlite", "tree.sqlite-wal"):
        (home / name).unlink()
    store = EmbeddedStore(str(home / "tree.sqlite"))
    assert contents(store) == {"/": (b"", 0)}
    assert "put aside" in caplog.text
    assert (home / "tree.sqlite.journal.unused").exists()
    store.close()


def test_a_clean_end_leaves_no_journal(tmp_path: Path) -> None:
    store = EmbeddedStore(str(tmp_path / "tree.sqlite"))
    fill(store)
    assert (tmp_path / "tree.sqlite.journal").stat().st_size > 0
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["tree.sqlite"]


def test_a_journal_is_begun_again_when_it_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "JOURNAL_BYTES_MAX", 2000)
    store = EmbeddedStore(str(tmp_path / "tree.sqlite"))
    fill(store)
    expected = contents(store)
    assert (tmp_path / "tree.sqlite.journal").stat().st_size < 3000
    shutil.copytree(tmp_path, tmp_path / "copy")
    (tmp_path / "copy" / "tree.sqlite-wal").unlink()
    copy = EmbeddedStore(str(tmp_path / "copy" / "tree.sqlite"))
    del expected["/here"]
    assert contents(copy) == expected
    copy.close()
    store.close()
