"""Connections beside a naive model: however bytes arrive and whenever answers come, frames and replies stay in order.

The event loop is a list of callbacks that the test runs when it likes, over a pair of connected sockets.
"""

from __future__ import annotations

import gc
import socket
import struct
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.network.connection import Connection, Slot
from tidelog.network.limits import NetworkLimits
from tidelog.network.session import Session
from tidelog.network.socket_server import SocketServer
from tidelog.network.transport import PlainTransport


class HandLoop:
    """As much of an event loop as the network room uses, turned by hand."""

    def __init__(self) -> None:
        self.readers: dict[int, tuple[Callable[..., None], tuple[Any, ...]]] = {}
        self.writers: dict[int, Callable[..., None]] = {}
        self._soon: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def add_reader(self, fd: int, callback: Callable[..., None], *args: Any) -> None:
        self.readers[fd] = callback, args

    def remove_reader(self, fd: int) -> bool:
        return self.readers.pop(fd, None) is not None

    def add_writer(self, fd: int, callback: Callable[..., None]) -> None:
        self.writers[fd] = callback

    def remove_writer(self, fd: int) -> bool:
        return self.writers.pop(fd, None) is not None

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        self._soon.append((callback, args))

    @property
    def is_idle(self) -> bool:
        """Nothing was asked for that has not been called."""
        return not self._soon

    def turn(self) -> None:
        """One turn: readable connections read, writable ones write, then callbacks run."""
        for callback, args in list(self.readers.values()):
            callback(*args)
        for callback in list(self.writers.values()):
            callback()
        for _ in range(len(self._soon)):
            callback, args = self._soon.popleft()
            callback(*args)


class Peers:
    """A client and a server that keeps a view of every request, as the log does until the end of a turn."""

    def __init__(self, limits: NetworkLimits) -> None:
        self.loop = HandLoop()
        self.waiting: list[tuple[Slot, bytes]] = []
        self.seen: list[bytes] = []
        self.held: list[tuple[memoryview, bytes]] = []
        self.answers_at_once = False
        self.mutes: set[bytes] = set()
        """Requests that mute their connection until the test says otherwise."""
        self.server = SocketServer(self.loop, limits, self._dispatch, lambda: None, lambda: 0)  # type: ignore[arg-type]
        self.client, self.connection = self.connect()
        self.received = bytearray()

    def connect(self) -> tuple[socket.socket, Connection]:
        """A client and its connection. A pair of Unix sockets has no TCP options to set."""
        client, inner = socket.socketpair()
        client.setblocking(False)
        connection = Connection(
            self.server, PlainTransport(_without_blocking(inner)), Session("PLAINTEXT", "PLAINTEXT", "here")
        )
        self.server.quotas.try_admit("PLAINTEXT", "here", 0.0)
        self.server.connections[connection.fd] = connection
        self.server.start_reading(connection)
        return client, connection

    def _dispatch(self, connection: Connection, slot: Slot, data: bytearray, start: int, stop: int) -> None:
        request = bytes(data[start:stop])
        self.seen.append(request)
        self.held.append((memoryview(data)[start:stop], request))
        self.waiting.append((slot, request))
        if request in self.mutes:
            connection.mute()
        if self.answers_at_once:
            slot.fill(framed(request))

    def check_held(self) -> None:
        """A buffer must not be overwritten while its request is read."""
        for view, request in self.held:
            assert view == request

    def let_go(self) -> None:
        for view, _ in self.held:
            view.release()
        self.held.clear()

    def send(self, data: bytes) -> int:
        try:
            return self.client.send(data)
        except BlockingIOError:
            return 0

    def receive(self) -> None:
        try:
            while chunk := self.client.recv(1 << 16):
                self.received += chunk
        except BlockingIOError:
            return

    def close(self) -> None:
        self.let_go()
        self.server.close()
        self.client.close()


def _without_blocking(inner: socket.socket) -> socket.socket:
    inner.setblocking(False)
    return inner


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


sizes = st.one_of(st.integers(0, 40), st.integers(0, 5000), st.sampled_from([65_536, 90_000, 200_000, 300_000]))


