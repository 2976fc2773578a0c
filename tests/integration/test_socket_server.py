"""Connections over real sockets with a dispatcher of the test's own: order, limits, and who pays for a slow peer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from tidelog.network.connection import SLOTS_MAX, Connection, Slot
from tidelog.network.control_first import READS_MAX
from tidelog.network.limits import NetworkLimits
from tidelog.network.socket_server import SocketServer
from tidelog.storage._files import FileSlice, OpenFile


class Peer:
    """The server under test and what its dispatcher was given."""

    def __init__(self, limits: NetworkLimits, answer: Callable[[Slot, bytes], None]) -> None:
        self.requests: list[bytes] = []
        self.slots: list[Slot] = []
        self._answer = answer
        self.server = SocketServer(
            asyncio.get_running_loop(),
            limits,
            cast(Any, self._dispatch),
            lambda: None,
            lambda: time.time_ns() // 1_000_000,
        )
        self.port = self.server.bind("PLAINTEXT", "127.0.0.1", 0).port
        self.server.start_accepting()

    def _dispatch(self, connection: Connection, slot: Slot, data: bytearray, start: int, stop: int) -> None:
        request = bytes(data[start:stop])
        self.requests.append(request)
        self.slots.append(slot)
        self._answer(slot, request)

    def connect(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port))
        client.setblocking(False)
        return client


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def echo(slot: Slot, request: bytes) -> None:
    slot.fill(frame(request))


def run(
    body: Callable[[Peer], Awaitable[None]],
    limits: NetworkLimits | None = None,
    answer: Callable[[Slot, bytes], None] = echo,
) -> None:
    async def main() -> None:
        peer = Peer(limits or NetworkLimits(), answer)
        try:
            async with asyncio.timeout(30):
                await body(peer)
        finally:
            peer.server.close()

    asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.002)


async def receive(client: socket.socket, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < size:
        chunk = await loop.sock_recv(client, size - len(data))
        if not chunk:
            break
        data += chunk
    return data


async def send(client: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(client, data)


def test_replies_leave_in_request_order_whatever_order_they_are_given_in() -> None:
    async def body(peer: Peer) -> None:
        with peer.connect() as client:
            await send(client, frame(b"a") + frame(b"b") + frame(b"c"))
            await until(lambda: len(peer.slots) == 3)
            for index in (2, 0, 1):
                peer.slots[index].fill(frame(peer.requests[index]))
                await asyncio.sleep(0)
            assert await receive(client, 15) == frame(b"a") + frame(b"b") + frame(b"c")

    run(body, answer=lambda slot, request: None)


def test_a_connection_that_goes_first_is_served_and_answered_amid_a_turn_of_many_others() -> None:
    """Forty clients have a request there in one turn; the controller's is served after a few of them."""
    order: list[bytes] = []
    answered: list[int] = []

    async def body(peer: Peer) -> None:
        peer.server.start_polling()
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(peer.connect()) for _ in range(40)]
            control = stack.enter_context(peer.connect())
            for client in (*clients, control):
                await send(client, frame(b"hello"))
                assert await receive(client, 9) == frame(b"hello")
            peer.server.serve_first(peer.slots[-1].connection)
            order.clear()

            def look(slot: Slot, request: bytes) -> None:
                order.append(request)
                with contextlib.suppress(BlockingIOError):
                    if control.recv(100, socket.MSG_PEEK):
                        answered.append(len(order))
                echo(slot, request)

            peer._answer = look
            for client in clients:
                client.send(frame(b"data"))
            control.send(frame(b"control"))
            for client in clients:
                assert await receive(client, 8) == frame(b"data")
            assert await receive(control, 11) == frame(b"control")
            assert peer.server.control_first is not None
            control.close()
            await until(lambda: peer.server.control_first is None)

    run(body)
    assert order.index(b"control") <= READS_MAX
    assert min(answered) <= READS_MAX + 2


def test_a_frame_may_arrive_byte_by_byte() -> None:
    async def body(peer: Peer) -> None:
        with peer.connect() as client:
            for byte in frame(b"patience"):
                await send(client, bytes((byte,)))
                await asyncio.sleep(0)
            assert await receive(client, 12) == frame(b"patience")

    run(body)


def test_a_large_frame_arrives_whole() -> None:
    payload = os.urandom(3 << 20)

    async def body(peer: Peer) -> None:
        with peer.connect() as client:
            sending = asyncio.create_task(send(client, frame(payload)))
            assert await receive(client, len(payload) + 4) == frame(payload)
            await sending

    run(body)


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 1001])
def test_a_frame_beyond_the_limit_closes_its_connection_and_no_other(size: int) -> None:
    async def body(peer: Peer) -> None:
        with peer.connect() as good, peer.connect() as bad:
            await send(bad, struct.pack(">i", size) + b"xxxx")
            assert await receive(bad, 1) == b""
            await send(good, frame(b"still here"))
            assert await receive(good, 14) == frame(b"still here")

    run(body, NetworkLimits(request_bytes_max=1000))


