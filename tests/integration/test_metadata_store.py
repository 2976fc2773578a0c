"""The embedded metadata store beside other processes: one holds it at a time, and a kill leaves whole transactions."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.metadata.embedded import EmbeddedStore
from tidelog.metadata.errors import StoreLockedError


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "tidelog-metadata.sqlite")


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
