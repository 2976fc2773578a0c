"""Keeps a table's pipeline running: one process that starts another, and starts it again when it dies.

The pipeline restarts its queries and its JVM by itself; what is left is its own process, which may be killed. What
`list` and `status` show is in `state.json`, written as a whole. Whoever holds the lock supervises the table: a second
supervisor is refused. If the supervisor is killed, the pipeline loses the pipe that it writes its events to, and ends;
the next supervisor waits for that, and ends it itself if need be.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from tidelog.cli.errors import CommandError

DEFINITION: Final = "table.py"
_STATE: Final = "state.json"
_LOCK: Final = "lock"
_LOG: Final = "log"
_WRONG: Final = 2
"""The exit code of `tidelog pipeline run` for mistakes: another start would end in the same way."""
_PAUSE_S_MIN: Final = 0.5
_PAUSE_S_MAX: Final = 60.0
_STOP_S: Final = 90.0
_POLL_S: Final = 0.05


class TableDirectory:
    """The files of one table."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.definition = path / DEFINITION
        self.log = path / _LOG

    @property
    def name(self) -> str:
        """The name of the table."""
        return self.path.name

    def state(self) -> dict[str, Any]:
        """What was last known."""
        try:
            found: dict[str, Any] = json.loads((self.path / _STATE).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return found

    def put_state(self, state: dict[str, Any]) -> None:
        """Replace what is known."""
        new = self.path / f"{_STATE}.new"
        new.write_text(json.dumps(state), encoding="utf-8")
        new.replace(self.path / _STATE)

    def is_supervised(self) -> bool:
        """Whether some process holds the lock."""
        if not (self.path / _LOCK).exists():
            return False
        with (self.path / _LOCK).open("ab") as file:
            return not _locks(file)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the supervisor. Raises CommandError if another is."""
        with (self.path / _LOCK).open("ab") as file:
            if not _locks(file):
                raise CommandError(f"table {self.name} is running already, pid {self.state().get('supervisor', '?')}")
            yield


def _locks(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def tables_in(directory: Path) -> list[TableDirectory]:
    """All tables of a directory. Their pipelines run in directories of their own, so paths are absolute."""
    return [TableDirectory(each.parent) for each in sorted(directory.absolute().glob(f"*/{DEFINITION}"))]


class Supervisor:
    """Runs `command`, whose events are lines of JSON on its stdout, until it is stopped."""

    def __init__(self, table: TableDirectory, command: Sequence[str]) -> None:
        self._table = table
        self._command = command
        self._asked = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._state: dict[str, Any] = {}

    def run(self) -> int:
        """Until SIGTERM or SIGINT, or until there is a mistake in the definition; the exit code."""
        with self._table.locked():
            _end_leftover(self._table)
            for each in (signal.SIGTERM, signal.SIGINT):
                signal.signal(each, lambda *_: self.stop())
            self._put(supervisor=os.getpid(), pid=None, state="starting", starts=0, error=None, ended=None)
            code = self._supervise()
            self._put(pid=None, supervisor=None)
            return code

    def stop(self) -> None:
        """Stop between two batches."""
        self._asked.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()

    def _supervise(self) -> int:
        pause_s = _PAUSE_S_MIN
        while not self._asked.is_set():
            began = time.monotonic()
            code = self._run_once()
            if self._asked.is_set():
                break
            if code == _WRONG:
                self._put(state="failed", pid=None, error=self._state.get("error") or f"see {self._table.log}")
                return code
            if time.monotonic() - began > _PAUSE_S_MAX:
                pause_s = _PAUSE_S_MIN
            self._put(state="restarting", pid=None, ended=code)
            self._asked.wait(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)
        self._put(state="stopped", error=None)
        return 0

    def _run_once(self) -> int:
        with self._table.log.open("ab") as log:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._table.path,
                text=True,
                # SIGINT at a terminal is for the supervisor, which stops the pipeline between two batches.
                start_new_session=True,
            )
            self._process = process
            if self._asked.is_set():
                process.terminate()
            self._put(pid=process.pid, state="starting", starts=self._state["starts"] + 1)
            assert process.stdout is not None, "it was opened as a pipe"
            for line in process.stdout:
                self._take(line)
            code = process.wait()
            self._process = None
            return code

    def _take(self, line: str) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return
        kind = event.get("event")
        if kind == "started":
            self._put(state="running", error=None)
        elif kind == "progress":
            rows = int(self._state.get("rows") or 0) + int(event.get("input_rows") or 0)
            self._put(state="running", batch=event.get("batch_id"), rows=rows, batch_at=time.time())
        elif kind in ("restarting", "gave_up", "failed"):
            self._put(state=kind, error=event.get("message"))

    def _put(self, **changed: Any) -> None:
        self._state |= changed
        self._table.put_state({**self._state, "at": time.time()})


def _end_leftover(table: TableDirectory) -> None:
    """End the pipeline of a supervisor that was killed, if it is still there."""
    pid = table.state().get("pid")
    for number in (signal.SIGTERM, signal.SIGKILL):
        if pid is None or not _is_pipeline(pid, table):
            return
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + _STOP_S
        while _is_pipeline(pid, table) and time.monotonic() < deadline:
            time.sleep(_POLL_S)


def _is_pipeline(pid: int, table: TableDirectory) -> bool:
    """Whether a process is the table's pipeline: its number may be another's by now."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return os.fsencode(table.definition) in command


def pipeline_command(table: TableDirectory) -> list[str]:
    """What runs the pipeline of a table."""
    checkpoint = str(table.path / "checkpoint")
    options = ["--format", "json", "--no-ui", "--restarts", "-1", "--checkpoint", checkpoint]
    return [sys.executable, "-m", "tidelog", "pipeline", "run", str(table.definition), *options]
