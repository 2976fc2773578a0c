"""Replies of many connections leave from a second thread: each client gets its own, whole and in order.

With and without the C module, from memory and from files, and with peers that read nothing or leave.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import struct
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from tidelog.network import _native
from tidelog.network import socket_server as socket_server_module
from tidelog.network.connection import Connection, Slot
from tidelog.network.limits import NetworkLimits
from tidelog.network.send_queue import Chunk
from tidelog.network.sender import BATCH_REPLIES_MIN, REPLY_BYTES_MAX, ReplySender
from tidelog.network.socket_server import SocketServer
from tidelog.storage._files import FileSlice, OpenFile

CLIENTS = 3 * BATCH_REPLIES_MIN


def reply_to(client: int, number: int, size: int) -> bytes:
    """A reply that names its request, so that one that reaches another client is noticed."""
    body = struct.pack(">iii", client, number, size) * (1 + size // 12)
    return struct.pack(">i", len(body)) + body


def request_of(client: int, number: int, size: int) -> bytes:
    return struct.pack(">iiii", 12, client, number, size)


class Served:
    """A server on the running loop, and clients of it."""

    def __init__(self) -> None:
        self.server = SocketServer(
            asyncio.get_running_loop(),
            NetworkLimits(send_buffer_bytes=16_384),
            cast(Any, self._dispatch),
            lambda: None,
            lambda: time.time_ns() // 1_000_000,
        )
        self.port = self.server.bind("PLAINTEXT", "127.0.0.1", 0).port
        self.server.start_accepting()

    def _dispatch(self, _connection: Connection, slot: Slot, data: bytearray, start: int, _stop: int) -> None:
        slot.fill(self.form(reply_to(*struct.unpack_from(">iii", data, start))))

    def form(self, reply: bytes) -> bytes | list[Chunk]:
        """The reply as the broker hands it over."""
        return reply

    def close(self) -> None:
        self.server.close()

    async def connect_all(self) -> list[socket.socket]:
        return [await self.connect() for _ in range(CLIENTS)]

    async def connect(self) -> socket.socket:
        client = socket.socket()
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", self.port))
        return client


async def receive(client: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        more = await asyncio.get_running_loop().sock_recv(client, size - len(received))
        assert more, "the connection is open"
        received += more
    return bytes(received)


class ServedFromFiles(Served):
    """Every other reply is, but for its ends, a slice of a file."""

    def __init__(self) -> None:
        super().__init__()
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed with the server
        self._is_next_in_memory = False
        self.shift_bytes = 0
        """How far behind their bytes the slices begin."""

    def form(self, reply: bytes) -> bytes | list[Chunk]:
        self._is_next_in_memory = not self._is_next_in_memory
        if self._is_next_in_memory:
            return reply
        position = self._file.seek(0, os.SEEK_END)
        self._file.write(reply[7:-3])
        file = OpenFile(os.dup(self._file.fileno()))
        return [reply[:7], FileSlice(file, position + self.shift_bytes, len(reply) - 10), reply[-3:]]

    def close(self) -> None:
        super().close()
        self._file.close()


def run(body: Callable[[Any], Awaitable[None]], kind: type[Served] = Served) -> None:
    async def main() -> None:
        served = kind()
        try:
            async with asyncio.timeout(60):
                await body(served)
        finally:
            served.close()

    asyncio.run(main())


@pytest.fixture(params=["from the thread", "from the event loop"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where replies are sent."""
    if request.param == "from the event loop":
        monkeypatch.setattr(socket_server_module, "new_sender", lambda _loop: None)
    elif _native.speedups is None:
        pytest.skip("the C module was not built")
    else:
        monkeypatch.setattr(socket_server_module, "new_sender", ReplySender)
    return str(request.param)


@pytest.mark.parametrize("kind", [Served, ServedFromFiles])
def test_each_client_gets_its_own_replies_whole_and_in_order(way: str, kind: type[Served]) -> None:
    chance = random.Random(way)

    async def body(served: Served) -> None:
        clients = await served.connect_all()
        for number in range(60):
            sizes = [chance.choice((0, 100, 20_000, REPLY_BYTES_MAX, 200_000)) for _ in clients]
            for index, client in enumerate(clients):
                client.send(request_of(index, number, sizes[index]))
            expected = [reply_to(index, number, size) for index, size in enumerate(sizes)]
            got = await asyncio.gather(
                *(receive(client, len(reply)) for client, reply in zip(clients, expected, strict=True))
            )
            assert got == expected
        for client in clients:
            client.close()

    run(body, kind)