def test_announcing_a_huge_frame_allocates_nothing() -> None:
    """Three hundred connections announce 90 MB each and send six bytes: the server holds six bytes for each."""

    async def body(peer: Peer) -> None:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(peer.connect()) for _ in range(300)]
            for client in clients:
                await send(client, struct.pack(">i", 90_000_000) + b"ab")
            await until(lambda: sum(c.buffered_bytes for c in peer.server.connections.values()) == 300 * 6)
            with peer.connect() as other:
                await send(other, frame(b"hello"))
                assert await receive(other, 9) == frame(b"hello")

    run(body, NetworkLimits(listen_backlog=512))


def test_a_buffer_grows_with_what_has_arrived() -> None:
    async def body(peer: Peer) -> None:
        with peer.connect() as client:
            await send(client, struct.pack(">i", 90_000_000))
            for _ in range(20):
                await send(client, bytes(5000))
                await asyncio.sleep(0.002)
            (connection,) = peer.server.connections.values()
            assert connection.buffered_bytes <= 4 * 100_004 + (64 << 10)

    run(body)


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    """Its replies stay bounded: after the socket is full nothing more of it is handled, and others are served."""
    reply = bytes(1 << 20)

    async def body(peer: Peer) -> None:
        with peer.connect() as lazy, peer.connect() as other:
            with contextlib.suppress(BlockingIOError):
                for _ in range(5000):
                    lazy.send(frame(b"more"))
            await until(lambda: len(peer.requests) >= 1)
            for _ in range(200):
                await asyncio.sleep(0)
            handled = len(peer.requests)
            assert handled <= SLOTS_MAX * 2
            await send(other, frame(b"me"))
            assert len(await receive(other, 1 << 20)) == 1 << 20
            assert len(peer.requests) == handled + 1

    run(body, answer=lambda slot, request: slot.fill(reply))


def test_a_lazy_client_that_reads_again_gets_everything_in_order() -> None:
    async def body(peer: Peer) -> None:
        with peer.connect() as client:
            payloads = [struct.pack(">i", number) * 4096 for number in range(400)]
            sending = asyncio.create_task(send(client, b"".join(map(frame, payloads))))
            expected = b"".join(map(frame, payloads))
            assert await receive(client, len(expected)) == expected
            await sending

    run(body)


def test_file_slices_are_sent_between_bytes() -> None:
    async def body(peer: Peer) -> None:
        with peer.connect() as client:
            await send(client, frame(b"file please"))
            assert await receive(client, 10 + 200_000 + 4) == b"head......" + content[1000:201_000] + b"tail"

    with tempfile.TemporaryFile() as file:
        content = os.urandom(300_000)
        file.write(content)
        file.flush()
        opened = OpenFile(os.dup(file.fileno()))
        run(
            body,
            answer=lambda slot, request: slot.fill([b"head......", FileSlice(opened, 1000, 200_000), b"tail"]),
        )


def test_at_the_connection_limit_newcomers_wait_until_a_connection_closes() -> None:
    async def body(peer: Peer) -> None:
        first = peer.connect()
        await until(lambda: len(peer.server.connections) == 1)
        with peer.connect() as second:
            await send(second, frame(b"waiting"))
            for _ in range(20):
                await asyncio.sleep(0.002)
            assert not peer.requests
            first.close()
            assert await receive(second, 11) == frame(b"waiting")

    run(body, NetworkLimits(connections_max=1))


def test_an_address_beyond_its_limit_is_closed_at_once() -> None:
    async def body(peer: Peer) -> None:
        with peer.connect() as first, peer.connect() as second:
            assert await receive(second, 1) == b""
            await send(first, frame(b"fine"))
            assert await receive(first, 8) == frame(b"fine")

    run(body, NetworkLimits(connections_per_ip_overrides={"127.0.0.1": 1}))


def test_a_full_request_channel_stops_reading_until_there_is_room() -> None:
    async def body(peer: Peer) -> None:
        with peer.connect() as one, peer.connect() as two:
            await send(one, frame(b"1") + frame(b"2"))
            await until(lambda: len(peer.slots) == 2)
            await send(two, frame(b"3"))
            for _ in range(20):
                await asyncio.sleep(0.002)
            assert len(peer.slots) == 2
            peer.slots[0].fill(frame(b"1"))
            await until(lambda: len(peer.slots) == 3)
            peer.slots[1].fill(frame(b"2"))
            peer.slots[2].fill(frame(b"3"))
            assert await receive(two, 5) == frame(b"3")
            assert peer.server.channel.queued_requests == 0
            assert peer.server.channel.queued_bytes == 0

    run(body, NetworkLimits(queued_requests_max=2), answer=lambda slot, request: None)


