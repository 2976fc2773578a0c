"""Where connections come from: a listening address that hands over a `Transport` for each client.

`SocketServer` is given a function that opens listeners: `listen_tcp`, or that of a simulated network.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, TypeAlias

from tidelog.network.limits import NetworkLimits
from tidelog.network.transport import PlainTransport, Transport
from tidelog.security.addresses import canonical_address

_TCP_CONGESTION: Final = getattr(socket, "TCP_CONGESTION", None)
_UNPACED: Final = b"reno"
"""A congestion control that every Linux has, and that any process may choose."""


class Listener(Protocol):
    """An address that clients connect to."""

    @property
    def port(self) -> int: ...

    def fileno(self) -> int:
        """What the event loop watches: it is readable while a client waits."""

    def accept(self, limits: NetworkLimits) -> tuple[Transport, str]:
        """The next client's transport and host. Raises BlockingIOError if none waits, OSError if it cannot be had."""

    def close(self) -> None: ...


Listen: TypeAlias = Callable[[str, int, NetworkLimits], Listener]
"""`(host, port, limits) -> listener`; raises OSError when the address cannot be had."""


class TcpListener:
    """A listening TCP socket."""

    __slots__ = ("_socket",)

    def __init__(self, listening: socket.socket) -> None:
        self._socket = listening

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self, limits: NetworkLimits) -> tuple[Transport, str]:
        client, address = self._socket.accept()
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if limits.send_buffer_bytes > 0:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
        if client.getsockname()[0] == address[0]:
            _do_not_pace(client)
        return PlainTransport(client), canonical_address(str(address[0]))

    def close(self) -> None:
        self._socket.close()


def _do_not_pace(client: socket.socket) -> None:
    """Let a client on this machine have its replies at the speed of memory.

    BBR, where it is the system's congestion control, estimates the bandwidth of a path and spreads the segments of a
    reply over time to match it, by timers: that doubles the processor time of a fetch of 1 MB. Between two processes of
    one machine there is no network to spare.
    """
    if _TCP_CONGESTION is not None:
        with suppress(OSError):  # not offered here: the system's own is as good
            client.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, _UNPACED)


def listen_tcp(host: str, port: int, limits: NetworkLimits) -> Listener:
    """Listen on a TCP address; an empty host is every address of the machine."""
    is_dual = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if is_dual or ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if limits.receive_buffer_bytes > 0:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
        listening.bind((host, port))
        listening.listen(max(limits.listen_backlog, 1))
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return TcpListener(listening)
