"""The way of bytes between a connection and its peer.

`Transport` is what connections and send queues need of a socket; TLS (`tidelog.network.tls`) offers the same calls.
Each of them raises BlockingIOError when it would have to wait, and OSError when the peer is gone.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from typing import Final, Protocol

_TCP_CORK: Final = getattr(socket, "TCP_CORK", 3)


class Transport(Protocol):
    """A non-blocking stream. Its first calls are attributes, so that a transport may offer a socket's own methods."""

    @property
    def recv_into(self) -> Callable[[bytearray | memoryview], int]:
        """Returns the count; 0 when the peer has ended the stream."""

    @property
    def send(self) -> Callable[[bytes | memoryview], int]: ...

    @property
    def sendmsg(self) -> Callable[[Iterable[bytes | memoryview], tuple[()], int], int]:
        """Takes buffers and flags as a socket does; returns how many bytes of them, taken together, were sent."""

    @property
    def holds_bytes(self) -> bool:
        """Whether bytes can be read that the system does not report, because they were received already."""

    @property
    def is_plain(self) -> bool:
        """Whether the peer gets what is written to the descriptor as it is."""

    def fileno(self) -> int: ...
    def sendfile(self, fd: int, position: int, count: int) -> int: ...
    def cork(self, is_corked: bool) -> None:
        """Hold back what does not fill a packet, until uncorked."""

    def close(self) -> None: ...


class PlainTransport:
    """The socket itself."""

    __slots__ = ("_socket", "recv_into", "send", "sendmsg")

    holds_bytes: Final = False
    is_plain: Final = True

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.recv_into: Callable[[bytearray | memoryview], int] = connected.recv_into
        self.send: Callable[[bytes | memoryview], int] = connected.send
        self.sendmsg: Callable[[Iterable[bytes | memoryview], tuple[()], int], int] = connected.sendmsg

    def fileno(self) -> int:
        return self._socket.fileno()

    def sendfile(self, fd: int, position: int, count: int) -> int:
        return os.sendfile(self._socket.fileno(), fd, position, count)

    def cork(self, is_corked: bool) -> None:
        self._socket.setsockopt(socket.IPPROTO_TCP, _TCP_CORK, is_corked)

    def close(self) -> None:
        self._socket.close()
