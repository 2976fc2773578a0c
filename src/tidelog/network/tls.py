"""TLS between a connection and its socket: `ssl.MemoryBIO` in both directions, no waiting, bounded memory.

`TlsTransport` offers the calls of a socket, so that order, limits and back-pressure of a connection are the same with
TLS and without. Two things differ from a socket, and are dealt with here:

- Reading. A TLS record is decrypted whole, so bytes may be left when the caller's buffer is full. The system does not
  know of them and reports nothing; `on_left` is called instead, and `holds_bytes` is true.
- Writing. Bytes that were encrypted and do not fit the socket must leave before anything else. They are not reported as
  sent: the caller offers the same bytes again when the socket has room, as with `SSL_write`, and those that were
  encrypted already are passed over.

Slices of files are read and encrypted in pieces, as `sendfile` cannot.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from tidelog.network.transport import Transport

PIECE_BYTES: Final = 64 << 10
"""What is encrypted at once: four records. A connection holds this much that its socket did not take."""

_COALESCED_BYTES_MAX: Final = 8 << 10
"""Chunks up to this size share a record with their neighbours."""

_HELD_OUTPUT_BYTES_MAX: Final = 256 << 10
"""Answers of TLS itself (to key updates) that a peer may leave unread."""


class TlsStream:
    """An `ssl.SSLObject`, its two buffers and the transport below: bytes are moved, nothing is decided."""

    __slots__ = ("_unsent", "below", "incoming", "object", "outgoing", "scratch")

    def __init__(self, context: ssl.SSLContext, below: Transport, scratch: bytearray) -> None:
        """`scratch` is shared: what was received passes through it."""
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.object = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.below = below
        self.scratch = scratch
        self._unsent = b""

    def receive(self) -> int:
        """Take what has arrived, encrypted; 0 at the end of the stream. Raises BlockingIOError and OSError."""
        received = self.below.recv_into(self.scratch)
        if received:
            with memoryview(self.scratch) as view:
                self.incoming.write(view[:received])
        return received

    def flush(self) -> bool:
        """Send what is encrypted; False if the socket did not take all of it. Raises OSError."""
        unsent = self._unsent + self.outgoing.read() if self._unsent else self.outgoing.read()
        while unsent:
            try:
                sent = self.below.send(unsent)
            except (BlockingIOError, InterruptedError):
                break
            unsent = unsent[sent:]
        self._unsent = unsent
        return not unsent

    @property
    def unsent_bytes(self) -> int:
        return len(self._unsent) + self.outgoing.pending

    def end(self) -> None:
        """Send the alert that ends a TLS stream, if the socket takes it, and close the socket."""
        with suppress(ssl.SSLError, ValueError):
            self.object.unwrap()
        with suppress(OSError):
            self.flush()
        self.below.close()


class TlsTransport:
    """A stream after its handshake."""

    __slots__ = ("_accepted", "_stream", "on_left")

    is_plain: Final = False

    def __init__(self, stream: TlsStream) -> None:
        self._stream = stream
        # Bytes that were encrypted and not reported as sent. They come first in what is offered next.
        self._accepted = 0
        self.on_left: Callable[[], object] | None = None
        """Called when decrypted bytes are left, after which no event of the system follows."""

    def fileno(self) -> int:
        return self._stream.below.fileno()

    @property
    def holds_bytes(self) -> bool:
        """Whether bytes can be read that the system does not report."""
        stream = self._stream
        return bool(stream.incoming.pending or stream.object.pending())

    def recv_into(self, buffer: bytearray | memoryview) -> int:
        stream = self._stream
        if not self.holds_bytes and not stream.receive():
            return 0
        with memoryview(buffer) as view:
            filled = self._decrypt(view)
        if stream.outgoing.pending:
            stream.flush()
            if stream.unsent_bytes > _HELD_OUTPUT_BYTES_MAX:
                raise ConnectionAbortedError("the peer asks for new keys and reads nothing")
        if filled == len(buffer) and self.on_left is not None and self.holds_bytes:
            self.on_left()
        return filled

    def _decrypt(self, view: memoryview) -> int:
        """Decrypt what has arrived; 0 at the end of the stream. Raises BlockingIOError if no record is complete."""
        stream = self._stream
        read: Any = stream.object.read  # with a buffer it returns a count
        incoming, size = stream.incoming, len(view)
        filled = 0
        while filled < size:
            try:
                filled += read(size - filled, view[filled:])
            except ssl.SSLWantReadError:
                if filled:
                    break
                if not stream.receive():
                    return 0
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                break
            except ssl.SSLError as error:
                raise ConnectionAbortedError(f"TLS: {error.reason}") from error
            else:
                if not incoming.pending and not stream.object.pending():
                    break
        return filled

    def send(self, data: bytes | memoryview) -> int:
        stream = self._stream
        if stream.unsent_bytes and not stream.flush():
            raise BlockingIOError
        size = len(data)
        sent = min(self._accepted, size)
        self._accepted -= sent
        with memoryview(data) as view:
            while sent < size:
                piece = min(size - sent, PIECE_BYTES)
                self._encrypt(view[sent : sent + piece])
                if not stream.flush():
                    self._accepted = piece
                    if not sent:
                        raise BlockingIOError
                    return sent
                sent += piece
        return sent

    def _encrypt(self, data: memoryview) -> None:
        try:
            written = self._stream.object.write(data)
        except ssl.SSLError as error:
            raise ConnectionAbortedError(f"TLS: {error.reason}") from error
        assert written == len(data), "a buffer in memory takes everything"

    def sendmsg(self, buffers: Iterable[bytes | memoryview], _ancillary: tuple[()] = (), _flags: int = 0) -> int:
        total = 0
        for piece in _coalesced(buffers):
            try:
                sent = self.send(piece)
            except BlockingIOError:
                if not total:
                    raise
                return total
            total += sent
            if sent < len(piece):
                break
        return total

    def sendfile(self, fd: int, position: int, count: int) -> int:
        data = os.pread(fd, min(count, PIECE_BYTES), position)
        return self.send(data) if data else 0

    def cork(self, is_corked: bool) -> None:
        """Records are filled before they are encrypted."""

    def close(self) -> None:
        self.on_left = None  # it refers to the connection, which refers to this transport
        self._stream.end()


def _coalesced(buffers: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """The same bytes in fewer buffers: small ones are joined."""
    small: list[bytes | memoryview] = []
    size = 0
    for buffer in buffers:
        if len(buffer) > _COALESCED_BYTES_MAX:
            if small:
                yield b"".join(small)
                small, size = [], 0
            yield buffer
            continue
        small.append(buffer)
        size += len(buffer)
        if size >= PIECE_BYTES - _COALESCED_BYTES_MAX:
            yield b"".join(small)
            small, size = [], 0
    if small:
        yield b"".join(small)
