"""A broker as a process of its own: `python -m tidelog serve`, on the port it announces."""

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import tidelog
from tidelog.testing.runner import BrokerFailed

_READY: Final = "tidelog ready "
_LOG_TAIL_LINES: Final = 20


class ProcessRunner:
    """Starts the process, waits for its ready line, and ends it one way or another."""

    def __init__(self, timeout_s: float, crash_at: str | None = None) -> None:
        """With `crash_at`, the process kills itself at that place of its work."""
        self._timeout_s = timeout_s
        self._crash_at = crash_at
        self._log = tempfile.TemporaryFile(prefix="tidelog-log-")  # noqa: SIM115 - it lives as long as the process
        self._process: subprocess.Popen[bytes] | None = None
        self._last_logs = ""

    @property
    def pid(self) -> int:
        """The broker's process id."""
        return self._live().pid

    def start(self, properties: Mapping[str, str]) -> tuple[str, int]:
        """Start it and wait for the line that says where it serves."""
        self._process = process = subprocess.Popen(
            [sys.executable, "-P", "-m", *self._command(properties)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=_environment(),
        )
        # A test run that ends without stopping its brokers must not leave them behind.
        weakref.finalize(self, _end_if_alive, process)
        try:
            line = self._first_line(process)
        except BaseException:
            self.kill()
            raise
        host, _, port = line.removeprefix(_READY).rpartition(":")
        return host.strip("[]"), int(port)

    def _command(self, properties: Mapping[str, str]) -> list[str]:
        if self._crash_at is not None:
            return ["tidelog.testing._crashing", self._crash_at, json.dumps(dict(properties))]
        settings = [word for name, value in properties.items() for word in ("--set", f"{name}={value}")]
        return ["tidelog", "serve", *settings]

    def stop(self) -> None:
        """SIGTERM, and the exit code must be 0."""
        process = self._live()
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            code = process.wait(self._timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(
                self._tell(f"the broker did not stop within {self._timeout_s} s and was killed")
            ) from None
        self._finish(process)
        if code:
            raise BrokerFailed(self._tell(f"the broker stopped with exit code {code}"))

    def kill(self) -> None:
        """SIGKILL."""
        process = self._live()
        process.kill()
        process.wait()
        self._finish(process)

    def signal(self, number: int) -> None:
        """Send any signal."""
        self._live().send_signal(number)

    def travel(self, forward_ms: int) -> None:
        """Not offered: the clocks are those of the machine."""
        raise RuntimeError(f"the clocks of a process cannot be set forward by {forward_ms} ms")

    def logs(self) -> str:
        """Everything on its stderr so far."""
        if self._log.closed:
            return self._last_logs
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")

    def _finish(self, process: subprocess.Popen[bytes]) -> None:
        _close_pipe(process)
        self._last_logs = self.logs()
        self._log.close()

    def _live(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the process was not started"
        return self._process

    def _first_line(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        deadline = time.monotonic() + self._timeout_s
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise BrokerFailed(self._tell(f"the broker was not ready within {self._timeout_s} s"))
                chunk = os.read(descriptor, 4096)
                if not chunk:
                    code = process.wait(self._timeout_s)
                    raise BrokerFailed(self._tell(f"the broker ended with exit code {code} before it was ready"))
                line += chunk
        text = line.decode().strip()
        if not text.startswith(_READY):
            raise BrokerFailed(self._tell(f"the broker's first line was {text!r}"))
        return text

    def _tell(self, what: str) -> str:
        tail = self.logs().splitlines()[-_LOG_TAIL_LINES:]
        return "\n".join([what, *tail])


def _environment() -> dict[str, str]:
    """Our environment, extended so that the process imports the same package."""
    package_root = str(Path(tidelog.__file__).parents[1])
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([package_root, inherited]) if inherited else package_root
    return {**os.environ, "PYTHONPATH": path}


def _end_if_alive(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
    _close_pipe(process)


def _close_pipe(process: subprocess.Popen[bytes]) -> None:
    if process.stdout is not None:
        process.stdout.close()
