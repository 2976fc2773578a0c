"""One client connection: frames in, replies out, in request order, within bounded memory.

Theory of operation
- Reading. Each readable event takes what has arrived. Small frames are parsed where they lie, in a buffer of exactly
  the bytes that came; a frame that is not complete moves to a buffer that grows with what has arrived, never with what
  its length field promises.
- Order. Every frame gets a `Slot` in a queue before it is handled. Handlers fill slots in any order; a reply leaves
  when all before it have left.
- Turns. Filling a slot sends nothing yet: the `SocketServer` flushes all connections once at the end of the event
  loop's turn, after the logs were written. A reply therefore never runs ahead of its write.
- Closing. A request that cannot be answered closes the connection at the end of its turn. Replies before it that are
  there by then leave first; requests before it that still wait are given up.
- Muting. While a request has not taken effect, no further frame of its connection is handed over. Reading goes on until
  there is one, so that a peer that leaves is noticed.
- Back-pressure. A connection is not read from while its own replies are stuck, while it has too many unanswered
  requests, or while the request channel is full. Unparsed bytes wait in the buffer they came in.

The broker's dispatcher is called with `(connection, slot, buffer, start, stop)` for each frame and owns the slot from
then on; the buffer is its own to keep and to write into.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol

from tidelog.network.buffers import KEPT_BYTES_MAX, LARGE_BYTES, BufferPool, reserve
from tidelog.network.control_first import ControlFirst
from tidelog.network.flow import (
    BEGINS,
    CHANNEL_IS_FULL,
    ENDS,
    GO_ON,
    IS_CLOSED,
    IS_MUTED,
    OUTPUT_IS_STUCK,
    PIPELINE_IS_FULL,
    READING,
    REPLIES_ARE_LARGE,
    START_WRITING,
    STOP_READING,
    STOP_WRITING,
    WAIT_FOR_ROOM,
)
from tidelog.network.limits import RequestChannel
from tidelog.network.log_rate_limit import LogRateLimit
from tidelog.network.send_queue import Chunk, Reply, SendQueue
from tidelog.network.sender import REPLY_BYTES_MAX
from tidelog.network.session import Session
from tidelog.network.transport import Transport

logger = logging.getLogger(__name__)
logger.addFilter(LogRateLimit())

_unpack_size = Struct(">i").unpack_from
_unpack_api_key = Struct(">h").unpack_from

SLOTS_MAX: Final = 256
"""Unanswered requests of one connection before it is no longer read from."""

READS_PER_EVENT_MAX: Final = 16
"""How often one connection is read from before the others get their turn, while it has part of a frame."""

LIMITED_BYTES_MIN: Final = 1 << 20
"""Frames above this size are refused when they begin, if requests of their API are never that large."""

READ_BYTES_MAX: Final = 1 << 20
"""How much of a large frame is taken at once. The kernel would copy for as long as the peer keeps sending."""

READ_BYTES_PER_EVENT_MAX: Final = 4 << 20
"""How much of a large frame is taken before the others get their turn: some milliseconds of copying."""

HELD_BYTES_MAX: Final = 8 << 20
"""Replies that one connection may have in memory before it is no longer read from."""

_FIRST_BUFFER_BYTES: Final = 64 << 10

_BY_REQUEST: Final = 1
_BY_QUOTA: Final = 2
"""Why a connection is muted, as bits."""

_CLOSE: Final[list[Chunk]] = []
"""In place of a reply: the connection ends here."""
Dispatch = Callable[["Connection", "Slot", bytearray | memoryview, int, int], None]


def _nothing() -> None:
    return


class Slot:
    """The place of one reply in its connection's order."""

    __slots__ = ("abandon", "connection", "metrics", "reply", "request_bytes", "times_ns")

    metrics: object
    """Where a request that is timed is counted. This and the next are set for such requests alone."""
    times_ns: list[int]
    """When it came, was handled, began to wait, and was answered."""

    def __init__(self, connection: Connection, request_bytes: int) -> None:
        self.connection = connection
        self.request_bytes = request_bytes
        self.reply: Reply | None = None
        self.abandon: Callable[[], object] | None = None

    def fill(self, reply: Reply) -> None:
        """Give the reply; it leaves at the end of this turn, or when those before it have left."""
        self.reply = reply
        connection = self.connection
        if not connection.is_scheduled:
            connection.is_scheduled = True
            connection.server.schedule_flush(connection)

    def fail(self, api: str, cause: Exception) -> None:
        """No reply can be made. The connection is closed, so that its client asks again; no other is affected."""
        logger.error("closing %s: its %s request failed", self.connection.address, api, exc_info=cause)
        self.close_connection()

    def close_connection(self) -> None:
        """Close instead of a reply, after the replies that this turn has for the requests before it."""
        connection = self.connection
        if self in connection.slots:
            connection.end()
            self.fill(_CLOSE)
        else:
            connection.close()

    def fill_last(self, reply: bytes) -> None:
        """Give the connection's last reply: it is closed once this one has left."""
        connection = self.connection
        last = Slot(connection, 0)
        connection.channel.queued_requests += 1
        connection.slots.append(last)
        connection.end()
        last.reply = _CLOSE
        self.fill(reply)

    def park(self, abandon: Callable[[], object] = _nothing) -> None:
        """The request waits in purgatory and holds no buffer any more: it stops counting as queued.

        `abandon` is called if the client leaves before the reply is there, so that the wait can end.
        """
        if self.abandon is None:
            self.abandon = abandon
            self.connection.channel.release(self.request_bytes)


