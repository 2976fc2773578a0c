"""How much of the handshakes one turn of the loop does."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, cast

import pytest

from tidelog.network import handshakes
from tidelog.network.handshakes import Handshakes, ListenerTls
from tidelog.security.principal_mapping import PrincipalMapping

PEERS = 50


class Loop:
    """Calls back by hand."""

    def __init__(self) -> None:
        self.readers: dict[int, Callable[[], None]] = {}
        self.soon: list[Callable[[], None]] = []

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        self.readers[fd] = callback

    def remove_reader(self, fd: int) -> None:
        self.readers.pop(fd, None)

    def remove_writer(self, fd: int) -> None:
        return

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, _seconds: float, _callback: Callable[[], None]) -> Any:
        class Timer:
            def cancel(self) -> None:
                return

        return Timer()

    def turn(self) -> None:
        due, self.soon = self.soon, []
        for callback in due:
            callback()


class Peer:
    """A transport whose peer has left."""

    reads = 0

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def recv_into(self, _buffer: object) -> int:
        Peer.reads += 1
        return 0


def test_peers_that_leave_at_once_are_closed_a_few_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """To read, close and log for each of them would take a turn of many milliseconds."""
    monkeypatch.setattr(handshakes, "STEPS_SECONDS_PER_TURN", 0.0)
    monkeypatch.setattr(Peer, "reads", 0)
    loop = Loop()
    running = Handshakes(cast(Any, loop))
    tls = ListenerTls(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), PrincipalMapping())
    closed: list[object] = []
    for fd in range(PEERS):
        running.begin(tls, cast(Any, Peer(fd)), "10.0.0.1", lambda *_: None, closed.append)
    for callback in list(loop.readers.values()):
        callback()
    assert (Peer.reads, closed) == (0, [])
    for turn in range(1, PEERS + 1):
        loop.turn()
        assert Peer.reads == len(closed) == turn
    assert not len(running)
    assert not loop.soon
