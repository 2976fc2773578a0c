"""Processes under test: how a broker is spawned, awaited, watched and stopped.

`apache_kafka.KafkaBroker` and `tidelog_broker.TidelogBroker` are each a `BrokerProcess`; cases know no more of them.
"""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from benchmarks.admin import Admin, AdminError

HOST = "127.0.0.1"
STOP_SECONDS = 60.0
UNPRIVILEGED_PORTS = (12_000, 32_000)


class ProcessFailedError(RuntimeError):
    """A process ended or stayed silent where it should have served; carries what it wrote."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process had used at one moment: processor seconds and resident bytes."""

    cpu_seconds: float
    resident_bytes: int


def free_port() -> int:
    """A port without a listener, below the range from which the kernel takes the ports of outgoing connections.

    A port of that range may be taken by another connection before the broker binds it, and a client that polls it
    may even connect to itself.
    """
    while True:
        port = random.randrange(*UNPRIVILEGED_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            return port


class Child:
    """One process of ours, its output kept in a file for the day it fails."""

    def __init__(self, command: Sequence[str], output: Path, cwd: Path | None = None) -> None:
        self.output = output
        with output.open("ab") as sink:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, cwd=cwd
            )
        self.pid = self._process.pid
        self._stats = psutil.Process(self.pid)

    def check_alive(self) -> None:
        """Raise, with the last lines it wrote, once the process has ended."""
        code = self._process.poll()
        if code is not None:
            tail = self.output.read_text(errors="replace")[-2000:]
            raise ProcessFailedError(f"process {self.pid} ended with code {code}; its last words:\n{tail}")

    def usage(self) -> Usage:
        """Processor time and memory of the process, its threads included."""
        times = self._stats.cpu_times()
        return Usage(times.user + times.system, self._stats.memory_info().rss)

    def stop(self) -> int:
        """Ask it to end as an operator would, and wait; one that does not obey is killed and reported."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
                raise ProcessFailedError(f"process {self.pid} did not stop within {STOP_SECONDS:.0f} s") from None
        return self._process.returncode

    def kill(self) -> None:
        """End it at once, as `kill -9` does."""
        self._process.kill()
        self._process.wait()


class BrokerProcess(ABC):
    """One broker on a fixed port with its own directory. Spawn it, or start it and wait until it serves."""

    name: str
    start_seconds_max = 60.0

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log_dir = directory / "data"
        self.port = free_port()
        self._child: Child | None = None
        directory.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def command(self) -> list[str]:
        """The command line that runs this broker in the foreground."""

    @property
    def address(self) -> tuple[str, int]:
        return HOST, self.port

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def is_spawned(self) -> bool:
        """Whether it was started, and neither stopped nor killed since."""
        return self._child is not None

    @property
    def child(self) -> Child:
        assert self._child is not None, f"{self.name} was not spawned"
        return self._child

    def spawn(self) -> None:
        """Start the process and return at once."""
        self._child = Child(self.command(), self.directory / "broker.out")

    def start(self) -> Self:
        """Start the process and return when it answers Metadata with a live broker and a controller."""
        self.spawn()
        self.wait_until_serves()
        return self

    def wait_until_serves(self) -> None:
        deadline = time.monotonic() + self.start_seconds_max
        while time.monotonic() < deadline:
            self.child.check_alive()
            with contextlib.suppress(OSError, AdminError), Admin.connect(self.address) as admin:
                if admin.serves():
                    return
            time.sleep(0.02)
        self.kill()
        raise ProcessFailedError(f"{self.name} did not serve within {self.start_seconds_max:.0f} s")

    def stop(self) -> None:
        """A clean shutdown."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def kill(self) -> None:
        """An unclean one."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def usage(self) -> Usage:
        return self.child.usage()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
        else:
            self.kill()