def test_a_file_that_ends_too_early_closes_its_connection_and_no_other(way: str) -> None:
    async def body(served: ServedFromFiles) -> None:
        clients = await served.connect_all()
        served.shift_bytes = 1 << 30
        for index, client in enumerate(clients):
            client.send(request_of(index, 0, 1_000))
        served_whole = 0
        for index, client in enumerate(clients):
            reply = reply_to(index, 0, 1_000)
            first = await asyncio.get_running_loop().sock_recv(client, len(reply))
            if first:
                assert first + await receive(client, len(reply) - len(first)) == reply
                served_whole += 1
            client.close()
        assert served_whole == CLIENTS // 2

    run(body, ServedFromFiles)


@pytest.mark.parametrize("kind", [Served, ServedFromFiles])
def test_a_client_that_reads_nothing_for_a_while_misses_nothing_and_holds_up_no_other(
    way: str, kind: type[Served]
) -> None:
    async def body(served: Served) -> None:
        clients = await served.connect_all()
        slow = clients[0]
        for number in range(5):
            for index, client in enumerate(clients):
                client.send(request_of(index, number, REPLY_BYTES_MAX - 100))
            for index, client in list(enumerate(clients))[1:]:
                reply = reply_to(index, number, REPLY_BYTES_MAX - 100)
                assert await receive(client, len(reply)) == reply
        for number in range(5):
            reply = reply_to(0, number, REPLY_BYTES_MAX - 100)
            assert await receive(slow, len(reply)) == reply
        for client in clients:
            client.close()

    run(body, kind)


def test_replies_to_clients_that_left_reach_no_client_that_came_after(way: str) -> None:
    """The system gives the descriptor of a closed connection to the next one."""

    async def body(served: Served) -> None:
        clients = {number: await served.connect() for number in range(CLIENTS)}
        following = CLIENTS
        for number in range(40):
            for index, client in clients.items():
                client.send(request_of(index, number, 5_000))
            for index in list(clients)[:: 2 + number % 3]:
                clients.pop(index).close()
                clients[following] = await served.connect()
                following += 1
            for index, client in clients.items():
                client.send(request_of(index, -number, 10))
            for index, client in clients.items():
                await _until(client, index, reply_to(index, -number, 10))
        for client in clients.values():
            client.close()

    run(body)


async def _until(client: socket.socket, index: int, last: bytes) -> None:
    """Read replies up to `last`; every one of them is this client's."""
    while True:
        head = await receive(client, 4)
        body = await receive(client, struct.unpack(">i", head)[0])
        assert struct.unpack_from(">i", body)[0] == index
        if head + body == last:
            return


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
@pytest.mark.skipif(_native.speedups is None, reason="the C module was not built")
def test_the_thread_starts_with_many_replies_and_ends_with_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_server_module, "new_sender", ReplySender)
    threads: list[int] = []

    async def body(served: Served) -> None:
        clients = [await served.connect() for _ in range(CLIENTS)]
        threads.append(_threads())
        clients[0].send(request_of(0, 0, 0))
        await receive(clients[0], len(reply_to(0, 0, 0)))
        threads.append(_threads())
        for index, client in enumerate(clients):
            client.send(request_of(index, 1, 0))
        for index, client in enumerate(clients):
            await receive(client, len(reply_to(index, 1, 0)))
        threads.append(_threads())
        for client in clients:
            client.close()

    run(body)
    assert threads == [threads[0], threads[0], threads[0] + 1]
    assert _threads() <= threads[0]


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(_native.speedups is None, reason="the C module was not built")
def test_the_sender_refuses_what_it_cannot_send() -> None:
    assert _native.speedups is not None
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = _native.speedups.Sender(listening.fileno())
        for wrong in (([1], []), ((), ()), (["one"], [b""]), ([1], ["text"]), ([1], [(b"",)])):
            with pytest.raises(TypeError):
                thread.submit(*wrong)
        with pytest.raises(AttributeError):
            thread.submit([1], [[b"a slice has a descriptor", "text"]])
        thread.submit([listening.fileno()], [b"no connection"])
        with pytest.raises(RuntimeError, match="not collected"):
            thread.submit([], [])
        ((index, sent, error),) = thread.collect()
        assert (index, sent) == (0, 0)
        assert error, "the system's own error number"
        thread.close()
        with pytest.raises(RuntimeError, match="closed"):
            thread.submit([], [])
