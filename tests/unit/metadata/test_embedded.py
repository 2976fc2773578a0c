import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.metadata.store_contract import StoreContract
from tidelog.metadata.embedded import EmbeddedStore
from tidelog.metadata.errors import StoreCorruptError, StoreLockedError, StoreUnavailableError
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


def test_a_second_opener_is_refused_while_the_first_lives(path: str) -> None:
    store = EmbeddedStore(path)
    with pytest.raises(StoreLockedError, match=r"tidelog-metadata\.sqlite is in use by another process"):
        EmbeddedStore(path)
    program = (
        "import sys; from tidelog.metadata.embedded import EmbeddedStore\n"
        "try: EmbeddedStore(sys.argv[1])\n"
        "except Exception as error: print(type(error).__name__)"
    )
    output = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "StoreLockedError"
    store.create("/still-works")
    store.close()
    EmbeddedStore(path).close()


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


def test_a_database_of_somebody_else_is_left_alone(path: str) -> None:
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


def test_importing_the_store_does_not_import_sqlite() -> None:
    program = "import sys, tidelog.metadata.embedded; print('sqlite3' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "False"


WRITER = """
import sys
from tidelog.metadata.embedded import EmbeddedStore
from tidelog.metadata.store import Create, Set
store = EmbeddedStore(sys.argv[1])
first = int(store.get("/last")[0]) + 1 if store.exists("/last") else 0
if first == 0:
    store.create("/last", b"-1")
store.create("/alive", ephemeral=True)
for number in range(first, 10**9):
    group = f"/{number:08d}"
    store.multi([Create(group), *(Create(f"{group}/{i}", b"x" * 300) for i in range(20)), Set("/last", b"%d" % number)])
    print(number, flush=True)
"""


def test_a_killed_process_leaves_whole_transactions_and_all_that_it_acknowledged(path: str) -> None:
    """Killed in the middle of writing, again and again: each group of nodes is there whole or not at all."""
    acknowledged = -1
    for round_number in range(6):
        with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(3 + 7 * round_number):
                acknowledged = int(writer.stdout.readline())
            writer.kill()
            for line in writer.stdout:
                if line.endswith("\n"):
                    acknowledged = int(line)
        store = EmbeddedStore(path)
        last = int(store.get("/last")[0])
        groups = [name for name in store.children("/") if name != "last"]
        assert groups == [f"{number:08d}" for number in range(last + 1)], "whole groups, and no trace of the ephemeral"
        assert acknowledged <= last <= acknowledged + 1
        assert all(len(store.children(f"/{group}")) == 20 for group in groups)
        store.close()
