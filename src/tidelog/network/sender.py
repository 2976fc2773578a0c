"""Sends the replies of many connections from a second thread, while the event loop serves the next requests.

A `send` on a socket costs several microseconds of the kernel's time, a third of what a small request costs in all; to
read the records that a fetch has found costs two. A turn that has replies for many connections hands them over in one
batch. The thread (`_speedups.Sender`) reads slices of files, gathers and sends; it never holds the interpreter's lock.
A turn with few replies sends them itself: to wake the thread would cost more.

Order: the loop collects a batch before it sends anything else, so the replies of a connection leave in their order.
Descriptors: a connection collects the batch before it closes its socket, so no reply reaches another client.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from tidelog.network._native import speedups
from tidelog.network.send_queue import Reply

BATCH_REPLIES_MIN: Final = 8
"""Fewer replies are sent by the event loop itself."""

_NOTIFICATIONS_BYTES: Final = 4096
_PROCESSORS_MIN: Final = 2

REPLY_BYTES_MAX: Final = 64 << 10
"""Longer replies are sent by the event loop, which knows how to go on when a socket has no room."""


class Recipient(Protocol):
    """A connection, as the thread's work comes back to it."""

    def on_incomplete_send(self, reply: Reply, sent: int, error: int) -> None:
        """A reply has not left whole: go on with the rest when there is room, or close."""


class ReplySender:
    """At most one batch at a time is under way. Every call is made on the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread: Any = None
        self._woken: socket.socket | None = None
        self._waking: socket.socket | None = None
        self._connections: Sequence[Recipient] = ()
        self._replies: list[Reply] = []

    def submit(self, connections: Sequence[Recipient], descriptors: list[int], replies: list[Reply]) -> None:
        """Send a reply on each connection; the batch before was collected."""
        if self._thread is None:
            self._start()
        self._connections, self._replies = connections, replies
        self._thread.submit(descriptors, replies)

    def _start(self) -> None:
        """Only now: most brokers of tests never have as many clients."""
        assert speedups is not None, "made by `new_sender` alone"
        self._woken, self._waking = socket.socketpair()
        self._woken.setblocking(False)
        self._waking.setblocking(False)
        self._thread = speedups.Sender(self._waking.fileno())
        self._loop.add_reader(self._woken.fileno(), self._on_incomplete, self._woken)

    def collect(self) -> None:
        """Wait until the batch is sent. A connection whose socket had no room goes on when it has."""
        connections = self._connections
        if connections:
            replies = self._replies
            self._connections, self._replies = (), []
            for index, sent, error in self._thread.collect():
                connections[index].on_incomplete_send(replies[index], sent, error)

    def _on_incomplete(self, woken: socket.socket) -> None:
        """Not every reply of a batch has left: look now, because the next turn may be far away."""
        with suppress(BlockingIOError):
            woken.recv(_NOTIFICATIONS_BYTES)
        self.collect()

    def close(self) -> None:
        """Send what was handed over, and end the thread."""
        self.collect()
        if self._woken is not None and self._waking is not None:
            self._thread.close()
            self._loop.remove_reader(self._woken.fileno())
            self._woken.close()
            self._waking.close()
            self._thread = self._woken = self._waking = None


def new_sender(loop: asyncio.AbstractEventLoop) -> ReplySender | None:
    """None where the C module was not built, or there is no second processor for the thread."""
    if speedups is None or _processors() < _PROCESSORS_MIN:
        return None
    return ReplySender(loop)


def _processors() -> int:
    """Those that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