@settings(deadline=None, max_examples=60)
@given(
    frame_bytes=st.lists(sizes, max_size=12),
    chunks=st.lists(st.integers(1, 300_000), min_size=1, max_size=20),
    order=st.randoms(use_true_random=False),
    limit=st.sampled_from([1, 3, 500]),
)
def test_frames_and_replies_keep_their_order(frame_bytes: list[int], chunks: list[int], order: Any, limit: int) -> None:
    """Split anywhere, answered in any order and late, with few or many requests allowed at once."""
    payloads = [bytes((number + 1,)) * size for number, size in enumerate(frame_bytes)]
    stream = b"".join(map(framed, payloads))
    with closing(Peers(NetworkLimits(queued_requests_max=limit))) as peers:
        _exchange(peers, stream, chunks, order)
        assert peers.seen == payloads
        assert bytes(peers.received) == stream
    assert peers.server.channel.queued_requests == peers.server.channel.queued_bytes == 0
    assert not peers.loop.readers


def _exchange(peers: Peers, stream: bytes, chunks: list[int], order: Any) -> None:
    """Send everything in pieces, answer in any order, until as much has come back."""
    position = turns = 0
    while len(peers.received) < len(stream):
        turns += 1
        assert turns < 5000, "no progress"
        if position < len(stream):
            position += peers.send(stream[position : position + chunks[turns % len(chunks)]])
        peers.loop.turn()
        peers.check_held()
        if peers.waiting and order.random() < 0.7:
            slot, request = peers.waiting.pop(order.randrange(len(peers.waiting)))
            slot.fill(framed(request))
        if order.random() < 0.3:
            peers.let_go()
        peers.receive()


@settings(deadline=None, max_examples=40)
@given(
    frame_bytes=st.lists(st.integers(100_000, 300_000), min_size=4, max_size=8),
    chunk_bytes=st.integers(60_000, 150_000),
    order=st.randoms(use_true_random=False),
)
def test_a_buffer_that_is_looked_at_is_not_used_again(frame_bytes: list[int], chunk_bytes: int, order: Any) -> None:
    """Large frames go into buffers that others had before them, but never while a view of one exists."""
    payloads = [bytes((number + 1,)) * size for number, size in enumerate(frame_bytes)]
    stream = b"".join(map(framed, payloads))
    with closing(Peers(NetworkLimits())) as peers:
        _exchange(peers, stream, [chunk_bytes], order)
        assert peers.seen == payloads


@settings(deadline=None, max_examples=60)
@given(
    junk=st.lists(st.binary(max_size=300), max_size=10),
    answers=st.lists(st.booleans(), min_size=1, max_size=20),
)
def test_whatever_bytes_come_nothing_is_left_behind(junk: list[bytes], answers: list[bool]) -> None:
    """Random bytes are frames, too short, too long or none. Once the client is gone, so is everything of it."""
    with closing(Peers(NetworkLimits(request_bytes_max=200, queued_requests_max=4))) as peers:
        for turn, data in enumerate(junk):
            try:
                peers.send(data)
            except OSError:
                break
            peers.loop.turn()
            if peers.waiting and answers[turn % len(answers)]:
                slot, _ = peers.waiting.pop()
                slot.fill(b"answer")
        peers.client.close()
        for _ in range(3):
            peers.loop.turn()
        for slot, _ in peers.waiting:
            slot.fill(b"late")
        for _ in range(3):
            peers.loop.turn()
        assert peers.connection.is_closed
        assert not peers.server.connections
        assert peers.server.channel.queued_requests == peers.server.channel.queued_bytes == 0
        assert peers.server.quotas.total == 0


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_answered_while_a_turn_ends_leaves_with_it(fails: bool) -> None:
    """No other turn is needed for it, even if something in the end of the turn failed."""
    with closing(Peers(NetworkLimits())) as peers:

        def end_turn() -> None:
            while peers.waiting:
                slot, request = peers.waiting.pop()
                slot.fill(framed(request))
                if fails:
                    raise RuntimeError("after the answer")

        peers.server._end_turn = end_turn
        peers.send(framed(b"request"))
        for callback, args in peers.loop.readers.values():
            callback(*args)
        peers.server.wake()
        peers.loop.turn()
        assert peers.loop.is_idle
        peers.receive()
        assert bytes(peers.received) == framed(b"request")


