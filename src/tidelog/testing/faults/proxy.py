"""Stands between clients and a broker, and lets the faults of a plan happen.

The broker advertises the address of the proxy, so that clients come back to it. Requests of a connection keep their
order, by which replies are paired with them, as Kafka's protocol promises. What has no fault passes as it is.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, NamedTuple

from tidelog.testing.faults.plan import Fault, Faults, message_class
from tidelog.testing.faults.refusals import refusal
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.frames import encode_response, parse_request_header, response_body_offset
from tidelog.wire.messages.produce import ProduceRequest

_FRAME_BYTES_MAX: Final = 256 << 20
_START_SECONDS: Final = 10.0


class _Pending(NamedTuple):
    """A request whose reply is due: the broker's, or one that is there already."""

    api_key: int
    version: int
    correlation_id: int
    fault: Fault | None
    reply: bytes | None


class FaultProxy:
    """A thread with a port of 127.0.0.1 of its own. `forward_to` names the broker, which may be started later."""

    def __init__(self, faults: Faults) -> None:
        self.faults: Final = faults
        self._target = ("127.0.0.1", 0)
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="tidelog-faults", daemon=True)
        self._connections: set[asyncio.Task[None]] = set()
        self._stopped: asyncio.Event | None = None
        self._started = threading.Event()

    @property
    def address(self) -> tuple[str, int]:
        """Where clients connect to."""
        host, port = self._socket.getsockname()
        return host, port

    def forward_to(self, host: str, port: int) -> None:
        """The broker, from now on."""
        self._target = (host, port)

    def start(self) -> None:
        """Accept connections."""
        self.faults.call_when_cut(self._close_connections)
        self._thread.start()
        self._started.wait(_START_SECONDS)

    def stop(self) -> None:
        """Close everything."""
        self.faults.call_when_cut(lambda: None)
        if self._loop is not None and self._stopped is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        server = await asyncio.start_server(self._accept, sock=self._socket)
        self._started.set()
        await self._stopped.wait()
        server.close()
        for each in list(self._connections):
            each.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _close_connections(self) -> None:
        def close() -> None:
            for each in list(self._connections):
                each.cancel()
            closed.set()

        closed = threading.Event()
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(close)
            closed.wait(_START_SECONDS)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if not self.faults.is_cut:
                await self._connect(reader, writer)
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # An end of either side is an end of both.
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection(*self._target)
        link = _Link(self.faults, reader, writer, broker_reader, broker_writer)
        try:
            await _first_of(link.pass_requests(), link.pass_replies())
        finally:
            broker_writer.transport.abort()


class _Link:
    """One client's connection, and the one to the broker that was opened for it."""

    def __init__(
        self,
        faults: Faults,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        broker_reader: asyncio.StreamReader,
        broker_writer: asyncio.StreamWriter,
    ) -> None:
        self._faults = faults
        self._reader = reader
        self._writer = writer
        self._broker_reader = broker_reader
        self._broker_writer = broker_writer
        self._pending: deque[_Pending] = deque()
        self._arrived = asyncio.Event()

    async def pass_requests(self) -> None:
        while True:
            frame = await _read_frame(self._reader)
            header = parse_request_header(frame)
            fault = self._faults.take(header.api_key)
            reply = None
            if fault is not None:
                if fault.loses_request:
                    return
                await asyncio.sleep(fault.seconds)
                if fault.error_code is not None:
                    reply = _refused(frame, fault)
            if reply is None:
                await _send(self._broker_writer, frame)
            if header.api_key == ApiKey.PRODUCE and not _is_answered(frame):
                continue
            self._pending.append(_Pending(header.api_key, header.api_version, header.correlation_id, fault, reply))
            self._arrived.set()

    async def pass_replies(self) -> None:
        while True:
            while not self._pending:
                self._arrived.clear()
                await self._arrived.wait()
            pending = self._pending.popleft()
            if pending.reply is not None:
                self._writer.write(pending.reply)
                await self._writer.drain()
                continue
            frame = await _read_frame(self._broker_reader)
            if pending.fault is not None and pending.fault.loses_reply:
                return
            if pending.fault is not None and pending.fault.change is not None:
                frame = _changed(frame, pending, pending.fault.change)
            await _send(self._writer, frame)


async def _first_of(*works: Coroutine[Any, Any, None]) -> None:
    """Run until one ends, and then none."""
    tasks = [asyncio.ensure_future(each) for each in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in tasks:
            each.cancel()
        for each in tasks:
            with suppress(asyncio.CancelledError, OSError, EOFError):
                await each


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    length = int.from_bytes(await reader.readexactly(4), "big")
    if length > _FRAME_BYTES_MAX:
        raise OSError(f"a frame of {length} bytes")
    return await reader.readexactly(length)


async def _send(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(len(frame).to_bytes(4, "big") + frame)
    await writer.drain()


def _is_answered(frame: bytes) -> bool:
    """Whether a Produce request gets a response: not with acks=0."""
    header = parse_request_header(frame)
    request = ProduceRequest.decode(memoryview(frame)[header.body_offset :], header.api_version)
    return request.acks != 0


def _refused(frame: bytes, fault: Fault) -> bytes:
    header = parse_request_header(frame)
    assert fault.error_code is not None
    body = memoryview(frame)[header.body_offset :]
    response = refusal(fault.api_key, header.api_version, body, fault.error_code)
    return encode_response(
        header.api_key, header.api_version, header.correlation_id, response.encode(header.api_version)
    )


def _changed(frame: bytes, pending: _Pending, change: Callable[[Any], None]) -> bytes:
    api_key, version = ApiKey(pending.api_key), pending.version
    offset = response_body_offset(api_key, version, frame)
    response = message_class(api_key, "Response").decode(memoryview(frame)[offset:], version)
    change(response)
    whole = encode_response(api_key, version, pending.correlation_id, response.encode(version))
    return whole[4:]
