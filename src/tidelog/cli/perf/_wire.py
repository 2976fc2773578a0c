"""A raw socket that sends prebuilt frames and reads replies into one buffer. The perf verbs are the callers."""

import socket
from struct import Struct
from typing import Final

from tidelog.cli.errors import CommandError
from tidelog.client.aio.reactions import error_code_of
from tidelog.client.errors import ApiError
from tidelog.client.types import BrokerNode

_unpack_length: Final = Struct(">i").unpack_from
_unpack_error: Final = Struct(">h").unpack_from
_INITIAL_BYTES: Final = 1024 * 1024


class RawSocket:
    """One connection. `receive` returns a view that holds until the next call."""

    def __init__(self, node: BrokerNode, timeout_s: float) -> None:
        self._socket = socket.create_connection((node.host, node.port), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(_INITIAL_BYTES)
        self._start = 0
        self._stop = 0
        self.send = self._socket.sendall

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def receive(self) -> memoryview:
        """The next reply, without its length."""
        self._fill(4)
        (length,) = _unpack_length(self._buffer, self._start)
        self._fill(4 + length)
        start = self._start + 4
        self._start = start + length
        return memoryview(self._buffer)[start : start + length]

    def _fill(self, count: int) -> None:
        """Have `count` bytes in the buffer from the current start on, reading as much as comes in one go."""
        if self._start == self._stop:
            self._start = self._stop = 0
        if self._start + count > len(self._buffer):
            # A view of the last reply may still be held, so the buffer is replaced rather than resized.
            rest = self._buffer[self._start : self._stop]
            self._buffer = bytearray(max(len(self._buffer), 2 * count))
            self._buffer[: len(rest)] = rest
            self._start, self._stop = 0, len(rest)
        view = memoryview(self._buffer)
        while self._stop - self._start < count:
            received = self._socket.recv_into(view[self._stop :])
            if not received:
                raise CommandError("the broker closed the connection; see the broker's log")
            self._stop += received


def check_error(reply: memoryview, position: int, what: str) -> None:
    """Fail unless the error code at `position` says NONE."""
    (error_code,) = _unpack_error(reply, position)
    if error_code:
        code = error_code_of(error_code)
        raise ApiError(code, f"{what} failed: {code.text}")
