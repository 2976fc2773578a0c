"""A server that answers every frame with the same bytes and does nothing else.

`method.calibrate` points the load at it: what comes out is the most the load can ask for, and what a request costs the
load itself. Run as a process of its own: `python -m benchmarks.sink REQUEST_BYTES REPLY_BYTES`, port on stdout.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import sys
from types import TracebackType
from typing import Self

from benchmarks.processes import HOST


class Sink:
    """The sink as a child process; use as a context manager."""

    def __init__(self, request_bytes: int, reply_bytes: int) -> None:
        self._arguments = [str(request_bytes), str(reply_bytes)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.sink", *self._arguments], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.address = (HOST, int(self._process.stdout.readline()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def serve(request_bytes: int, reply_bytes: int) -> None:
    """Answer `reply_bytes` for each `request_bytes` that arrived, for ever."""
    reply = struct.pack(">i", reply_bytes - 4) + bytes(reply_bytes - 4)
    listener = socket.create_server((HOST, 0), backlog=1024)
    print(listener.getsockname()[1], flush=True)
    poller = select.epoll()
    poller.register(listener, select.EPOLLIN)
    peers: dict[int, socket.socket] = {}
    pending: dict[int, int] = {}
    while True:
        for descriptor, _ in poller.poll():
            if descriptor == listener.fileno():
                peer, _ = listener.accept()
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peers[peer.fileno()] = peer
                pending[peer.fileno()] = 0
                poller.register(peer, select.EPOLLIN)
                continue
            received = len(os.read(descriptor, 1 << 20))
            if not received:
                poller.unregister(descriptor)
                peers.pop(descriptor).close()
                continue
            whole, pending[descriptor] = divmod(pending[descriptor] + received, request_bytes)
            if whole:
                peers[descriptor].sendall(reply * whole)


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
