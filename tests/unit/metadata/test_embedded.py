import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.metadata.store_contract import StoreContract
from tidelog.metadata.embedded import EmbeddedStore
from tidelog.metadata.errors import StoreCorruptError, StoreUnavailableError
from tidelog.metadata.store import Create, Set


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "tidelog-metadata.sqlite")


class TestEmbeddedStore(StoreContract):
    @pytest.fixture
    def store(self, path: str) -> Iterator[EmbeddedStore]:
        store = EmbeddedStore(path)
        yield store
        store.close()


def test_what_was_written_is_there_after_reopening(path: str) -> None:
    store = EmbeddedStore(path)
    store.multi([Create("/a", b"1"), Create("/a/n_", b"2", sequential=True), Set("/a", b"3")])
    before = store.get("/a"), store.get("/a/n_0000000000")
    store.close()
    store = EmbeddedStore(path)
    assert (store.get("/a"), store.get("/a/n_0000000000")) == before
    assert store.create("/a/n_", sequential=True) == "/a/n_0000000001"
    assert store.get("/a/n_0000000001")[1].czxid == before[0][1].mzxid + 1, "transaction numbers go on"
    store.close()


def test_ephemeral_nodes_go_when_the_store_is_closed(path: str) -> None:
    store = EmbeddedStore(path)
    store.create("/a")
    store.create("/a/b", ephemeral=True)
    store.close()
    store = EmbeddedStore(path)
    assert store.children("/a") == []
    assert store.get("/a")[1].num_children == 0
    store.close()


@pytest.mark.parametrize("rubbish", [b"this is not a database" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_named_with_what_to_do(path: str, rubbish: bytes) -> None:
    Path(path).write_bytes(rubbish)
    with pytest.raises(
        StoreCorruptError, match=r"tidelog-metadata\.sqlite is damaged: .* Restore the file from a backup"
    ):
        EmbeddedStore(path)
    assert Path(path).read_bytes() == rubbish, "the evidence is left as it was"


def test_damage_inside_the_file_is_reported_by_the_call_that_meets_it(path: str) -> None:
    store = EmbeddedStore(path)
    names = [f"/a/{number:03d}" for number in range(200)]
    store.multi([Create("/a"), *(Create(name, b"x" * 500) for name in names)])
    store.close()
    pages = Path(path).read_bytes()
    Path(path).write_bytes(pages[: len(pages) // 2] + b"\x55" * (len(pages) - len(pages) // 2))
    store = EmbeddedStore(path)
    with pytest.raises(StoreCorruptError, match="is damaged"):
        store.get_many(names)
    store.close()


def test_an_empty_file_is_a_new_store(path: str) -> None:
    """A crash between making the file and its first transaction leaves one."""
    Path(path).touch()
    store = EmbeddedStore(path)
    assert store.children("/") == []
    store.close()


def test_a_database_of_another_program_is_left_alone(path: str) -> None:
    import sqlite3

    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(StoreCorruptError, match="not one of Tidelog's"):
        EmbeddedStore(path)


def test_a_file_of_a_newer_version_is_refused(path: str) -> None:
    import sqlite3

    EmbeddedStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreUnavailableError, match="has format 99"):
        EmbeddedStore(path)


def test_a_directory_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="missing/x cannot be used: unable to open database file"):
        EmbeddedStore(str(tmp_path / "missing" / "x"))


def test_only_the_owner_may_read_the_files_of_a_new_tree(path: str) -> None:
    """They hold the SCRAM credentials of users; the socket of a shared tree is its owner's alone, too."""
    before = os.umask(0o022)
    try:
        store = EmbeddedStore(path)
        store.create("/a", b"secret")
        modes = {each.name: each.stat().st_mode & 0o777 for each in Path(path).parent.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert len(modes) > 1
    assert set(modes.values()) == {0o600}, modes


def test_files_that_everybody_could_read_are_closed_to_others(path: str) -> None:
    """Older versions created them that way. The rights of the group are left to the operator."""
    EmbeddedStore(path).close()
    files = list(Path(path).parent.iterdir())
    for each in files:
        each.chmod(0o644)
    store = EmbeddedStore(path)
    store.create("/a", b"secret")
    modes = {each.name: each.stat().st_mode & 0o777 for each in Path(path).parent.iterdir()}
    store.close()
    assert not any(mode & 0o007 for mode in modes.values()), modes
