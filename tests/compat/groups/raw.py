"""Group requests frame by frame, and replies in a form that can be compared between brokers."""

from __future__ import annotations

import socket
import struct
from typing import Any

from tidelog.wire.frames import encode_request, response_body_offset
from tidelog.wire.schema import Message, Struct

DEADLINE_S = 30.0


class Wire:
    """One connection that sends exactly the given requests."""

    def __init__(self, host: str, port: int, client_id: str = "raw") -> None:
        self._socket = socket.create_connection((host, port), timeout=DEADLINE_S)
        self._client_id = client_id
        self._correlation_id = 0
        self._expected: list[tuple[type[Message], int]] = []

    def post(self, request: Message, version: int) -> None:
        """Send without waiting."""
        from tidelog.wire import messages

        self._correlation_id += 1
        body = request.encode(version)
        self._socket.sendall(encode_request(request.api_key, version, self._correlation_id, self._client_id, body))
        reply_class = getattr(messages, type(request).__name__.replace("Request", "Response"))
        self._expected.append((reply_class, version))

    def take(self) -> Any:
        """The next reply."""
        reply_class, version = self._expected.pop(0)
        (size,) = struct.unpack(">i", self._receive(4))
        data = self._receive(size)
        return reply_class.decode(data, version, response_body_offset(reply_class.api_key, version, data))

    def ask(self, request: Message, version: int) -> Any:
        self.post(request, version)
        return self.take()

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            assert part, "the broker closed the connection"
            data += part
        return data

    def close(self) -> None:
        self._socket.close()


class Transcript:
    """What was answered, with everything replaced that differs from run to run."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[str, str] = {}

    def call(self, member_id: str, name: str) -> None:
        """Name a member; others are numbered as they appear, which does for those that appear alone."""
        self._names[member_id] = name

    def note(self, what: str, reply: Any) -> Any:
        """Write down a reply and return it."""
        self.lines.append(f"{what}: {self._plain(reply)}")
        return reply

    def _plain(self, value: Any, field: str = "") -> str:
        if isinstance(value, Struct | Message):
            parts = (
                f"{name}={self._plain(getattr(value, name), name)}"
                for name in getattr(type(value), "__slots__", ())
                if name != "unknown_tagged_fields"
            )
            return f"{type(value).__name__}({', '.join(parts)})"
        if isinstance(value, list):
            return f"[{', '.join(sorted(self._plain(item) for item in value))}]"
        if field in ("member_id", "leader") and value:
            return self._names.setdefault(value, f"member-{len(self._names) + 1}")
        if field in ("node_id", "port") and value >= 0:
            return "some"
        if field in ("throttle_time_ms", "error_message", "topic_id"):
            return "any"
        return repr(int(value) if isinstance(value, int) and not isinstance(value, bool) else value)
