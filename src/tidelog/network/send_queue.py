"""What a connection has still to send: bytes, and slices of files that go to the socket without passing through here.

A `Connection` puts chunks in and calls `send` when the socket has room. Runs of bytes leave in one call; a few bytes
that follow a file are corked, so that they leave with the last of it instead of alone.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from typing import Final, Protocol

SEND_BYTES_PER_TURN: Final = 4 << 20
"""What one connection may send before the others get their turn."""

_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
_CHUNKS_PER_CALL_MAX: Final = 512
_TCP_CORK: Final = getattr(socket, "TCP_CORK", 3)


class FileChunk(Protocol):
    """Bytes of a file that go to the socket without passing through this process."""

    @property
    def fd(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def length(self) -> int: ...


Chunk = bytes | FileChunk


class SendQueue:
    """Chunks in order, and how much of the first is sent."""

    __slots__ = ("_send", "_sendmsg", "_sent", "_socket", "chunks")

    def __init__(self, client: socket.socket) -> None:
        self.chunks: deque[Chunk] = deque()
        """The connection adds to them, and sees whether there are any."""
        self._socket = client
        self._send = client.send
        self._sendmsg = client.sendmsg
        self._sent = 0

    def put_rest(self, chunk: bytes, sent: int) -> None:
        """Queue a chunk whose first `sent` bytes have left already."""
        self.chunks.append(chunk)
        self._sent = sent

    def clear(self) -> None:
        """Forget everything: the connection is closed."""
        self.chunks.clear()

    def send(self) -> None:
        """Send what the socket takes, within a turn's share. Raises OSError when the peer is gone."""
        chunks = self.chunks
        is_corked = len(chunks) > 1 and any(chunk.__class__ is not bytes for chunk in chunks)
        if is_corked:
            self._socket.setsockopt(socket.IPPROTO_TCP, _TCP_CORK, 1)
        budget = SEND_BYTES_PER_TURN
        try:
            while chunks and budget > 0:
                sent = self._send_bytes() if isinstance(chunks[0], bytes) else self._send_file()
                if sent < 0:
                    break
                budget -= sent
        except (BlockingIOError, InterruptedError):
            pass
        if is_corked:
            self._socket.setsockopt(socket.IPPROTO_TCP, _TCP_CORK, 0)

    def _send_bytes(self) -> int:
        """Send the run of byte chunks at the head in one call; returns the count, or -1 when the socket is full."""
        chunks = self.chunks
        first = chunks[0]
        assert isinstance(first, bytes), "only called with bytes at the head"
        if len(chunks) == 1 and not self._sent:
            size = len(first)
            sent = self._send(first)
            if sent == size:
                chunks.clear()
                return sent
        else:
            run: list[bytes | memoryview] = []
            for chunk in chunks:
                if not isinstance(chunk, bytes) or len(run) == _CHUNKS_PER_CALL_MAX:
                    break
                run.append(chunk)
            if self._sent:
                run[0] = memoryview(first)[self._sent :]
            size = sum(map(len, run))
            sent = self._sendmsg(run, (), _MSG_MORE if len(run) < len(chunks) else 0)
        return self._consumed(sent, size)

    def _consumed(self, sent: int, size: int) -> int:
        """Take `sent` bytes off the byte chunks at the head of the queue."""
        chunks = self.chunks
        left = self._sent + sent
        while chunks and isinstance(chunks[0], bytes) and left >= len(chunks[0]):
            left -= len(chunks[0])
            chunks.popleft()
        self._sent = left
        return sent if sent == size else -1

    def _send_file(self) -> int:
        chunk = self.chunks[0]
        assert not isinstance(chunk, bytes), "only called with a file slice at the head"
        left = chunk.length - self._sent
        sent = os.sendfile(self._socket.fileno(), chunk.fd, chunk.position + self._sent, left)
        if not sent:
            raise ConnectionAbortedError("the file ended before the bytes that were promised from it")
        if sent == left:
            self.chunks.popleft()
            self._sent = 0
        else:
            self._sent += sent
        return sent
