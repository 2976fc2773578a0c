"""A Redis server of a test's own, from the machine's package; with an append-only file it survives a kill."""

import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from benchmarks.processes import free_port


class RedisServer:
    """`redis-server` in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("redis-server") is None:
            pytest.skip("redis-server is not installed")
        pytest.importorskip("redis", reason="needs tidelog[redis]")
        self._directory = directory
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self._port}/0"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it; it reads its file first."""
        command = ["redis-server", "--port", str(self._port), "--bind", "127.0.0.1", "--dir", str(self._directory)]
        command += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def reached(self) -> None:
        """Wait until it answers."""
        deadline = time.monotonic() + 20
        while subprocess.run(["redis-cli", "-p", str(self._port), "ping"], capture_output=True).stdout != b"PONG\n":
            assert time.monotonic() < deadline, "Redis did not start in time"
            time.sleep(0.02)

    def kill(self) -> None:
        """End it without any warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