class Broken:
    """A chunk of a reply that fails when it is sent."""

    fd = position = 0

    def __len__(self) -> int:
        raise ZeroDivisionError


@pytest.mark.parametrize("is_broken_first", [False, True])
def test_a_reply_that_cannot_be_sent_costs_its_own_connection_only(
    is_broken_first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Both are flushed in the same turn."""
    with closing(Peers(NetworkLimits())) as peers:
        other_client, other = peers.connect()
        for client in (peers.client, other_client):
            client.send(framed(b"request"))
        peers.loop.turn()
        broken: Any = [Broken()]
        slots = {slot.connection: slot for slot, _ in peers.waiting}
        replies = [(slots[peers.connection], broken), (slots[other], framed(b"request"))]
        for slot, reply in replies if is_broken_first else replies[::-1]:
            slot.fill(reply)
        peers.loop.turn()
        assert peers.connection.is_closed
        assert not other.is_closed
        assert other_client.recv(1 << 16) == framed(b"request")
        assert "sending its replies failed" in caplog.text
        other_client.close()


def test_a_wait_that_cannot_be_ended_does_not_keep_its_connection_open(caplog: pytest.LogCaptureFixture) -> None:
    with closing(Peers(NetworkLimits())) as peers:
        peers.send(framed(b"request"))
        peers.loop.turn()
        peers.waiting[0][0].park(lambda: 1 // 0)
        peers.connection.close()
        assert not peers.server.connections
        assert peers.server.quotas.total == 0
        assert "ZeroDivisionError" in caplog.text


class TestMuting:
    """A request that has not taken effect holds back the next ones of its connection, and nothing else."""

    def test_frames_behind_it_wait_and_are_handed_over_in_order(self) -> None:
        with closing(Peers(NetworkLimits())) as peers:
            peers.mutes = {b"one"}
            peers.send(framed(b"one") + framed(b"two") + framed(b"three"))
            for _ in range(3):
                peers.loop.turn()
            assert peers.seen == [b"one"]
            peers.connection.unmute()
            peers.loop.turn()
            assert peers.seen == [b"one", b"two", b"three"]
            for slot, request in peers.waiting:
                slot.fill(framed(request))
            peers.loop.turn()
            peers.receive()
            assert bytes(peers.received) == framed(b"one") + framed(b"two") + framed(b"three")

    @pytest.mark.parametrize("is_whole", [False, True])
    def test_frames_that_come_later_wait_too(self, is_whole: bool) -> None:
        with closing(Peers(NetworkLimits())) as peers:
            peers.mutes = {b"one"}
            peers.send(framed(b"one"))
            peers.loop.turn()
            peers.send(framed(b"two") if is_whole else framed(b"two")[:3])
            peers.loop.turn()
            assert peers.seen == [b"one"]
            peers.connection.unmute()
            if not is_whole:
                peers.send(framed(b"two")[3:])
            for _ in range(2):
                peers.loop.turn()
            assert peers.seen == [b"one", b"two"]

    def test_a_muted_connection_buffers_little_of_what_is_sent(self) -> None:
        with closing(Peers(NetworkLimits())) as peers:
            peers.mutes = {b"one"}
            peers.send(framed(b"one"))
            for _ in range(50):
                peers.send(framed(bytes(20_000)))
                peers.loop.turn()
            assert peers.connection.buffered_bytes <= 256 << 10
            assert peers.seen == [b"one"]

    def test_a_peer_that_leaves_while_muted_is_noticed(self) -> None:
        with closing(Peers(NetworkLimits())) as peers:
            peers.mutes = {b"one"}
            peers.send(framed(b"one"))
            peers.loop.turn()
            peers.client.close()
            peers.loop.turn()
            assert peers.connection.is_closed
            peers.connection.unmute()

    def test_a_request_may_mute_again_as_soon_as_it_is_handed_over(self) -> None:
        with closing(Peers(NetworkLimits())) as peers:
            peers.mutes = {b"one", b"two"}
            peers.send(framed(b"one") + framed(b"two") + framed(b"three"))
            peers.loop.turn()
            peers.connection.unmute()
            peers.loop.turn()
            assert peers.seen == [b"one", b"two"]
            peers.connection.unmute()
            peers.loop.turn()
            assert peers.seen == [b"one", b"two", b"three"]


class TestClosingInTurn:
    """A request that cannot be answered closes the connection when its turn ends."""

    def test_replies_before_it_leave_first_and_nothing_behind_it_is_handed_over(self) -> None:
        with closing(Peers(NetworkLimits())) as peers:
            peers.send(framed(b"one") + framed(b"two"))
            peers.loop.turn()
            (first, _), (second, _) = peers.waiting
            second.close_connection()
            first.fill(framed(b"reply"))
            peers.send(framed(b"three"))
            peers.loop.turn()
            assert peers.connection.is_closed
            peers.receive()
            assert bytes(peers.received) == framed(b"reply")
            assert peers.seen == [b"one", b"two"]
            assert peers.server.channel.queued_requests == peers.server.channel.queued_bytes == 0

    def test_a_request_before_it_that_still_waits_is_given_up(self) -> None:
        """It may wait for ever, and whether its client is still there could not be seen."""
        abandoned: list[bool] = []
        with closing(Peers(NetworkLimits())) as peers:
            peers.send(framed(b"one") + framed(b"two"))
            peers.loop.turn()
            (first, _), (second, _) = peers.waiting
            first.park(lambda: abandoned.append(True))
            second.close_connection()
            peers.loop.turn()
            assert peers.connection.is_closed
            assert abandoned == [True]

    def test_a_reply_that_the_socket_does_not_take_at_once_leaves_whole(self) -> None:
        reply = framed(bytes(2 << 20))
        with closing(Peers(NetworkLimits())) as peers:
            peers.send(framed(b"one") + framed(b"two"))
            peers.loop.turn()
            (first, _), (second, _) = peers.waiting
            first.fill(reply)
            second.close_connection()
            for _ in range(1000):
                peers.loop.turn()
                peers.receive()
                if peers.connection.is_closed:
                    break
            peers.receive()
            assert bytes(peers.received) == reply

    def test_a_frame_that_is_too_large_does_not_take_earlier_replies_with_it(self) -> None:
        with closing(Peers(NetworkLimits(request_bytes_max=100))) as peers:
            peers.answers_at_once = True
            peers.send(framed(b"one") + struct.pack(">i", 101) + b"more")
            peers.loop.turn()
            assert peers.connection.is_closed
            peers.receive()
            assert bytes(peers.received) == framed(b"one")
            assert peers.server.channel.queued_requests == 0

    def test_a_request_that_is_answered_and_then_fails_closes_at_once(self) -> None:
        with closing(Peers(NetworkLimits())) as peers:
            peers.send(framed(b"one"))
            peers.loop.turn()
            peers.waiting[0][0].fill(framed(b"reply"))
            peers.loop.turn()
            peers.waiting[0][0].close_connection()
            assert peers.connection.is_closed


class Waiting:
    """What a parked request waits with: it answers its slot, and the slot can end it."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        slot.park(self.end)

    def end(self) -> None:
        self.slot.fill(framed(b"reply"))


@pytest.mark.parametrize("count", [1, 2])
def test_a_request_that_waited_leaves_no_garbage(count: int) -> None:
    """A consumer parks a fetch twice a second; looking for cycles among them would take time from everybody."""
    gc.collect()
    gc.disable()
    try:
        with closing(Peers(NetworkLimits())) as peers:
            for _ in range(count):
                peers.send(framed(b"request"))
            peers.loop.turn()
            waiting = [Waiting(slot) for slot, _ in peers.waiting]
            peers.waiting.clear()
            for each in waiting:
                each.end()
            peers.loop.turn()
            left = [weakref.ref(each) for each in waiting]
            del each
            waiting.clear()
            assert [reference() for reference in left] == [None] * count
    finally:
        gc.enable()