class Owner(Protocol):
    """What a connection and those who answer it use of its `SocketServer`, which says more about each."""

    buffers: BufferPool
    channel: RequestChannel
    control_first: ControlFirst | None
    dispatch: Dispatch
    now_ms: int
    request_bytes_max: int
    scratch: bytearray
    scratch_view: memoryview

    @property
    def request_limit(self) -> Callable[[int], int]: ...

    def start_reading(self, connection: Connection) -> None: ...

    def stop_reading(self, connection: Connection) -> None: ...

    def start_writing(self, connection: Connection, on_writable: Callable[[], None]) -> None: ...

    def stop_writing(self, connection: Connection) -> None: ...

    def read_soon(self, connection: Connection) -> None: ...

    def look_again(self, connection: Connection) -> None: ...

    def wait_for_room(self, connection: Connection) -> None: ...

    def schedule_flush(self, connection: Connection) -> None: ...

    def hand_over_later(self, connection: Connection) -> None: ...

    def after_flush(self, callback: Callable[[], None]) -> None: ...

    def log_refused_frame(self, connection: Connection, size: int, limit: int) -> None: ...

    def serve_first(self, connection: Connection) -> None: ...

    def forget(self, connection: Connection) -> None: ...


class Connection:
    """A client's socket and what is under way on it."""

    __slots__ = (
        "_buffer",
        "_filled",
        "_held_bytes",
        "_is_ending",
        "_is_plain",
        "_must_stop",
        "_muted",
        "_out",
        "_paused",
        "_position",
        "_recv_into",
        "_released",
        "_send",
        "_transport",
        "channel",
        "dispatch",
        "fd",
        "frame_bytes_max",
        "is_closed",
        "is_scheduled",
        "last_active_ms",
        "server",
        "session",
        "slots",
        "throttle_ms",
        "throttled_until_ms",
    )

    def __init__(self, server: Owner, transport: Transport, session: Session) -> None:
        self.server = server
        self.session = session
        self.channel = server.channel
        self.fd = transport.fileno()
        self.dispatch = server.dispatch
        """Takes the frames. Until a client has authenticated itself they go elsewhere than those of others."""
        self.frame_bytes_max = server.request_bytes_max
        """A larger frame is refused when it begins."""
        self.is_closed = False
        self.is_scheduled = False
        self.last_active_ms = 0
        self._transport = transport
        self._is_plain = transport.is_plain
        self._recv_into = transport.recv_into
        self._send = transport.send
        # The bytes that came and were not parsed yet: _buffer[_position:_filled].
        self._buffer: bytearray | memoryview | None = None
        self._position = 0
        self._filled = 0
        self.slots: deque[Slot] = deque()
        """Requests that were handed over and whose replies have not left, oldest first."""
        self._out = SendQueue(transport, server.scratch_view)
        self._paused = READING
        # Set while frames are being handed over, when no more of them may be: closed, or too many replies are unsent.
        self._must_stop = False
        self._muted = 0
        # What `hand_over` will clear of it when this turn has ended.
        self._released = 0
        self.throttle_ms = 0
        """How long the client has to wait because it exceeds a quota, as its responses say."""
        self.throttled_until_ms = 0
        # A slot closes the connection when this turn ends; replies before it that are there by then leave first.
        self._is_ending = False
        self._held_bytes = 0

    # --- in ---

    @property
    def is_read(self) -> bool:
        """Whether the event loop watches for what arrives."""
        return not (self._paused or self.is_closed)

    def on_readable(self) -> None:
        """Called by the event loop whenever bytes may be there."""
        control_first = self.server.control_first
        if control_first is not None:
            control_first.before_read()
            if self.is_closed:
                return
        try:
            if self._read_only_frame() if self._buffer is None else not self._read():
                return
            self._parse()
            if self._buffer is not None:
                self._read_on()
            elif self.slots and self.slots[-1].abandon is not None:
                self.server.look_again(self)
        except Exception as cause:  # noqa: BLE001 - closes this connection alone
            self.fail("reading its requests failed", cause)

    def _read_only_frame(self) -> bool:
        """The usual case at little cost: what arrives is one small frame. False if there is more to be done."""
        server = self.server
        try:
            received = self._recv_into(server.scratch)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            received = 0
        if not received:
            self.close()
            return True
        self.last_active_ms = server.now_ms
        slots, channel = self.slots, self.channel
        size = received - 4
        if (
            not 0 <= size < LARGE_BYTES
            or _unpack_size(server.scratch)[0] != size
            or size > self.frame_bytes_max
            or self._muted
            or len(slots) >= SLOTS_MAX
            or channel.queued_requests >= channel.requests_max
            or channel.queued_bytes >= channel.bytes_max
        ):
            self._buffer = self._first_buffer(server.scratch_view[:received])
            self._position, self._filled = 0, received
            return False
        slot = Slot(self, size)
        slots.append(slot)
        channel.queued_requests += 1
        channel.queued_bytes += size
        self.dispatch(self, slot, server.scratch[:received], 4, received)
        if self._must_stop:
            self._filled = received
            self._stops_at(received)
        if slot.abandon is not None and slots:
            server.look_again(self)
        return True

    def look_again(self) -> None:
        """Called by the server at the end of a turn in which a request came that has to wait."""
        if self.slots:
            self._read_on()

    def _read_on(self) -> None:
        """Look whether more bytes have arrived, or the peer is gone, while a request waits.

        uvloop reports bytes and a reset that came with them in one call and then forgets the descriptor: read once,
        such a connection would stay for ever, unless an answer to it fails.
        """
        filled_before = self._filled
        for _ in range(READS_PER_EVENT_MAX):
            if self._paused or not self._read():
                return
            self._parse()
            if self._filled - filled_before > READ_BYTES_PER_EVENT_MAX:
                return

    def _read(self) -> bool:
        """Take what has arrived; False when there was nothing, or the connection has ended."""
        server = self.server
        buffer = self._buffer
        try:
            if buffer is None:
                received = self._recv_into(server.scratch)
                if received:
                    self._buffer = self._first_buffer(server.scratch_view[:received])
                    self._position, self._filled = 0, received
            elif self._filled < len(buffer):
                with memoryview(buffer) as view:
                    received = self._recv_into(view[self._filled : self._filled + READ_BYTES_MAX])
                self._filled += received
            else:
                received = self._recv_into(server.scratch)
                if received:
                    self._grow(buffer, server.scratch_view[:received])
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self.close()
            return False
        if not received:
            self.close()
            return False
        self.last_active_ms = server.now_ms
        return True

    def _parse(self) -> None:
        """Hand over every complete frame of the buffer; keep the rest."""
        buffer = self._buffer
        if buffer is None:
            return
        if self._muted:
            self._pause(IS_MUTED)
            return
        slots = self.slots
        channel = self.channel
        position, filled = self._position, self._filled
        while filled - position >= 4:
            (size,) = _unpack_size(buffer, position)
            if not 0 <= size <= self.frame_bytes_max:
                self._position = position
                self._refuse(size, self.frame_bytes_max)
                return
            stop = position + 4 + size
            if stop > filled:
                if size > LIMITED_BYTES_MIN and filled - position >= 6 and self._is_too_large(buffer, position, size):
                    return
                break
            if (
                len(slots) >= SLOTS_MAX
                or channel.queued_requests >= channel.requests_max
                or channel.queued_bytes >= channel.bytes_max
            ):
                self._position = position
                self._pause(PIPELINE_IS_FULL if len(slots) >= SLOTS_MAX else CHANNEL_IS_FULL)
                return
            slot = Slot(self, size)
            slots.append(slot)
            channel.queued_requests += 1
            channel.queued_bytes += size
            self.dispatch(self, slot, buffer, position + 4, stop)
            position = stop
            if self._must_stop and self._stops_at(position):
                return
        self._position = position
        self._keep_rest(buffer, position, filled)

    def _is_too_large(self, buffer: bytearray | memoryview, position: int, size: int) -> bool:
        """Refuse a large frame, of which the beginning is there, if its API has no requests of that size."""
        (api_key,) = _unpack_api_key(buffer, position + 4)
        limit = self.server.request_limit(api_key)
        if size <= limit:
            return False
        self._position = position
        self._refuse(size, limit)
        return True

    def _refuse(self, size: int, limit: int) -> None:
        """A frame of this size is not read, nor is anything behind it."""
        self.server.log_refused_frame(self, size, limit)
        slot = Slot(self, 0)
        self.slots.append(slot)
        self.channel.queued_requests += 1
        slot.close_connection()
        self._pause(IS_MUTED)

    def _stops_at(self, position: int) -> bool:
        """Whether the frames from `position` on have to wait."""
        if self.is_closed:
            return True
        self._must_stop = False
        if self._held_bytes > HELD_BYTES_MAX:
            self._pause(REPLIES_ARE_LARGE)
        elif not self._muted or position == self._filled:
            return False
        if self._muted:
            self._pause(IS_MUTED)
        self._position = position
        return True

    def _keep_rest(self, buffer: bytearray | memoryview, position: int, filled: int) -> None:
        if not position:
            return
        if position == filled:
            self._buffer = None
        else:
            # Handlers may hold views into the old buffer, so the incomplete frame moves to one of its own.
            with memoryview(buffer) as view:
                self._buffer = self._first_buffer(view[position:filled])
            self._position, self._filled = 0, filled - position
        if len(buffer) >= LARGE_BYTES and isinstance(buffer, bytearray):
            self.server.buffers.give_back(buffer)

    def _first_buffer(self, arrived: memoryview) -> bytearray:
        """A buffer for what arrived: a used one with room for the rest of a large frame, or just large enough."""
        size = len(arrived)
        if size >= LARGE_BYTES:
            whole = 4 + int(_unpack_size(arrived, 0)[0])
            used = self.server.buffers.take(whole, size) if whole > size else None
            if used is not None:
                used[:size] = arrived
                return used
        return bytearray(arrived)

    def _grow(self, buffer: bytearray | memoryview, more: memoryview) -> None:
        """A larger buffer for an incomplete frame and what came: a few times what has arrived, at most the frame."""
        filled = self._filled
        arrived = filled + len(more)
        whole = 4 + int(_unpack_size(buffer, 0)[0]) if filled >= 4 else _FIRST_BUFFER_BYTES
        used = self.server.buffers.take(whole, arrived) if arrived <= whole else None
        size = max(arrived, min(max(arrived * 4, _FIRST_BUFFER_BYTES), whole))
        grown = used or (bytearray(size) if size <= KEPT_BYTES_MAX else reserve(max(arrived, whole)))
        grown[:filled] = buffer
        grown[filled:arrived] = more
        self._buffer = grown
        self._filled = arrived

    # --- out ---

    def flush(self) -> None:
        """Send every reply whose turn it is. Called by the server at the end of a turn."""
        self.is_scheduled = False
        if self.is_closed:
            return
        slots, out = self.slots, self._out.chunks
        if not out and not self._paused and len(slots) == 1 and self._send_only_reply():
            return
        self._take_replies()
        if out and not self._paused & OUTPUT_IS_STUCK:
            self._send_out()
        if self._is_ending:
            if not out:
                self.close()
            return
        if slots:
            self._wait_in_line()
        if self._paused & PIPELINE_IS_FULL and len(slots) < SLOTS_MAX // 2:
            self._resume(PIPELINE_IS_FULL)
        if self._held_bytes:
            self._release_held()

    def _take_replies(self) -> None:
        """Move the replies whose turn it is to what is to be sent, up to one that closes the connection."""
        slots, out, channel = self.slots, self._out.chunks, self.channel
        while slots:
            slot = slots[0]
            reply = slot.reply
            if reply is None:
                return
            slots.popleft()
            if slot.abandon is None:
                channel.release(slot.request_bytes)
            else:
                slot.abandon = _nothing  # it refers to what waited, which refers to the slot
            if reply.__class__ is bytes:
                if reply:
                    out.append(reply)
            elif reply is _CLOSE:
                return
            else:
                out.extend(reply)  # type: ignore[arg-type]

    def _wait_in_line(self) -> None:
        """The next reply is not there yet. Replies behind it are ready and wait for it."""
        for slot in self.slots:
            if slot.reply is not None:
                slot.park()
        if not self._out.chunks:
            # Nothing is sent that would show whether the peer is still there.
            self._read_on()

    def _send_only_reply(self) -> bool:
        """The usual case at little cost: one reply, short or in memory, and a socket with room for it."""
        slot = self.slots[0]
        reply = slot.reply
        if not reply:
            return False
        try:
            if reply.__class__ is bytes:
                size = len(reply)
                sent = self._send(reply)
            else:
                size, sent = self._out.send_at_once(reply)  # type: ignore[arg-type]
                if not size:
                    return False
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self.close()
            return True
        self.slots.clear()
        if slot.abandon is None:
            channel = self.channel
            channel.queued_requests -= 1
            channel.queued_bytes -= slot.request_bytes
        else:
            slot.abandon = _nothing  # it refers to what waited, which refers to the slot
        if sent < size:
            self._out.put_rest([reply] if isinstance(reply, bytes) else reply, sent)
            self._pause(OUTPUT_IS_STUCK)
        elif self._held_bytes:
            self._release_held()
        return True

    def take_only_reply(self) -> Reply | None:
        """The reply to send, if it is the only one and short and nothing else is to be done; its slot is gone then.

        Called by the server at the end of a turn, in place of `flush`. None if `flush` has to be called.
        """
        slots = self.slots
        if len(slots) != 1 or self._paused or self._is_ending or self._held_bytes or self._out.chunks:
            return None
        slot = slots[0]
        reply = slot.reply
        if not reply or not self._is_plain:
            return None
        if (len(reply) if reply.__class__ is bytes else sum(map(len, reply))) > REPLY_BYTES_MAX:  # type: ignore[arg-type]
            return None
        self.is_scheduled = False
        slots.clear()
        if slot.abandon is None:
            channel = self.channel
            channel.queued_requests -= 1
            channel.queued_bytes -= slot.request_bytes
        else:
            slot.abandon = _nothing  # it refers to what waited, which refers to the slot
        return reply

    def on_incomplete_send(self, reply: Reply, sent: int, error: int) -> None:
        """A reply that was taken has not left whole: the socket had no room, the peer is gone, or a file failed."""
        if self.is_closed:
            return
        if error:
            self.close()
            return
        self._out.put_rest([reply] if isinstance(reply, bytes) else reply, sent)
        self._pause(OUTPUT_IS_STUCK)

    def mute(self) -> None:
        """The request that was handed over last has not taken effect: hand over no other before `unmute`."""
        self._muted |= _BY_REQUEST
        self._must_stop = True

    def unmute(self) -> None:
        """It has taken effect: the next request begins when this turn has ended. Nothing happens if it is not muted.

        Not at once, because this is called while another request is carried out, and after this turn's logs were
        written: what the next one stages belongs to the next turn.
        """
        self._release(_BY_REQUEST)

    def throttle(self, wait_ms: int, until_ms: int) -> None:
        """Hand over no request that comes later before `end_throttle`; responses name the wait."""
        self.throttle_ms, self.throttled_until_ms = wait_ms, until_ms
        self._muted |= _BY_QUOTA
        self._must_stop = True

    def end_throttle(self) -> None:
        """The wait is over."""
        self.throttle_ms = self.throttled_until_ms = 0
        self._release(_BY_QUOTA)

    def _release(self, reason: int) -> None:
        if self._muted & reason and not self.is_closed:
            self._released |= reason
            self.server.hand_over_later(self)

    def hand_over(self) -> None:
        """Called by the server when the turn has ended in which the connection was unmuted."""
        if not self._is_ending:
            self._muted &= ~self._released
            self._released = 0
            if not self._muted:
                self._resume(IS_MUTED)

    def end(self) -> None:
        """Hand over no further frame; for a slot that closes the connection when the turn ends."""
        self._is_ending = self._must_stop = True
        self._muted |= _BY_REQUEST

    def hold(self, size: int) -> None:
        """Count a reply of so many bytes: a client that sends requests and reads nothing must not fill the memory."""
        self._held_bytes += size
        if self._held_bytes > HELD_BYTES_MAX:
            self._must_stop = True

    def _release_held(self) -> None:
        """Reset the count of unsent bytes once everything is sent, and read on."""
        if not self._out.chunks and not self.slots:
            self._held_bytes = 0
            self._must_stop = False
            self._resume(REPLIES_ARE_LARGE)

    def _send_out(self) -> None:
        out = self._out
        try:
            out.send()
        except OSError:
            self.close()
            return
        except Exception as cause:  # noqa: BLE001 - closes this connection alone
            self.fail("sending its replies failed", cause)
            return
        if out.chunks:
            self._pause(OUTPUT_IS_STUCK)
        elif self._is_ending:
            self.close()
        elif self._paused & OUTPUT_IS_STUCK:
            self._resume(OUTPUT_IS_STUCK)
            if self._held_bytes:
                self._release_held()

    # --- pausing and closing ---

    def _pause(self, reason: int) -> None:
        self._paused, to_do = BEGINS[self._paused, reason]
        if to_do & STOP_READING:
            self.server.stop_reading(self)
        if to_do & START_WRITING:
            self.server.start_writing(self, self._send_out)
        if to_do & WAIT_FOR_ROOM:
            self.server.wait_for_room(self)

    def _resume(self, reason: int) -> None:
        self._paused, to_do = ENDS[self._paused, reason]
        if to_do & STOP_WRITING:
            self.server.stop_writing(self)
        if to_do & GO_ON:
            self.server.start_reading(self)  # before the frames that are there: one of them may stop it
            self._parse()
            if self._paused == READING and self._transport.holds_bytes:
                self.server.read_soon(self)

    def read_left(self) -> None:
        """Called by the server when the transport holds bytes of which the system knows nothing."""
        if self._paused == READING:
            self.on_readable()

    def channel_has_room(self) -> None:
        """Called by the server when the request channel has room again."""
        self._resume(CHANNEL_IS_FULL)

    def fail(self, what: str, cause: Exception) -> None:
        """Close because of a defect of the broker, which is logged."""
        logger.error("closing %s: %s", self.address, what, exc_info=cause)
        self.close()

    def close(self) -> None:
        """Close now. Replies that come later are dropped."""
        if self.is_closed:
            return
        self.is_closed = self._must_stop = True
        self._paused, _ = BEGINS[self._paused, IS_CLOSED]
        for slot in self.slots:
            if slot.abandon is None:
                slot.park()
            elif slot.reply is None:
                self._abandon(slot.abandon)
            slot.abandon = _nothing  # it refers to what waited, which refers to the slot
        self.slots.clear()
        self._out.clear()
        self._buffer = None
        self.server.forget(self)
        self._transport.close()

    def _abandon(self, abandon: Callable[[], object]) -> None:
        """End a wait; should that fail, the rest of the connection is closed all the same."""
        try:
            abandon()
        except Exception as cause:
            logger.error("closing %s: a request that waits cannot be ended", self.address, exc_info=cause)

    @property
    def address(self) -> str:
        """The peer's host, for the log."""
        return self.session.address

    @property
    def unanswered(self) -> int:
        return len(self.slots)

    @property
    def buffered_bytes(self) -> int:
        return len(self._buffer) if self._buffer is not None else 0
