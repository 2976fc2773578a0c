"""Tables' pipelines are started again when they die, with a stand-in for the pipeline's process: no JVM."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tidelog.cli.app import main
from tidelog.cli.table._supervisor import TableDirectory, tables_in

SECONDS = 60.0
PIPELINE = """
import json, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print(json.dumps({"event": "started", "pipeline": "p"}), flush=True)
print("not an event", flush=True)
print(json.dumps({"event": "progress", "batch_id": 4, "input_rows": 3}), flush=True)
while True:
    print(json.dumps({"event": "progress", "batch_id": 4, "input_rows": 0}), flush=True)
    time.sleep(0.05)
"""
SUPERVISE = """
import sys
from pathlib import Path
from tidelog.cli.table._supervisor import Supervisor, TableDirectory
table = TableDirectory(Path(sys.argv[1]))
sys.exit(Supervisor(table, [sys.executable, str(table.path / "pipeline.py"), str(table.definition)]).run())
"""


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.fixture
def table(tmp_path: Path) -> TableDirectory:
    made = TableDirectory(tmp_path / "tables" / "orders")
    made.path.mkdir(parents=True)
    made.definition.write_text("")
    (made.path / "pipeline.py").write_text(PIPELINE)
    return made


@contextmanager
def supervise(table):
    """A supervisor, killed at the end if it is still there: then its pipeline ends, too."""
    process = subprocess.Popen([sys.executable, "-c", SUPERVISE, str(table.path)], start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def is_gone(pid: int) -> bool:
    """Also where nobody reaps what has lost its parent."""
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    return True


def is_running(table, supervisor):
    state = table.state()
    return state.get("supervisor") == supervisor.pid and state.get("state") == "running" and state.get("rows")


def test_a_pipeline_that_is_killed_starts_again_and_a_stop_ends_it(table, capsys):
    with supervise(table) as supervisor:
        until(lambda: is_running(table, supervisor), "the pipeline runs")
        first = table.state()["pid"]
        assert table.state()["rows"] == 3
        os.kill(first, signal.SIGKILL)
        until(lambda: table.state()["starts"] == 2 and table.state()["rows"] == 6, "it is started again")
        assert table.is_supervised()
        assert main(["table", "status", "orders", "--directory", str(table.path.parent), "--format", "json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert (shown["state"], shown["starts"], shown["batch"]) == ("running", 2, 4)
        assert main(["table", "start", "orders", "--directory", str(table.path.parent)]) == 1
        assert "running already" in capsys.readouterr().err
        assert main(["table", "stop", "orders", "--directory", str(table.path.parent)]) == 0
        assert supervisor.wait(SECONDS) == 0
    assert not table.is_supervised()
    assert main(["table", "list", "--directory", str(table.path.parent)]) == 0
    assert "orders  stopped" in capsys.readouterr().out
    assert main(["table", "stop", "orders", "--directory", str(table.path.parent)]) == 1
    assert "does not run" in capsys.readouterr().err


def test_a_supervisor_that_is_killed_leaves_no_second_pipeline(table, capsys):
    with supervise(table) as first:
        until(lambda: is_running(table, first), "the pipeline runs")
        orphan = table.state()["pid"]
        first.kill()
    assert main(["table", "list", "--directory", str(table.path.parent)]) == 0
    assert "lost" in capsys.readouterr().out
    with supervise(table) as second:
        until(lambda: is_running(table, second), "it runs again")
        assert table.state()["pid"] != orphan
        assert is_gone(orphan)
        second.terminate()
        assert second.wait(SECONDS) == 0


def test_only_one_supervises_a_table(table):
    with supervise(table) as first:
        until(lambda: is_running(table, first), "the pipeline runs")
        with subprocess.Popen(
            [sys.executable, "-c", SUPERVISE, str(table.path)], stderr=subprocess.PIPE, text=True
        ) as second:
            _, said = second.communicate(timeout=SECONDS)
        assert "is running already" in said
        first.send_signal(signal.SIGINT)
        assert first.wait(SECONDS) == 0


def test_a_mistake_in_the_definition_is_not_tried_again(table):
    (table.path / "pipeline.py").write_text("import sys; sys.exit(2)")
    with supervise(table) as supervisor:
        assert supervisor.wait(SECONDS) == 2
    assert (table.state()["state"], table.state()["starts"]) == ("failed", 1)
    assert str(table.log) in table.state()["error"]


def test_tables_of_a_relative_directory_have_absolute_files(table, monkeypatch):
    monkeypatch.chdir(table.path.parent.parent)
    assert [each.definition for each in tables_in(Path("tables"))] == [table.definition]


def test_a_table_that_is_not_there_is_named(tmp_path, capsys):
    for verb in ("status", "stop", "start", "run"):
        assert main(["table", verb, "orders", "--directory", str(tmp_path)]) == 1
        assert "there is no table orders" in capsys.readouterr().err


def test_a_number_that_another_process_has_by_now_is_left_alone(table):
    (table.path / "pipeline.py").write_text("import sys; sys.exit(2)")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        table.put_state({"pid": other.pid})
        with supervise(table) as supervisor:
            assert supervisor.wait(SECONDS) == 2
        assert other.poll() is None
        other.communicate(b"\n", timeout=SECONDS)
    assert table.state()["state"] == "failed"
