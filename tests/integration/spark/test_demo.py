"""`tidelog demo`, small: the whole way, and nothing left behind."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.integration.spark.pipeline_support import wait_for

pytestmark = pytest.mark.spark

SOURCE = str(Path(__file__).parents[3] / "src")


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tidelog", "demo", *words]


def _environment(directory: Path) -> dict[str, str]:
    """Temporary files where they can be counted."""
    return {**os.environ, "PYTHONPATH": SOURCE, "TMPDIR": str(directory), "COLUMNS": "100"}


@pytest.mark.timeout(300)
@pytest.mark.long
def test_the_demo_shows_output_dead_letters_and_a_plot_and_cleans_up(tmp_path: Path) -> None:
    temporary, working = tmp_path / "tmp", tmp_path / "work"
    temporary.mkdir()
    working.mkdir()
    done = subprocess.run(
        _command("--seconds", "3", "--rate", "400"),
        capture_output=True,
        text=True,
        cwd=working,
        env=_environment(temporary),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "1,200 orders went in, 400 a second; 1,197 came out with their customers, each exactly once" in done.stdout
    assert "an order without quantity" in done.stdout
    assert "no such customer yet" in done.stdout
    assert "lag, records" in done.stdout
    assert "What to try next" in done.stdout
    assert "Traceback" not in done.stderr
    assert [path.name for path in working.iterdir()] == ["tidelog-demo.png"]
    assert (working / "tidelog-demo.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in temporary.iterdir() if path.name.startswith("tidelog")] == []


def _started(pid: int) -> set[str]:
    """The programs that a process and its children have started."""
    try:
        return {child.name() for child in psutil.Process(pid).children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


@pytest.mark.parametrize("is_java_started", [False, True], ids=["the broker is ready", "Java has been started"])
@pytest.mark.long
def test_an_interrupt_ends_it_quietly(tmp_path: Path, is_java_started: bool) -> None:
    """And all that it started: its output ends only when no process holds the pipe any more."""
    running = subprocess.Popen(
        _command("--seconds", "3", "--rate", "400"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=_environment(tmp_path),
        start_new_session=True,
    )
    try:
        assert running.stderr is not None
        assert "broker ready" in running.stderr.readline()
        if is_java_started:
            wait_for(lambda: "java" in _started(running.pid), 60, "Java")
        os.killpg(running.pid, signal.SIGINT)
        out, err = running.communicate(timeout=100)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert out == ""
    assert not list(tmp_path.glob("tidelog*"))
