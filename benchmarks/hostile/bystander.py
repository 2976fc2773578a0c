"""A client that does nothing special, in a process of its own, and says how long it had to wait.

It produces a record, fetches it and asks for metadata, again and again on one connection. Between two calls of
`Bystander.begin` and `end` it keeps the longest wait for an answer; a wait that begins inside and ends outside counts,
since `end` waits for it.
"""

from __future__ import annotations

import multiprocessing
import socket
import struct
import time
from multiprocessing.connection import Connection
from typing import NamedTuple, Self

from benchmarks import frames
from benchmarks.frames import FetchLimits
from benchmarks.hostile.rendering import Target

_TIMEOUT_SECONDS = 180.0


class Waits(NamedTuple):
    """What the bystander saw in a window."""

    requests: int
    worst_ms: float
    failure: str | None


class Bystander:
    """Starts the process and asks it."""

    def __init__(self, address: tuple[str, int], calm: Target) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, address, calm), daemon=True)

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

    def _call(self, word: str) -> tuple[int, float, str | None]:
        self._pipe.send(word)
        if not self._pipe.poll(_TIMEOUT_SECONDS + 10):
            raise TimeoutError("the bystander does not answer")
        answer: tuple[int, float, str | None] = self._pipe.recv()
        return answer


def _serve(pipe: Connection, address: tuple[str, int], calm: Target) -> None:
    loop = _Loop(address, calm)
    try:
        while True:
            loop.round()
            while pipe.poll():
                if pipe.recv() == "begin":
                    loop.reset()
                    loop.round()
                    pipe.send((0, 0.0, None))
                else:
                    loop.round()
                    pipe.send((loop.requests, loop.worst_ms, loop.failure))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return


class _Loop:
    """The requests and the longest wait."""

    def __init__(self, address: tuple[str, int], calm: Target) -> None:
        self._address = address
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
        self.failure: str | None = None

    def round(self) -> None:
        """One request of each kind."""
        for frame in self._frames:
            before = time.perf_counter()
            try:
                self._call(frame)
            except OSError as error:
                self.failure = repr(error)
                self._socket = None
                time.sleep(0.05)
            self.requests += 1
            self.worst_ms = max(self.worst_ms, (time.perf_counter() - before) * 1000)

    def _call(self, frame: bytes) -> None:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=_TIMEOUT_SECONDS)
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
