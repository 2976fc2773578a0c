"""`tidelog pipeline new` and `run --watch`, without Spark: files written, a command started again when they change."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.cli_support import run_here
from tidelog.cli.pipeline._watching import Watch, snapshot


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def test_new_writes_a_pipeline_that_is_valid_and_overwrites_nothing(tmp_path: Path) -> None:
    made = run_here("pipeline", "new", "my-orders", "--directory", str(tmp_path / "a"))
    assert made.code == 0, made.err
    assert sorted(each.name for each in (tmp_path / "a").iterdir()) == [
        "my_orders.jsonl", "my_orders.py", "test_my_orders.py",
    ]  # fmt: skip
    valid = run_here("pipeline", "validate", str(tmp_path / "a" / "my_orders.py"), "--offline", "--no-plan")
    assert (valid.code, valid.out) == (0, "my-orders: valid\n")
    again = run_here("pipeline", "new", "my-orders", "--directory", str(tmp_path / "a"))
    assert again.code == 1
    assert "my_orders.py is there already" in again.err


@pytest.mark.parametrize("name", ["1st", "a b", "class", "a.b"])
def test_a_name_that_no_module_can_have_is_refused(name: str, tmp_path: Path) -> None:
    assert run_here("pipeline", "new", name, "--directory", str(tmp_path)).code == 2
    assert list(tmp_path.iterdir()) == []


def test_modules_and_schemas_beside_a_pipeline_are_watched_and_nothing_else(tmp_path: Path) -> None:
    for name in ("orders.py", "order.avsc", "orders.jsonl", "venv/lib.py", "rules/__init__.py", "rules/a.py", ".x.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert {str(each.relative_to(tmp_path)) for each in snapshot([f"{tmp_path / 'orders.py'}:name"])} == {
        "orders.py", "order.avsc", "rules/__init__.py", "rules/a.py",
    }  # fmt: skip


COMMAND = """
import signal, sys, threading
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
with open(sys.argv[1], "a") as out:
    out.write(open(sys.argv[2]).read() + "\\n")
stop.wait()
sys.exit(0)
"""


def test_a_change_starts_the_command_again_and_a_mistake_does_not(tmp_path: Path) -> None:
    """Run in a process of its own, which SIGTERM ends together with the command."""
    file, command, started = tmp_path / "orders.py", tmp_path / "command.txt", tmp_path / "started.txt"
    file.write_text("first")
    command.write_text(COMMAND)
    watching = f"""
import sys
from pathlib import Path
from tidelog.cli.pipeline._watching import Watch
file = {str(file)!r}
command = [sys.executable, {str(command)!r}, {str(started)!r}, file]
sys.exit(Watch(command, [file], lambda: "mistake" not in Path(file).read_text()).run())
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    process = subprocess.Popen([sys.executable, "-c", watching], env=environment, stderr=subprocess.PIPE, text=True)
    said: list[str] = []
    assert process.stderr is not None
    reader = threading.Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
    reader.start()

    def starts() -> list[str]:
        return started.read_text().splitlines() if started.exists() else []

    try:
        wait_for(lambda: starts() == ["first"], "the first start")
        file.write_text("a mistake")
        wait_for(lambda: any("not taken" in line for line in said), "the mistake")
        assert starts() == ["first"]
        file.write_text("the second")
        wait_for(lambda: starts() == ["first", "the second"], "the second start")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    reader.join(60)
    process.stderr.close()
    assert [line for line in said if "changed" in line] == ["orders.py: changed, starting again\n"]


def test_a_command_that_has_ended_waits_for_the_next_change(tmp_path: Path) -> None:
    file, out = tmp_path / "orders.py", tmp_path / "out.txt"
    file.write_text("")
    said: list[str] = []
    code = f"open({str(out)!r}, 'a').write('x'); raise SystemExit(3)"
    watch = Watch([sys.executable, "-c", code], [str(file)], lambda: True, said.append)

    def change() -> None:
        wait_for(lambda: len(said) == 1, "the end")
        file.write_text("changed")
        wait_for(lambda: len(said) == 3, "the second end")
        watch._stopped.set()

    changing = threading.Thread(target=change)
    changing.start()
    assert watch.run() == 0
    changing.join(60)
    ended = "ended with exit code 3; waiting for a change"
    assert said == [ended, "orders.py: changed, starting again", ended]
    assert out.read_text() == "xx"
