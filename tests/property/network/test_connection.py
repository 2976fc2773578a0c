"""A connection beside a model: whatever its client, handlers and the limits do, frames and replies keep their order.

The server around it is a fake that watches what the connection asks to be watched: reading what is not watched, or
watching a closed descriptor, is an error. When everything has let go of it, each frame was handed over once and each
reply has left, so no reason not to read was forgotten.
"""

from collections import deque
from collections.abc import Callable
from typing import cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.property.effort import examples
from tidelog.network import flow
from tidelog.network.buffers import BufferPool
from tidelog.network.connection import HELD_BYTES_MAX, SLOTS_MAX, Connection, Owner, Slot
from tidelog.network.limits import RequestChannel
from tidelog.network.session import Session
from tidelog.network.transport import Transport

FD = 7


class FakeTransport:
    """A socket whose peer sends and takes as many bytes as the test says."""

    holds_bytes = False
    is_plain = False

    def __init__(self) -> None:
        self.arriving = bytearray()
        self.sent = bytearray()
        self.room = 1 << 30
        self.has_ended = False
        self.is_closed = False

    def fileno(self) -> int:
        return FD

    def recv_into(self, buffer: bytearray | memoryview) -> int:
        assert not self.is_closed, "a closed socket is read from"
        taken = self.arriving[: len(buffer)]
        if not taken and not self.has_ended:
            raise BlockingIOError
        buffer[: len(taken)] = taken
        del self.arriving[: len(taken)]
        return len(taken)

    def send(self, data: bytes | memoryview) -> int:
        assert not self.is_closed, "a closed socket is written to"
        taken = bytes(data[: self.room])
        if not taken:
            raise BlockingIOError
        self.sent += taken
        self.room -= len(taken)
        return len(taken)

    def sendmsg(self, buffers: list[bytes | memoryview], _ancillary: tuple[()] = (), _flags: int = 0) -> int:
        return self.send(b"".join(buffers))

    def sendfile(self, fd: int, position: int, count: int) -> int:
        raise AssertionError("no reply is in a file")

    def cork(self, is_corked: bool) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True


