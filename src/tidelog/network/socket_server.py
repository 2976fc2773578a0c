"""The sockets of a broker: listeners, connections, and the turn that ties them to the logs.

One event-loop turn: every readable connection hands its frames to the dispatcher; then, once, `end_turn` is called
(the broker writes the logs and completes what waited); then every connection with replies is flushed. That
order is the promise of this package: a reply leaves only after the write that it acknowledges. A connection that fails
is closed; the others of the turn are served all the same.

The broker owns a `SocketServer` and is its only caller; everything runs on the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.network.buffers import BufferPool
from tidelog.network.connection import Connection, Dispatch
from tidelog.network.control_first import ControlFirst
from tidelog.network.limits import (
    CONTROL_REQUESTS_MAX,
    ConnectionQuotas,
    NetworkLimits,
    RequestChannel,
    WaitingConnection,
)
from tidelog.network.listener import Listen, Listener, listen_tcp
from tidelog.network.log_rate_limit import LogRateLimit
from tidelog.network.polling import AdaptivePolling
from tidelog.network.sender import BATCH_REPLIES_MIN, ReplySender, new_sender
from tidelog.network.session import Session
from tidelog.network.transport import Transport

if TYPE_CHECKING:
    from tidelog.network.handshakes import Handshakes, ListenerTls
    from tidelog.network.tls import TlsTransport

logger = logging.getLogger(__name__)
logger.addFilter(LogRateLimit())

SCRATCH_BYTES: Final = 256 << 10
"""What one read may take; also the largest request that is parsed without a buffer of its own."""

_ACCEPTS_PER_EVENT: Final = 64
_HELD_MAX: Final = 1000
"""Connections of addresses above their rate that are held, to be closed later; more are closed at once."""
_ACCEPT_RETRY_SECONDS: Final = 0.1
_WARNING_INTERVAL_SECONDS: Final = 10
_TLS_HANDSHAKE: Final = 0x1603
"""The first bytes of a client that speaks TLS."""


def _nothing(_connection: Connection) -> None:
    return


class Endpoint:
    """A listener and its name."""

    __slots__ = ("is_accepting", "is_resting", "is_shared", "listener", "name", "security_protocol", "tls")

    def __init__(
        self, name: str, security_protocol: str, listener: Listener, tls: ListenerTls | None, *, is_shared: bool = False
    ) -> None:
        self.name = name
        self.is_shared = is_shared
        """Whether other processes accept connections from it, too."""
        self.security_protocol = security_protocol
        self.listener = listener
        self.tls = tls
        """What new connections negotiate with; None without TLS."""
        self.is_accepting = False
        self.is_resting = False

    @property
    def port(self) -> int:
        return self.listener.port


class SocketServer:
    """All listeners and connections of one broker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: NetworkLimits,
        dispatch: Dispatch,
        end_turn: Callable[[], None],
        wall_ms: Callable[[], int],
        request_limit: Callable[[int], int] | None = None,
        listen: Listen = listen_tcp,
        on_open: Callable[[Connection], None] = _nothing,
    ) -> None:
        """`request_limit` says how many bytes a request of an API may have, by its key.

        `on_open` is called with every connection before anything is read from it.
        """
        self.on_forgotten: Callable[[Connection], None] | None = None
        """Called with every connection that was closed."""
        self.idle_closed = 0
        """Connections that were closed because they were idle."""
        self.failed_handshakes: Counter[str] = Counter()
        """TLS handshakes that failed, by listener."""
        self.dispatch = dispatch
        self.buffers = BufferPool()
        self.scratch = bytearray(SCRATCH_BYTES)
        self.scratch_view = memoryview(self.scratch)
        self.request_bytes_max = limits.request_bytes_max
        self.request_limit = request_limit or self._any_size
        self.now_ms = wall_ms()
        self.quotas = ConnectionQuotas(limits)
        self._held: set[Transport] = set()
        """Connections that are turned away, after a wait."""
        self.channel = RequestChannel(limits.queued_requests_max, limits.queued_request_bytes_max)
        self.control_channel = RequestChannel(CONTROL_REQUESTS_MAX, limits.queued_request_bytes_max)
        self.connections: dict[int, Connection] = {}
        self._loop = loop
        self._listen = listen
        self._on_open = on_open
        self._handshakes: Handshakes | None = None
        self._limits = limits
        self._end_turn = end_turn
        self._wall_ms = wall_ms
        self._endpoints: list[Endpoint] = []
        self._to_flush: list[Connection] = []
        self._to_look_at: list[Connection] = []
        self._to_hand_over: list[Connection] = []
        self._after_flush: list[Callable[[], None]] = []
        self._sender = new_sender(loop)
        self._polling: AdaptivePolling | None = None
        self.control_first: ControlFirst | None = None
        """Set while there are connections that go first."""
        self._is_turn_scheduled = False
        self._is_turn_ending = False
        self._is_accepting = False
        self._refused_for_shortage = 0
        self._next_shortage_warning = 0.0

    # --- listeners ---

    def bind(
        self, name: str, host: str, port: int, security_protocol: str = "PLAINTEXT", tls: ListenerTls | None = None
    ) -> Endpoint:
        """Listen on an address without accepting yet; raises OSError when the address cannot be had."""
        return self._add(Endpoint(name, security_protocol, self._listen(host, port, self._limits), tls))

    def share(self, name: str, listener: Listener, security_protocol: str, tls: ListenerTls | None) -> None:
        """Accept connections also from an address that other processes accept from; `bind` the own one of that name."""
        self._add(Endpoint(name, security_protocol, listener, tls, is_shared=True))

    def _add(self, endpoint: Endpoint) -> Endpoint:
        has_tls = endpoint.security_protocol.endswith("SSL")
        assert (endpoint.tls is not None) == has_tls, "a listener with TLS has what it negotiates with"
        self._endpoints.append(endpoint)
        return endpoint

    def update_tls(self, name: str, tls: ListenerTls) -> None:
        """Negotiate with something else from now on; connections that are there stay as they are."""
        for endpoint in self._endpoints:
            if endpoint.name == name and endpoint.tls is not None:
                endpoint.tls = tls

    def ports(self) -> dict[str, int]:
        """The port of its own that each listener is bound to, by name."""
        return {endpoint.name: endpoint.port for endpoint in self._endpoints if not endpoint.is_shared}

    def start_accepting(self) -> None:
        """From here on clients are served."""
        self._is_accepting = True
        for endpoint in self._endpoints:
            self._accept_on(endpoint)

    def stop_accepting(self) -> None:
        self._is_accepting = False
        for endpoint in self._endpoints:
            if endpoint.is_accepting:
                endpoint.is_accepting = False
                self._loop.remove_reader(endpoint.listener.fileno())

    def _accept_on(self, endpoint: Endpoint) -> None:
        if self._is_accepting and not endpoint.is_accepting and not endpoint.is_resting:
            endpoint.is_accepting = True
            self._loop.add_reader(endpoint.listener.fileno(), self._on_acceptable, endpoint)

    def _on_acceptable(self, endpoint: Endpoint) -> None:
        for _ in range(_ACCEPTS_PER_EVENT):
            if not self.quotas.has_room(endpoint.name):
                # Clients wait in the backlog until a connection closes, as with Kafka's max.connections.
                endpoint.is_accepting = False
                self._loop.remove_reader(endpoint.listener.fileno())
                logger.warning("listener %s is at its connection limit and waits", endpoint.name)
                return
            wait_seconds = self.quotas.wait_seconds(endpoint.name, self._loop.time())
            if wait_seconds:
                self._rest_from_accepting(endpoint, wait_seconds)
                return
            try:
                transport, address = endpoint.listener.accept(self._limits)
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as cause:
                # Out of descriptors or memory: trying again at once would only spin.
                logger.error("listener %s cannot accept connections for now: %s", endpoint.name, cause)
                self._rest_from_accepting(endpoint, _ACCEPT_RETRY_SECONDS)
                return
            self._admit(endpoint, transport, address)

    def _rest_from_accepting(self, endpoint: Endpoint, seconds: float) -> None:
        endpoint.is_accepting = False
        endpoint.is_resting = True
        self._loop.remove_reader(endpoint.listener.fileno())
        self._loop.call_later(seconds, self._end_rest, endpoint)

    def _end_rest(self, endpoint: Endpoint) -> None:
        endpoint.is_resting = False
        self._accept_on(endpoint)

    def _admit(self, endpoint: Endpoint, transport: Transport, address: str) -> None:
        # The system hands out the lowest number that is free, so the number says how many are in use.
        if transport.fileno() >= self._limits.socket_descriptors_max:
            transport.close()
            self._warn_of_shortage(address)
            return
        now_seconds = self._loop.time()
        wait_seconds = self.quotas.address_wait_seconds(address, now_seconds)
        if wait_seconds:
            self._close_later(transport, address, wait_seconds)
            return
        if not self.quotas.try_admit(endpoint.name, address, now_seconds):
            logger.info(
                "connection from %s refused: it has %d, max.connections.per.ip",
                address,
                self.quotas.address_limit(address),
            )
            transport.close()
            return
        session = Session(endpoint.name, endpoint.security_protocol, address)
        if endpoint.tls is None:
            self._open(session, transport)
        else:
            self._begin_handshake(endpoint.tls, session, transport)
        self._close_excess()

    def _close_later(self, transport: Transport, address: str, wait_seconds: float) -> None:
        """Turn a connection away that comes too fast. Its client notices after the wait, and comes more slowly."""
        if len(self._held) >= _HELD_MAX:
            transport.close()
            return
        self._held.add(transport)
        logger.info("connection from %s is closed in %.1f s: connection_creation_rate", address, wait_seconds)

        def close() -> None:
            if transport in self._held:
                self._held.discard(transport)
                transport.close()

        self._loop.call_later(wait_seconds, close)

    def _open(self, session: Session, transport: Transport) -> Connection:
        """Serve a client."""
        connection = Connection(self, transport, session)
        if session.listener == self._limits.control_listener:
            connection.channel = self.control_channel
        connection.last_active_ms = self._wall_ms()
        self.connections[connection.fd] = connection
        self._on_open(connection)
        self.start_reading(connection)
        return connection

    def _begin_handshake(self, tls: ListenerTls, session: Session, transport: Transport) -> None:
        if self._handshakes is None:
            # Only now: a broker without TLS starts sooner.
            from tidelog.network.handshakes import Handshakes

            self._handshakes = Handshakes(self._loop)

        def on_done(encrypted: TlsTransport, principal: str) -> None:
            session.principal = principal
            connection = self._open(session, encrypted)
            encrypted.on_left = partial(self.read_soon, connection)
            if encrypted.holds_bytes:
                self.read_soon(connection)

        def on_failed(below: Transport) -> None:
            self.failed_handshakes[session.listener] += 1
            below.close()
            self._release(session)

        self._handshakes.begin(tls, transport, session.address, on_done, on_failed)

    def _warn_of_shortage(self, address: str) -> None:
        """Log at most once in a while: a client that opens too many connections keeps trying."""
        self._refused_for_shortage += 1
        now = self._loop.time()
        if now >= self._next_shortage_warning:
            self._next_shortage_warning = now + _WARNING_INTERVAL_SECONDS
            logger.warning(
                "%d connections refused, the last one from %s: %d of the process's file descriptors are in use and the "
                "rest is kept for files; raise the limit (ulimit -n) or lower max.connections",
                self._refused_for_shortage,
                address,
                self._limits.socket_descriptors_max,
            )
            self._refused_for_shortage = 0

    # --- for connections ---

    def start_reading(self, connection: Connection) -> None:
        self._loop.add_reader(connection.fd, connection.on_readable)

    def stop_reading(self, connection: Connection) -> None:
        self._loop.remove_reader(connection.fd)

    def start_writing(self, connection: Connection, on_writable: Callable[[], None]) -> None:
        self._loop.add_writer(connection.fd, on_writable)

    def stop_writing(self, connection: Connection) -> None:
        self._loop.remove_writer(connection.fd)

    def forget(self, connection: Connection) -> None:
        """Remove all state of a closed connection, before its socket is closed."""
        if self._sender is not None:
            self._sender.collect()
        if self.control_first is not None:
            self.control_first.discard(connection)
            if not len(self.control_first):
                self.control_first = None
        self._loop.remove_reader(connection.fd)
        self._loop.remove_writer(connection.fd)
        del self.connections[connection.fd]
        self._release(connection.session)
        if self.on_forgotten is not None:
            self.on_forgotten(connection)

    def _release(self, session: Session) -> None:
        """One connection less: listeners that were at their limit accept again."""
        self.quotas.release(session.listener, session.address)
        for endpoint in self._endpoints:
            self._accept_on(endpoint)

    def serve_first(self, connection: Connection) -> None:
        """Serve a connection before those of clients from now on: brokers and the controller ask on it.

        Only in a process of its own, where polls are made and descriptors are the system's.
        """
        if self._polling is not None and not connection.is_closed:
            if self.control_first is None:
                self.control_first = ControlFirst(self._on_turn_end)
            self.control_first.add(connection)

    def read_soon(self, connection: Connection) -> None:
        """Have a connection read what its transport holds, after the others had their turn."""
        self._loop.call_soon(_read_on, connection, connection.read_left)

    def wait_for_room(self, connection: Connection) -> None:
        connection.channel.waiting.append(connection)
        self.wake()

    def _any_size(self, _api_key: int) -> int:
        return self.request_bytes_max

    def log_refused_frame(self, connection: Connection, size: int, limit: int) -> None:
        if size >> 16 == _TLS_HANDSHAKE:
            logger.warning(
                "closing %s: it speaks TLS, and the listener %s does not; set security.protocol of the client to %s",
                connection.address,
                connection.session.listener,
                connection.session.security_protocol,
            )
            return
        what = "socket.request.max.bytes is" if limit == self.request_bytes_max else "the limit of its API is"
        if not connection.session.is_authenticated:
            what = "before authentication sasl.server.max.receive.size is"
        logger.warning("closing %s: it announced a request of %d bytes, %s %d", connection.address, size, what, limit)

    # --- turns ---

    def start_polling(self) -> None:
        """Poll for requests that follow each other quickly.

        For a broker that has its process to itself: it would take the interpreter's lock from a test's own thread.
        """
        self._polling = AdaptivePolling(self._loop.call_soon, lambda: self._is_turn_scheduled)

    @property
    def polled_seconds(self) -> float:
        """How long the event loop has polled for requests: it used the processor and was idle."""
        return 0.0 if self._polling is None else self._polling.polled_ns / 1e9

    def schedule_flush(self, connection: Connection) -> None:
        self._to_flush.append(connection)
        # Most replies are made while a turn ends, and leave with that very turn.
        if not self._is_turn_scheduled and not self._is_turn_ending:
            self._is_turn_scheduled = True
            self._loop.call_soon(self._on_turn_end)

    def look_again(self, connection: Connection) -> None:
        """A request waits. If it still does when the turn ends, its peer may have left together with it."""
        self._to_look_at.append(connection)
        self.wake()

    def hand_over_later(self, connection: Connection) -> None:
        """A connection is no longer muted; its next frames belong to the next turn."""
        self._to_hand_over.append(connection)
        if not self._is_turn_ending:
            self.wake()

    def after_flush(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when the replies of this turn have been sent."""
        self._after_flush.append(callback)
        self.wake()

    def wake(self) -> None:
        """Make sure that a turn ends soon: something was staged or completed."""
        if not self._is_turn_scheduled:
            self._is_turn_scheduled = True
            self._loop.call_soon(self._on_turn_end)

    def _on_turn_end(self) -> None:
        self._is_turn_scheduled = False
        self.now_ms = self._wall_ms()
        self._is_turn_ending = True
        try:
            self._end_turn()
        except Exception:
            # What is answered already may leave: a reply is only filled in after the write it acknowledges.
            logger.exception("the end of a turn failed")
        finally:
            self._is_turn_ending = False
        self._flush()
        if self._after_flush:
            callbacks, self._after_flush = self._after_flush, []
            for callback in callbacks:
                callback()
        if self._to_look_at:
            to_look_at, self._to_look_at = self._to_look_at, []
            for connection in to_look_at:
                _read_on(connection, connection.look_again)
        self.buffers.end_turn()
        if self._to_hand_over:
            to_hand_over, self._to_hand_over = self._to_hand_over, []
            for connection in to_hand_over:
                _read_on(connection, connection.hand_over)
        if self.channel.waiting:
            _let_in_waiting(self.channel)
        if self.control_channel.waiting:
            _let_in_waiting(self.control_channel)
        if self._polling is not None:
            self._polling.on_turn_end()

    def _flush(self) -> None:
        """Send what was answered in this turn: connection by connection, or from a second thread if there are many."""
        to_flush = self._to_flush
        self._to_flush = []
        if self._sender is not None:
            self._sender.collect()
            if len(to_flush) >= BATCH_REPLIES_MIN:
                to_flush = self._hand_to_sender(self._sender, to_flush)
        for connection in to_flush:
            try:
                connection.flush()
            except Exception as cause:  # noqa: BLE001 - closes that connection alone
                connection.fail("sending its replies failed", cause)

    def _hand_to_sender(self, sender: ReplySender, to_flush: list[Connection]) -> list[Connection]:
        """Returns the connections that need more than one short reply sent."""
        connections, descriptors, replies, others = [], [], [], []
        for connection in to_flush:
            reply = connection.take_only_reply()
            if reply is None:
                others.append(connection)
            else:
                connections.append(connection)
                descriptors.append(connection.fd)
                replies.append(reply)
        if replies:
            sender.submit(connections, descriptors, replies)
        return others

    # --- housekeeping ---

    def close_idle(self, now_ms: int) -> int:
        """Close connections that have been silent for `connections.max.idle.ms` and wait for nothing."""
        idle_ms_max = self._limits.connections_idle_ms_max
        self.now_ms = now_ms
        if idle_ms_max < 0:
            return 0
        oldest = now_ms - idle_ms_max
        idle = [c for c in self.connections.values() if c.last_active_ms < oldest and not c.unanswered]
        for connection in idle:
            connection.close()
        self.idle_closed += len(idle)
        return len(idle)

    def update_limits(self, limits: NetworkLimits) -> None:
        """Limits changed while running: lowered ones close the connections that were idle longest."""
        self._limits = limits
        self.quotas.update_limits(limits)
        self.request_bytes_max = limits.request_bytes_max
        self.channel.requests_max = limits.queued_requests_max
        self._close_excess()
        for endpoint in self._endpoints:
            self._accept_on(endpoint)

    def _close_excess(self) -> None:
        """Close the connections that were idle longest, those of the protected listener last."""
        excess = self.quotas.excess()
        if excess:
            protected = self._limits.protected_listener
            by_idleness = sorted(
                self.connections.values(), key=lambda each: (each.session.listener == protected, each.last_active_ms)
            )
            for connection in by_idleness[:excess]:
                connection.close()

    def close(self) -> None:
        """Send what is answered already, then end everything."""
        self.stop_accepting()
        self._flush()
        for endpoint in self._endpoints:
            endpoint.listener.close()
        if self._handshakes is not None:
            self._handshakes.close()
        for connection in list(self.connections.values()):
            connection.close()
        for transport in self._held:
            transport.close()
        self._held.clear()
        if self._sender is not None:
            self._sender.close()
            self._sender = None


def _let_in_waiting(channel: RequestChannel) -> None:
    waiting = channel.waiting
    for _ in range(len(waiting)):
        if channel.is_full:
            return
        connection = waiting.popleft()
        if not connection.is_closed:
            _read_on(connection, connection.channel_has_room)


def _read_on(connection: WaitingConnection, take: Callable[[], None]) -> None:
    """Have a connection hand over more frames; should that fail, the others of the turn go on."""
    try:
        take()
    except Exception as cause:  # noqa: BLE001 - closes that connection alone
        connection.fail("reading its requests failed", cause)
