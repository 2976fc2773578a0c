"""What a connection has still to send: bytes, and slices of files.

A `Connection` puts chunks in and calls `send` when the socket has room. Bytes and small slices that follow one another
leave in one call: reading a slice of up to 256 KiB into a buffer that is used again and again, and so stays in the
processor's cache, costs both sides of the socket less than `sendfile` with the calls it needs around it. A short reply
that finds the queue empty need not even be queued: `send_at_once` gathers it in that buffer. Larger slices
leave by `sendfile` and never pass through this process; a few bytes that follow one are corked, so that they leave with
the last of it instead of alone. So does what is left of a slice when the socket is full, so that a peer that is slow to
read has nothing held in memory for it, and its slices are not read again and again.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from tidelog.network.transport import Transport

SEND_BYTES_PER_TURN: Final = 4 << 20
"""What one connection may send before the others get their turn."""

_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
_CHUNKS_PER_CALL_MAX: Final = 512
_preadv: Final = os.preadv


class FileChunk(Protocol):
    """Bytes of a file that go to the socket without passing through this process."""

    @property
    def fd(self) -> int: ...
    @property
    def position(self) -> int: ...
    def __len__(self) -> int: ...


Chunk = bytes | FileChunk


class SendQueue:
    """Chunks in order, and how much of the first is sent. Small slices are read into `scratch`, which is shared."""

    __slots__ = ("_is_corked", "_scratch", "_sendmsg", "_sent", "_transport", "chunks")

    def __init__(self, transport: Transport, scratch: memoryview) -> None:
        self.chunks: deque[Chunk] = deque()
        """The connection adds to them, and sees whether there are any."""
        self._transport = transport
        self._sendmsg = transport.sendmsg
        self._scratch = scratch
        self._sent = 0
        self._is_corked = False

    def send_at_once(self, reply: Sequence[Chunk]) -> tuple[int, int]:
        """Send a short reply, while nothing is queued, with one call: its size, and how many bytes of it were sent.

        Both are 0 for one that does not fit the scratch buffer. Raises OSError as `send` of a socket does.
        """
        scratch = self._scratch
        size = 0
        for chunk in reply:
            start = size
            size += len(chunk)
            if size > len(scratch):
                return 0, 0
            if chunk.__class__ is bytes:
                scratch[start:size] = chunk
            elif _preadv(chunk.fd, (scratch[start:size],), chunk.position) != size - start:  # type: ignore[union-attr]
                raise _file_ended()
        return size, self._transport.send(scratch[:size])

    def put_rest(self, reply: Iterable[Chunk], sent: int) -> None:
        """Queue chunks whose first `sent` bytes have left already."""
        chunks = self.chunks
        chunks.extend(reply)
        while chunks and sent >= len(chunks[0]):
            sent -= len(chunks.popleft())
        self._sent = sent

    def clear(self) -> None:
        """Forget everything: the connection is closed."""
        self.chunks.clear()

    def send(self) -> None:
        """Send what the socket takes, within a turn's share. Raises OSError when the peer is gone."""
        chunks = self.chunks
        budget = SEND_BYTES_PER_TURN
        try:
            while chunks and budget > 0:
                run = self._next_run()
                sent = self._send_run(run) if run else self._send_file()
                if sent < 0:
                    break
                budget -= sent
        except (BlockingIOError, InterruptedError):
            pass
        if self._is_corked:
            self._cork(False)

    def _next_run(self) -> list[bytes | memoryview]:
        """What one call may send from the head of the queue; nothing when a slice is there that goes by itself."""
        run: list[bytes | memoryview] = []
        scratch = self._scratch
        used = 0
        for chunk in self.chunks:
            if isinstance(chunk, bytes):
                run.append(chunk)
            else:
                size = len(chunk)
                end = used + size
                if end > len(scratch) or (self._sent and not run):
                    break
                piece = scratch[used:end]
                if _preadv(chunk.fd, (piece,), chunk.position) != size:
                    raise _file_ended()
                run.append(piece)
                used = end
            if len(run) == _CHUNKS_PER_CALL_MAX:
                break
        return run

    def _send_run(self, run: list[bytes | memoryview]) -> int:
        """Send chunks that were gathered, in one call; returns the count, or -1 when the socket is full."""
        chunks = self.chunks
        if self._sent:
            run[0] = memoryview(run[0])[self._sent :]
        sent = self._sendmsg(run, (), _MSG_MORE if len(run) < len(chunks) else 0)
        self._sent += sent
        for _ in run:
            size = len(chunks[0])
            if self._sent < size:
                return -1
            self._sent -= size
            chunks.popleft()
        return sent

    def _send_file(self) -> int:
        chunk = self.chunks[0]
        assert not isinstance(chunk, bytes), "only called with a file slice at the head"
        if not self._is_corked and len(self.chunks) > 1:
            self._cork(True)
        left = len(chunk) - self._sent
        sent = self._transport.sendfile(chunk.fd, chunk.position + self._sent, left)
        if not sent:
            raise _file_ended()
        if sent == left:
            self.chunks.popleft()
            self._sent = 0
        else:
            self._sent += sent
        return sent

    def _cork(self, is_corked: bool) -> None:
        self._is_corked = is_corked
        self._transport.cork(is_corked)


def _file_ended() -> ConnectionAbortedError:
    return ConnectionAbortedError("the file ended before the bytes that were promised from it")