class FakeServer:
    """Watches what the connection asks for, and ends turns when the test says."""

    def __init__(self, dispatch: Callable[..., None]) -> None:
        self.buffers = BufferPool()
        self.channel = RequestChannel(3, -1)
        self.control_first = None
        self.dispatch = dispatch
        self.now_ms = 0
        self.request_bytes_max = 1 << 20
        self.scratch = bytearray(64)
        self.scratch_view = memoryview(self.scratch)
        self.reading = True
        self.on_writable: Callable[[], None] | None = None
        self.forgotten = False
        self.soon: deque[Callable[[], None]] = deque()
        self.to_flush: list[Connection] = []

    def request_limit(self, _api_key: int) -> int:
        return self.request_bytes_max

    def start_reading(self, _connection: Connection) -> None:
        assert not self.forgotten
        assert not self.reading
        self.reading = True

    def stop_reading(self, _connection: Connection) -> None:
        assert not self.forgotten
        assert self.reading
        self.reading = False

    def start_writing(self, _connection: Connection, on_writable: Callable[[], None]) -> None:
        assert not self.forgotten
        assert self.on_writable is None
        self.on_writable = on_writable

    def stop_writing(self, _connection: Connection) -> None:
        assert not self.forgotten
        assert self.on_writable is not None
        self.on_writable = None

    def read_soon(self, connection: Connection) -> None:
        self.soon.append(connection.read_left)

    def look_again(self, connection: Connection) -> None:
        self.soon.append(connection.look_again)

    def hand_over_later(self, connection: Connection) -> None:
        self.soon.append(connection.hand_over)

    def wait_for_room(self, connection: Connection) -> None:
        connection.channel.waiting.append(connection)

    def schedule_flush(self, connection: Connection) -> None:
        self.to_flush.append(connection)

    def after_flush(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def log_refused_frame(self, _connection: Connection, size: int, limit: int) -> None:
        pass

    def forget(self, _connection: Connection) -> None:
        assert not self.forgotten, "it is closed twice"
        self.forgotten, self.reading, self.on_writable = True, False, None

    def end_turn(self) -> None:
        to_flush, self.to_flush = self.to_flush, []
        for connection in to_flush:
            connection.flush()
        for _ in range(len(self.soon)):
            self.soon.popleft()()
        for _ in range(len(self.channel.waiting)):
            if self.channel.is_full:
                return
            waiting = self.channel.waiting.popleft()
            if not waiting.is_closed:
                waiting.channel_has_room()


def frame(number: int, size: int) -> bytes:
    body = number.to_bytes(2) + bytes(size)
    return len(body).to_bytes(4) + body


class ConnectionMachine(RuleBasedStateMachine):
    @initialize()
    def connect(self) -> None:
        self.transport = FakeTransport()
        self.server = FakeServer(self.dispatch)
        self.connection = Connection(
            cast(Owner, self.server), cast(Transport, self.transport), Session("PLAINTEXT", "PLAINTEXT", "127.0.0.1")
        )
        self.expected: list[int] = []
        """Frames that the client has sent whole, by number."""
        self.unsent = b""
        self.handled: list[tuple[int, Slot]] = []
        self.unanswered: dict[int, Slot] = {}
        self.replies: dict[int, bytes] = {}
        self.others = 0
        self.mutes_next = False
        self.is_throttled = False
        self.last: int | None = None
        """The request that closes the connection."""

    def dispatch(
        self, connection: Connection, slot: Slot, buffer: bytearray | memoryview, start: int, stop: int
    ) -> None:
        number = int.from_bytes(buffer[start : start + 2])
        assert not connection.is_closed
        assert not self.is_muted, "a frame is handed over while another has not taken effect"
        assert number == len(self.handled), "frames are handed over in their order, each once"
        self.handled.append((number, slot))
        self.unanswered[number] = slot
        if self.mutes_next:
            self.mutes_next = False
            self.is_muted = True
            connection.mute()

    is_muted = False

    # The client.

    @rule(size=st.sampled_from([2, 8, 60, 200]), parts=st.integers(1, 3))
    def send_frame(self, size: int, parts: int) -> None:
        """A whole frame, or its first part and the rest later."""
        if self.transport.has_ended:
            return
        data = self.unsent or frame(len(self.expected), size)
        if not self.unsent:
            self.expected.append(len(self.expected))
        now = len(data) // parts
        self.transport.arriving += data[:now]
        self.unsent = data[now:]

    @rule()
    def readable(self) -> None:
        if self.server.reading and (self.transport.arriving or self.transport.has_ended):
            self.connection.on_readable()

    @rule(room=st.sampled_from([0, 5, 1 << 30]))
    def take_replies(self, room: int) -> None:
        """The peer reads, or stops to."""
        self.transport.room = room
        if room and self.server.on_writable is not None:
            self.server.on_writable()

    @rule()
    def leave(self) -> None:
        self.transport.has_ended = True

    # The broker.

    @precondition(lambda self: bool(self.unanswered))
    @rule(choice=st.integers(0, 10), size=st.sampled_from([1, 40, 300]))
    def answer(self, choice: int, size: int) -> None:
        number = list(self.unanswered)[choice % len(self.unanswered)]
        reply = number.to_bytes(2) + bytes([number % 251]) * size
        self.replies[number] = reply
        slot = self.unanswered.pop(number)
        if not self.connection.is_closed:
            slot.fill(reply)

    @precondition(lambda self: bool(self.unanswered))
    @rule(choice=st.integers(0, 10))
    def park(self, choice: int) -> None:
        if not self.connection.is_closed:
            self.unanswered[list(self.unanswered)[choice % len(self.unanswered)]].park()

    @precondition(lambda self: bool(self.unanswered) and self.last is None)
    @rule(choice=st.integers(0, 10))
    def end_with(self, choice: int) -> None:
        if not self.connection.is_closed:
            self.last = list(self.unanswered)[choice % len(self.unanswered)]
            self.unanswered.pop(self.last).close_connection()

    @rule()
    def mute_at_the_next(self) -> None:
        self.mutes_next = True

    @precondition(lambda self: self.is_muted)
    @rule()
    def unmute(self) -> None:
        self.is_muted = False
        self.connection.unmute()
        self.server.end_turn()

    @rule()
    def throttle(self) -> None:
        self.is_throttled = True
        self.connection.throttle(10, 10)

    @precondition(lambda self: self.is_throttled)
    @rule()
    def end_throttle(self) -> None:
        self.is_throttled = False
        self.connection.end_throttle()

    @rule()
    def others_fill_the_channel(self) -> None:
        self.others += 3
        self.server.channel.queued_requests += 3

    @rule()
    def others_leave_the_channel(self) -> None:
        self.server.channel.queued_requests -= self.others
        self.others = 0

    @rule()
    def memory_is_used(self) -> None:
        self.connection.hold(HELD_BYTES_MAX + 1)

    @rule()
    def end_turn(self) -> None:
        self.server.end_turn()

    @rule()
    def close(self) -> None:
        if self.others:  # not in every run: most of what is worth seeing comes before
            self.connection.close()

    # What holds.

    @invariant()
    def is_watched_for_what_it_waits_for(self) -> None:
        state = self.connection._paused
        assert self.server.reading == (state == flow.READING)
        assert (self.server.on_writable is not None) == (state & (flow.OUTPUT_IS_STUCK | flow.IS_CLOSED) == 1)
        assert bool(state & flow.IS_CLOSED) == self.connection.is_closed == self.server.forgotten
        assert self.connection.unanswered <= SLOTS_MAX

    @invariant()
    def replies_leave_in_their_order(self) -> None:
        """What has left is the replies of the first requests; one that is not made yet holds back those after it."""
        left = bytes(self.transport.sent)
        for number, _ in self.handled:
            if not left:
                return
            reply = self.replies.get(number, b"")
            assert reply, "a reply has left before those of earlier requests"
            assert left.startswith(reply) or reply.startswith(left), "bytes of another reply"
            left = left[len(reply) :]
        assert not left

    def teardown(self) -> None:
        """Everything lets go: what came is handed over and answered, unless the connection has ended."""
        if not hasattr(self, "connection"):
            return
        self.transport.arriving += self.unsent
        self.others_leave_the_channel()
        self.mutes_next = False
        for _ in range(3 * len(self.expected) + 10):
            self.readable()
            self.take_replies(1 << 30)
            while self.unanswered:
                self.answer(0, 1)
            self.server.end_turn()
            if self.is_muted:
                self.unmute()
            if self.is_throttled:
                self.end_throttle()
        if self.connection.is_closed:
            assert self.server.channel.queued_requests == 0, "a closed connection holds places of the channel"
            return
        assert self.last is None, "a connection that was to end is open"
        assert len(self.handled) == len(self.expected), "frames are left that nothing holds back"
        assert bytes(self.transport.sent) == b"".join(self.replies[number] for number in self.expected)
        assert self.connection._paused == flow.READING
        assert self.server.channel.queued_requests == 0


TestConnection = ConnectionMachine.TestCase
TestConnection.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)


def test_requests_that_came_together_while_the_client_had_to_wait_are_all_handed_over_afterwards() -> None:
    """A rare order of events for the machine above: the wait ends before the first of two frames is handed over."""
    machine = ConnectionMachine()
    machine.connect()
    machine.send_frame(2, 1)
    machine.throttle()
    machine.send_frame(2, 1)
    machine.readable()
    assert not machine.handled
    machine.end_throttle()
    machine.end_turn()
    assert [number for number, _ in machine.handled] == [0, 1]
    machine.teardown()