def test_requests_in_purgatory_do_not_count_as_queued() -> None:
    async def body(peer: Peer) -> None:
        with peer.connect() as client:
            await send(client, b"".join(frame(b"wait") for _ in range(10)))
            await until(lambda: len(peer.slots) == 10)
            for slot in peer.slots:
                slot.fill(frame(b"done"))
            assert len(await receive(client, 80)) == 80
            assert peer.server.channel.queued_requests == 0

    run(body, NetworkLimits(queued_requests_max=1), answer=lambda slot, request: slot.park())


def test_the_listener_of_the_controller_is_read_although_clients_have_filled_their_queue() -> None:
    async def body(peer: Peer) -> None:
        control_port = peer.server.bind("CONTROL", "127.0.0.1", 0).port
        peer.server.start_accepting()
        with peer.connect() as client, peer.connect() as other:
            await send(client, frame(b"one"))
            await until(lambda: peer.requests == [b"one"])
            await send(other, frame(b"two"))
            with socket.create_connection(("127.0.0.1", control_port)) as controller:
                controller.setblocking(False)
                await send(controller, frame(b"elect"))
                await until(lambda: peer.requests == [b"one", b"elect"])
                peer.slots[1].fill(frame(b"elected"))
                assert await receive(controller, 11) == frame(b"elected")
            assert peer.requests == [b"one", b"elect"], "the other client waits for room"
            peer.slots[0].fill(frame(b"one"))
            await until(lambda: peer.requests[2:] == [b"two"])
            assert peer.server.control_channel.queued_requests == 0

    run(body, NetworkLimits(queued_requests_max=1, control_listener="CONTROL"), answer=lambda slot, request: None)


def test_a_closed_connection_gives_back_what_it_held() -> None:
    async def body(peer: Peer) -> None:
        client = peer.connect()
        await send(client, frame(b"x") * 5)
        await until(lambda: len(peer.slots) == 5)
        client.close()
        await until(lambda: not peer.server.connections)
        assert peer.server.channel.queued_requests == 0
        assert peer.server.quotas.total == 0
        peer.slots[0].fill(frame(b"too late"))
        await asyncio.sleep(0)

    run(body, answer=lambda slot, request: None)


def test_silent_connections_are_closed_after_the_configured_time_and_waiting_ones_are_not() -> None:
    async def body(peer: Peer) -> None:
        with peer.connect() as idle, peer.connect() as waiting:
            await send(waiting, frame(b"hold"))
            await until(lambda: len(peer.slots) == 1 and len(peer.server.connections) == 2)
            now_ms = time.time_ns() // 1_000_000
            assert peer.server.close_idle(now_ms) == 0
            assert peer.server.close_idle(now_ms + 60_000) == 1
            assert await receive(idle, 1) == b""
            peer.slots[0].fill(frame(b"hold"))
            assert await receive(waiting, 8) == frame(b"hold")

    run(body, NetworkLimits(connections_idle_ms_max=30_000), answer=lambda slot, request: None)


def test_a_pipeline_longer_than_the_bound_is_handled_bit_by_bit() -> None:
    async def body(peer: Peer) -> None:
        with peer.connect() as client:
            await send(client, frame(b"n") * (SLOTS_MAX + 50))
            await until(lambda: len(peer.slots) == SLOTS_MAX)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(peer.slots) == SLOTS_MAX
            for slot in list(peer.slots):
                slot.fill(frame(b"n"))
            await until(lambda: len(peer.slots) == SLOTS_MAX + 50)

    run(body, answer=lambda slot, request: None)


def test_a_session_says_who_asks_and_by_which_listener() -> None:
    async def body(peer: Peer) -> None:
        other = peer.server.bind("INSIDE", "127.0.0.1", 0, "PLAINTEXT")
        peer.server.start_accepting()
        with socket.create_connection(("127.0.0.1", other.port)) as client:
            client.send(frame(b"request"))
            await until(lambda: bool(peer.slots))
        session = peer.slots[0].connection.session
        assert (session.listener, session.security_protocol) == ("INSIDE", "PLAINTEXT")
        assert (session.address, session.principal) == ("127.0.0.1", "User:ANONYMOUS")
        assert session.client_software is None

    run(body)
