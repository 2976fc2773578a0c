"""Sends one hostile request to a live broker and says what became of it, of the bystander and of the memory."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from benchmarks.hostile.bystander import Bystander
from benchmarks.hostile.requests import HostileRequest

ANSWER_SECONDS_MAX: Final = 20.0
STOPPED_SERVING: Final = "stopped serving"
_SAMPLE_SECONDS: Final = 0.005
_RESET_PEAK: Final = "5"


class Outcome(NamedTuple):
    """What one request did."""

    request: HostileRequest
    size_bytes: int
    fate: str
    """`answered`, `closed`, `silent` or `stopped serving`."""
    reply_bytes: int
    worst_ms: float
    worst_work_ms: float
    grown_bytes: int
    failure: str | None


class Memory:
    """The peak of a process's resident memory above what it was when the watch began.

    Linux keeps the peak itself and lets it be reset; elsewhere a thread looks every few milliseconds.
    """

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._proc = Path(f"/proc/{pid}")
        self._before = 0
        self._sampler: _Sampler | None = None

    def begin(self) -> None:
        self._before = self._process.memory_info().rss
        try:
            (self._proc / "clear_refs").write_text(_RESET_PEAK)
        except OSError:
            self._sampler = _Sampler(self._process)
            self._sampler.start()

    def end(self) -> int:
        """Bytes above the beginning."""
        if self._sampler is not None:
            return max(0, self._sampler.stop() - self._before)
        for line in (self._proc / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return max(0, int(line.split()[1]) * 1024 - self._before)
        return 0


class _Sampler(threading.Thread):
    def __init__(self, process: psutil.Process) -> None:
        super().__init__(name="memory", daemon=True)
        self._process = process
        self._stopping = threading.Event()
        self._peak = 0

    def run(self) -> None:
        while not self._stopping.wait(_SAMPLE_SECONDS):
            self._peak = max(self._peak, self._process.memory_info().rss)

    def stop(self) -> int:
        self._stopping.set()
        self.join()
        return self._peak


def measure(
    request: HostileRequest,
    frame: bytes,
    address: tuple[str, int],
    pid: int,
    bystander: Bystander,
    answer_seconds_max: float = ANSWER_SECONDS_MAX,
) -> Outcome:
    """Send the request, which is in `frame`, while the bystander is served."""
    memory = Memory(pid)
    memory.begin()
    bystander.begin()
    fate, reply_bytes = send(address, frame, answer_seconds_max)
    waits = bystander.end()
    return Outcome(
        request, len(frame), fate, reply_bytes, waits.worst_ms, waits.worst_work_ms, memory.end(), waits.failure
    )


def send(address: tuple[str, int], frame: bytes, answer_seconds_max: float = ANSWER_SECONDS_MAX) -> tuple[str, int]:
    """Whether the request was answered, and the size of its answer."""
    deadline = time.monotonic() + answer_seconds_max
    with socket.create_connection(address, timeout=answer_seconds_max) as client:
        sender = threading.Thread(target=_send_all, args=(client, frame), daemon=True)
        sender.start()
        received = 0
        expected: int | None = None
        head = b""
        while expected is None or received < expected + 4:
            client.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                piece = client.recv(1 << 18)
            except TimeoutError:
                return "silent", received
            except OSError:
                return "closed", received
            if not piece:
                return "closed", received
            received += len(piece)
            if expected is None:
                head += piece
                if len(head) >= 4:
                    (expected,) = struct.unpack(">i", head[:4])
        return "answered", received


def _send_all(client: socket.socket, frame: bytes) -> None:
    """A broker may close before it has read everything."""
    with contextlib.suppress(OSError):
        client.sendall(frame)
