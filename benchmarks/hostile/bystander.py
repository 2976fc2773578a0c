"""A client that does nothing special, in a process of its own, and says how long it had to wait.

It produces a record, fetches it and asks for metadata, again and again on one connection. Between two calls of
`Bystander.begin` and `end` it keeps the longest wait for an answer; a wait that begins inside and ends outside counts,
since `end` waits for it.

On a machine that does other things too, a wait is longer than what the broker did meanwhile. Where the kernel reports
(`/proc/PID/schedstat`), the processor time that the broker's main thread took within one wait is kept as well: for a
broker with one thread that is what the wait would have been on a machine of its own.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import struct
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple, Self

from benchmarks import frames
from benchmarks.frames import FetchLimits
from benchmarks.hostile.rendering import Target

_NICENESS = -15


class BystanderSilentError(RuntimeError):
    """The process does not answer: it waits for a broker that does not serve, or has ended."""


class Waits(NamedTuple):
    """What the bystander saw in a window."""

    requests: int
    worst_ms: float
    worst_work_ms: float
    """The most processor time of the broker's main thread in one wait; 0 where it is not known."""
    failure: str | None


class Bystander:
    """Starts the process and asks it."""

    def __init__(self, address: tuple[str, int], calm: Target, broker_pid: int, answer_seconds_max: float) -> None:
        """A request of its own that is not answered within `answer_seconds_max` has failed."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._seconds_max = 3 * answer_seconds_max + 10  # it finishes its round first: three requests
        arguments = (theirs, address, calm, broker_pid, answer_seconds_max)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def begin(self) -> None:
        """Forget what was, and be on the way with a few requests."""
        self._call("begin")

    def end(self) -> Waits:
        """What happened since `begin`."""
        return Waits(*self._call("end"))

    def _call(self, word: str) -> tuple[int, float, float, str | None]:
        try:
            self._pipe.send(word)
            if not self._pipe.poll(self._seconds_max):
                raise BystanderSilentError("the bystander was not served")
            answer: tuple[int, float, float, str | None] = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise BystanderSilentError("the bystander has ended") from error
        return answer


def _serve(
    pipe: Connection, address: tuple[str, int], calm: Target, broker_pid: int, answer_seconds_max: float
) -> None:
    with contextlib.suppress(OSError):
        # Before other processes, where that is allowed: it should wait for the broker and not for the processor.
        os.nice(_NICENESS)
    loop = _Loop(address, calm, Path(f"/proc/{broker_pid}/schedstat"), answer_seconds_max)
    try:
        while True:
            loop.round()
            while pipe.poll():
                if pipe.recv() == "begin":
                    loop.reset()
                    loop.round()
                    pipe.send((0, 0.0, 0.0, None))
                else:
                    loop.round()
                    pipe.send((loop.requests, loop.worst_ms, loop.worst_work_ms, loop.failure))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return


class _Loop:
    """The requests and the longest wait."""

    def __init__(self, address: tuple[str, int], calm: Target, schedstat: Path, answer_seconds_max: float) -> None:
        self._address = address
        self._answer_seconds_max = answer_seconds_max
        self._schedstat = schedstat
        self._frames = (
            frames.produce(calm.topic, 0, frames.batch([b"calm"]), acks=1),
            frames.fetch(calm.topic_id, [(0, 0)], FetchLimits(wait_ms_max=0, bytes_max=1000)),
            frames.metadata([calm.topic]),
        )
        self._socket: socket.socket | None = None
        self.reset()

    def reset(self) -> None:
        self.requests = 0
        self.worst_ms = 0.0
        self.worst_work_ms = 0.0
        self.failure: str | None = None

    def round(self) -> None:
        """One request of each kind."""
        for frame in self._frames:
            before, worked_before = time.perf_counter(), self._worked_ms()
            try:
                self._call(frame)
            except OSError as error:
                self.failure = repr(error)
                self._socket = None
                time.sleep(0.05)
            self.requests += 1
            self.worst_ms = max(self.worst_ms, (time.perf_counter() - before) * 1000)
            self.worst_work_ms = max(self.worst_work_ms, self._worked_ms() - worked_before)

    def _worked_ms(self) -> float:
        """Processor time that the broker's main thread has had."""
        try:
            return int(self._schedstat.read_text().split()[0]) / 1e6
        except OSError:
            return 0.0

    def _call(self, frame: bytes) -> None:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=self._answer_seconds_max)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(frame)
        (left,) = struct.unpack(">i", self._exactly(4))
        self._exactly(left)

    def _exactly(self, size: int) -> bytes:
        assert self._socket is not None, "connected by the caller"
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionResetError("closed by the broker")
            data += piece
        return data
