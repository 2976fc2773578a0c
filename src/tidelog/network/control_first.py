"""Connections of the controller and of other brokers, which are not to wait behind clients.

The event loop reports readable connections in no order of importance, and a turn may have hundreds of them. So between
the reads of a turn these few are asked for, every `READS_MAX` reads, and what they sent is served and answered at once:
a LeaderAndIsr waits for so many reads at most, whatever the load. Without such connections nothing is asked.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Final, Protocol

READS_MAX: Final = 4
"""To ask costs half a microsecond; a read and what follows from it ten or more."""


class ControlConnection(Protocol):
    """What is used of a connection here."""

    fd: int

    @property
    def is_read(self) -> bool: ...

    def on_readable(self) -> None: ...


class ControlFirst:
    """The connections that go first. Owned by a `SocketServer`; their descriptors are the system's own."""

    __slots__ = ("_connections", "_end_turn", "_is_serving", "_poll", "_reads_left")

    def __init__(self, end_turn: Callable[[], None]) -> None:
        """`end_turn` writes what was staged and sends what was answered."""
        self._end_turn = end_turn
        self._connections: dict[int, ControlConnection] = {}
        self._poll = select.poll()
        self._reads_left = READS_MAX
        self._is_serving = False

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: ControlConnection) -> None:
        if connection.fd not in self._connections:
            self._connections[connection.fd] = connection
            self._poll.register(connection.fd, select.POLLIN)

    def discard(self, connection: ControlConnection) -> None:
        """A connection is about to be closed."""
        if self._connections.pop(connection.fd, None) is not None:
            self._poll.unregister(connection.fd)

    def before_read(self) -> None:
        """A client's connection is about to be read."""
        if self._is_serving:
            return
        self._reads_left -= 1
        if self._reads_left:
            return
        self._reads_left = READS_MAX
        ready = self._poll.poll(0)
        if not ready:
            return
        self._is_serving = True
        try:
            for descriptor, _ in ready:
                connection = self._connections.get(descriptor)
                if connection is not None and connection.is_read:
                    connection.on_readable()
            self._end_turn()
        finally:
            self._is_serving = False
