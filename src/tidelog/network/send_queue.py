"""What a connection has still to send: bytes, and slices of files.

A `Connection` puts chunks in and calls `send` when the socket has room. Bytes and short slices that follow one another
leave in one call: the slices are read into a buffer that is used again and again. A short reply that finds the queue
empty need not even be queued: `send_at_once` gathers it in that buffer. Unless it is very short, its first bytes leave
before the others are read: the peer wakes up meanwhile.

Longer slices leave by `sendfile`, and only whole pages of them: the system sends 16 pages with each of its steps, which
fill a segment of 64 KiB if the first of them is whole. What lies before the first page border is read and leaves with
the bytes before the slice, at once: the peer wakes up while the pages are sent. What lies behind the last is corked and
leaves with those that follow. What is left of a slice when the socket is full goes by `sendfile`, too: a peer that is
slow to read has nothing held in memory for it, and its slices are not read again and again.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from tidelog.network.transport import Transport

SEND_BYTES_PER_TURN: Final = 4 << 20
"""What one connection may send before the others get their turn."""

COPIED_BYTES_MAX: Final = 256 << 10
"""Slices up to this size are read and sent with what is around them, by one call or two; `sendfile` needs more.

For 64 KiB the two copies take three quarters of the processor time that those calls take, for 128 KiB half of it, for
256 KiB a little less. A transport that is not plain copies in any case: all that fits the buffer is read for it.
"""

_FIRST_BYTES: Final = 16 << 10
"""What leaves by itself of a reply that is more than twice as long. A fetch of 64 KiB takes a tenth less time."""

_CHUNKS_PER_CALL_MAX: Final = 512
_PAGE_BYTES: Final = mmap.PAGESIZE
_preadv: Final = os.preadv


class FileChunk(Protocol):
    """Bytes of a file that go to the socket without passing through this process."""

    @property
    def fd(self) -> int: ...
    @property
    def position(self) -> int: ...
    def __len__(self) -> int: ...


Chunk = bytes | FileChunk
Reply = bytes | list[Chunk]


class SendQueue:
    """Chunks in order, and how much of the first is sent. Short slices are read into `scratch`, which is shared."""

    __slots__ = ("_copied_max", "_is_corked", "_scratch", "_sendmsg", "_sent", "_transport", "_whole_max", "chunks")

    def __init__(self, transport: Transport, scratch: memoryview) -> None:
        self.chunks: deque[Chunk] = deque()
        """The connection adds to them, and sees whether there are any."""
        self._transport = transport
        self._sendmsg = transport.sendmsg
        self._scratch = scratch
        self._copied_max = min(COPIED_BYTES_MAX, len(scratch)) if transport.is_plain else len(scratch)
        self._whole_max = min(2 * _FIRST_BYTES, self._copied_max) if transport.is_plain else self._copied_max
        self._sent = 0
        self._is_corked = False

    def send_at_once(self, reply: Sequence[Chunk]) -> tuple[int, int]:
        """Send a short reply, while nothing is queued: its size, and how many bytes of it were sent.

        Both are 0 for one that is not short. Raises OSError as `send` of a socket does.
        """
        scratch = self._scratch
        size = 0
        for chunk in reply:
            start = size
            size += len(chunk)
            if size > self._whole_max:
                return self._send_in_two(reply)
            if chunk.__class__ is bytes:
                scratch[start:size] = chunk
            elif _preadv(chunk.fd, (scratch[start:size],), chunk.position) != size - start:  # type: ignore[union-attr]
                raise _file_ended()
        return size, self._transport.send(scratch[:size])

    def _send_in_two(self, reply: Sequence[Chunk]) -> tuple[int, int]:
        """Send the first bytes, then the rest."""
        size = sum(map(len, reply))
        if size > self._copied_max:
            return 0, 0
        send, scratch = self._transport.send, self._scratch
        self._gather(reply, 0, _FIRST_BYTES)
        sent = send(scratch[:_FIRST_BYTES])
        if sent < _FIRST_BYTES:
            return size, sent
        self._gather(reply, _FIRST_BYTES, size)
        try:
            return size, sent + send(scratch[_FIRST_BYTES:size])
        except (BlockingIOError, InterruptedError):
            return size, sent

    def _gather(self, reply: Sequence[Chunk], start: int, stop: int) -> None:
        """Have the bytes of a reply from `start` to `stop` at the same place of the buffer."""
        at = 0
        for chunk in reply:
            first, last = max(start, at), min(stop, at + len(chunk))
            if first < last:
                if isinstance(chunk, bytes):
                    self._scratch[first:last] = chunk[first - at : last - at]
                else:
                    self._read(chunk.fd, chunk.position + first - at, first, last - first)
            at += len(chunk)

    def put_rest(self, reply: Iterable[Chunk], sent: int) -> None:
        """Queue chunks whose first `sent` bytes have left already."""
        self.chunks.extend(reply)
        self._drop(sent)

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
        used = 0
        sent = self._sent
        for chunk in self.chunks:
            if len(run) == _CHUNKS_PER_CALL_MAX:
                break
            if isinstance(chunk, bytes):
                run.append(memoryview(chunk)[sent:] if sent else chunk)
            else:
                left = len(chunk) - sent
                copied = self._copied_bytes(chunk.position + sent, left, used, bool(sent))
                if copied:
                    run.append(self._read(chunk.fd, chunk.position + sent, used, copied))
                    used += copied
                if copied < left:
                    break
            sent = 0
        return run

    def _copied_bytes(self, position: int, left: int, used: int, is_begun: bool) -> int:
        """How many bytes of a slice are read: all of a short one, else those before the first whole page."""
        if left <= (min(_PAGE_BYTES, self._copied_max) if is_begun else self._copied_max - used):
            return left
        before_page = -position % _PAGE_BYTES
        return before_page if used + before_page <= self._copied_max else 0

    def _read(self, fd: int, position: int, used: int, count: int) -> memoryview:
        piece = self._scratch[used : used + count]
        if _preadv(fd, (piece,), position) != count:
            raise _file_ended()
        return piece

    def _send_run(self, run: list[bytes | memoryview]) -> int:
        """Send chunks that were gathered, in one call; returns the count, or -1 when the socket is full."""
        sent = self._sendmsg(run, (), 0)
        self._drop(sent)
        return sent if sent == sum(map(len, run)) else -1

    def _drop(self, sent: int) -> None:
        """Forget what has left."""
        chunks = self.chunks
        sent += self._sent
        while chunks and sent >= len(chunks[0]):
            sent -= len(chunks.popleft())
        self._sent = sent

    def _send_file(self) -> int:
        chunk = self.chunks[0]
        assert not isinstance(chunk, bytes), "only called with a file slice at the head"
        position = chunk.position + self._sent
        count = len(chunk) - self._sent
        if len(self.chunks) > 1:
            if not self._is_corked:
                self._cork(True)
            # The rest, less than a page, leaves with the bytes that follow.
            count -= (position + count) % _PAGE_BYTES if count > _PAGE_BYTES else 0
        sent = self._transport.sendfile(chunk.fd, position, count)
        if not sent:
            raise _file_ended()
        self._drop(sent)
        return sent

    def _cork(self, is_corked: bool) -> None:
        self._is_corked = is_corked
        self._transport.cork(is_corked)


def _file_ended() -> ConnectionAbortedError:
    return ConnectionAbortedError("the file ended before the bytes that were promised from it")
