"""The metadata tree of another process of this machine, over a Unix socket: what `SharedTreeServer` serves.

A session is one connection. When it ends, by a crash of the server or because the server heard nothing from us for the
session timeout, the session is over (`EXPIRED`): calls under way raise `SessionExpiredError`, and the client connects
again until it has a new session. A server that does not answer suspends the session; calls wait for it, up to the
session timeout.

One thread reads replies and events and sends heartbeats; watchers and listeners are called on another.
"""

import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from tidelog.metadata.errors import (
    NoNodeError,
    SessionExpiredError,
    StoreClientFailedError,
    StoreError,
    StoreUnavailableError,
)
from tidelog.metadata.event_thread import EventThread
from tidelog.metadata.shared_protocol import (
    EVENT_ID,
    LENGTH,
    MESSAGE_BYTES_MAX,
    Method,
    expect,
    frame,
    operation_value,
    read_error,
    read_event,
    read_message,
    read_node,
    read_outcome,
    read_stat,
    texts,
)
from tidelog.metadata.store import (
    Check,
    NodeData,
    Operation,
    Outcome,
    Result,
    SessionListener,
    SessionState,
    Stat,
    Watcher,
)
from tidelog.metadata.submission import OPERATIONS_MAX
from tidelog.metadata.tree_rules import MultiCalls
from tidelog.metadata.watches import WatchTable, call_watcher

_RECONNECT_DELAY_S: Final = 0.05
_READ_BYTES: Final = 256 * 1024

_logger = logging.getLogger(__name__)
_OnReply = Callable[[Any], object]


class SharedStore(MultiCalls):
    """A session with the tree that is served at the socket `path`. See `Store` for the methods.

    Unlike others, this one may be called by several threads at once.
    """

    def __init__(
        self, path: str, *, session_timeout_ms: int = 18_000, connection_timeout_ms: int | None = None
    ) -> None:
        """`connection_timeout_ms` is how long the server may take to be there; None is the session timeout."""
        self._path = path
        self._timeout_s = session_timeout_ms / 1000
        self._wait_s = (connection_timeout_ms or session_timeout_ms) / 1000
        """How long a call waits; until there is a first connection, how long that may take."""
        self._session_timeout_ms = session_timeout_ms
        self._events = EventThread("tidelog-shared-store-events")
        self._watches = WatchTable()
        self._listeners: list[SessionListener] = []
        self._changed = threading.Condition()
        self._state = SessionState.EXPIRED
        self._session_id = 0
        self._is_closed = False
        self._socket: socket.socket | None = None
        self._waiting: deque[_Call] = deque()
        self._last_error: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="tidelog-shared-store", daemon=True)
        self._thread.start()
        try:
            self._wait_until_connected(time.monotonic())
        except BaseException:
            self.close()
            raise
        self._wait_s = self._timeout_s

    @property
    def session_id(self) -> int:
        return self._session_id

    def get(self, path: str, watch: Watcher | None = None) -> NodeData:
        (found,) = self.get_many([path], watch)
        if found is None:
            raise NoNodeError(path)
        return found

    def get_many(self, paths: Sequence[str], watch: Watcher | None = None) -> list[NodeData | None]:
        def register(chunk: Sequence[str], nodes: list[Any]) -> None:
            for path, node in zip(chunk, nodes, strict=True):
                self._watches.watch_data(path, None if node is None else watch)

        calls = [
            self._send(Method.GET_MANY, chunk, watch is not None, on_reply=partial(register, chunk))
            for chunk in _chunks(paths)
        ]
        return [read_node(node) for call in calls for node in self._receive(call)]

    def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        register: _OnReply = lambda _found: self._watches.watch_data(path, watch)  # noqa: E731
        found = self._receive(self._send(Method.EXISTS, path, watch is not None, on_reply=register))
        return None if found is None else read_stat(found)

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        register: _OnReply = lambda _names: self._watches.watch_children(path, watch)  # noqa: E731
        return texts(self._receive(self._send(Method.CHILDREN, path, watch is not None, on_reply=register)))

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        calls = [self._send(Method.CHILDREN_MANY, chunk) for chunk in _chunks(paths)]
        return [None if names is None else texts(names) for call in calls for names in self._receive(call)]

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        values = [operation_value(operation) for operation in operations]
        found = [read_outcome(value) for value in self._receive(self._send(Method.MULTI, values))]
        return [result for result in found if not isinstance(result, StoreError)]

    def submit_all(self, operations: Sequence[Operation], fence: Check | None = None) -> list[Outcome]:
        fence_value = None if fence is None else operation_value(fence)
        calls = [
            self._send(Method.SUBMIT_ALL, [operation_value(operation) for operation in chunk], fence_value)
            for chunk in _chunks(operations)
        ]
        return [read_outcome(value) for call in calls for value in self._receive(call)]

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    def limit_waits(self, seconds: float) -> None:
        with self._changed:
            self._wait_s = min(self._wait_s, seconds)
            self._changed.notify_all()

    def look_after(self) -> None:
        if not self._is_closed and not self._thread.is_alive():
            raise StoreClientFailedError(f"the client of the metadata socket {self._path} has ended")

    def close(self) -> None:
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            self._changed.notify_all()
            if self._socket is not None:
                _shut(self._socket)
        self._events.stop()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def wait_until_notified(self, timeout_s: float) -> None:
        """Return when watchers and listeners were called for everything that happened before; for tests."""
        self.exists("/")
        if not self._events.wait_until_idle(timeout_s):
            raise TimeoutError(f"watchers were not called within {timeout_s} s")

    # Calls

    def _send(self, method: Method, *arguments: Any, on_reply: _OnReply | None = None) -> "_Call":
        """Send a request once there is a connection. `on_reply` is called before any later event is looked at."""
        call = _Call(on_reply)
        with self._changed:
            self._wait_until_connected(call.began)
            self._transmit(method, arguments, call)
        return call

    def _transmit(self, method: Method, arguments: Sequence[Any], call: "_Call") -> None:
        """Send a request and queue its call. The condition's lock is held: replies come in the order of sending."""
        assert self._socket is not None
        message = frame([len(self._waiting) + 1, method, *arguments])
        self._waiting.append(call)
        try:
            self._socket.sendall(message)
        except OSError as error:
            # The thread that reads finds the connection broken, too, and ends the session.
            _shut(self._socket)
            raise SessionExpiredError(f"the connection to the metadata socket {self._path} broke: {error}") from error

    def _receive(self, call: "_Call") -> Any:
        with self._changed:
            while not call.is_done:
                self._wait_for_change(call.began)
        if call.error is not None:
            raise call.error
        return call.result

    def _wait_until_connected(self, began: float) -> None:
        with self._changed:
            while self._state is not SessionState.CONNECTED:
                if self._is_closed:
                    raise SessionExpiredError("the session with the shared metadata tree is closed")
                self._wait_for_change(began)
            if self._is_closed:
                raise SessionExpiredError("the session with the shared metadata tree is closed")

    def _wait_for_change(self, began: float) -> None:
        """Wait for anything to happen, on behalf of a call that began then; raise if that has waited for too long."""
        remaining_s = began + self._wait_s - time.monotonic()
        if remaining_s <= 0:
            raise self._unreachable()
        self._changed.wait(remaining_s)

    def _unreachable(self) -> StoreUnavailableError:
        reason = "it does not answer" if self._last_error is None else str(self._last_error)
        return StoreUnavailableError(f"the metadata socket {self._path} cannot be reached: {reason}")

    # The thread that reads

    def _run(self) -> None:
        while not self._is_closed:
            connection = self._open()
            if connection is not None:
                try:
                    self._read_until_broken(connection)
                except (OSError, ValueError, StoreError) as error:
                    if not self._is_closed:
                        _logger.warning("the session with the shared metadata tree is over: %s", error)
                finally:
                    self._end_session(connection)
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed, _RECONNECT_DELAY_S)

    def _open(self) -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(self._timeout_s)
            connection.connect(self._path)
        except OSError as error:
            self._last_error = error
            connection.close()
            return None
        with self._changed:
            if self._is_closed:
                connection.close()
                return None
            self._socket = connection
            self._last_error = None
            greeting = _Call(self._begin_session)
            self._waiting.append(greeting)
            try:
                connection.sendall(frame([1, Method.HELLO, self._session_timeout_ms]))
            except OSError as error:
                self._last_error = error
        return connection

    def _begin_session(self, session_id: object) -> None:
        self._session_id = expect(session_id, int)
        self._report(SessionState.CONNECTED)

    def _end_session(self, connection: socket.socket) -> None:
        with self._changed:
            self._socket = None
            connection.close()
            for call in self._waiting:
                call.fail(SessionExpiredError("the session with the shared metadata tree is over"))
            self._waiting.clear()
            self._watches.clear()
            if self._state is not SessionState.EXPIRED:
                self._report(SessionState.EXPIRED)
            self._changed.notify_all()

    def _report(self, state: SessionState) -> None:
        """Change the state. The condition's lock is held."""
        self._state = state
        self._changed.notify_all()
        if not self._is_closed:
            for listener in tuple(self._listeners):
                self._events.post(partial(listener, state))

    def _read_until_broken(self, connection: socket.socket) -> None:
        """Take in replies and events; send a heartbeat when a third of the timeout passes without either."""
        buffer = bytearray()
        silent = 0
        connection.settimeout(self._timeout_s / 3)
        while True:
            try:
                chunk = connection.recv(_READ_BYTES)
            except TimeoutError:
                silent += 1
                self._be_silent(silent)
                continue
            if not chunk:
                raise ConnectionError("the server closed the connection")
            silent = 0
            buffer += chunk
            self._take_in(buffer)

    def _be_silent(self, thirds: int) -> None:
        with self._changed:
            # A heartbeat went out a third ago and was not answered.
            if thirds == 2 and self._state is SessionState.CONNECTED:
                self._report(SessionState.SUSPENDED)
            if thirds == 1:
                self._transmit(Method.PING, (), _Call(None))

    def _take_in(self, buffer: bytearray) -> None:
        """Handle the messages that are complete, and leave the rest."""
        at = 0
        with self._changed:
            if self._state is SessionState.SUSPENDED:
                self._report(SessionState.CONNECTED)
            while len(buffer) - at >= LENGTH.size:
                (size,) = LENGTH.unpack_from(buffer, at)
                if size > MESSAGE_BYTES_MAX:
                    raise ValueError(f"the server announced a message of {size} bytes")
                end = at + LENGTH.size + size
                if end > len(buffer):
                    break
                self._handle(read_message(bytes(memoryview(buffer)[at + LENGTH.size : end])))
                at = end
            self._changed.notify_all()
        del buffer[:at]

    def _handle(self, message: list[Any]) -> None:
        if message[0] == EVENT_ID:
            for watcher, event in self._watches.take([read_event(message)]):
                self._events.post(partial(call_watcher, watcher, event))
            return
        if not self._waiting:
            raise ValueError("the server sent a reply to no request")
        call = self._waiting.popleft()
        _, is_success, *content = message
        if is_success:
            call.succeed(*content)
        else:
            call.fail(read_error(content))


class _Call:
    """A request under way."""

    __slots__ = ("began", "error", "is_done", "on_reply", "result")

    def __init__(self, on_reply: _OnReply | None) -> None:
        self.began = time.monotonic()
        self.on_reply = on_reply
        self.is_done = False
        self.result: Any = None
        self.error: StoreError | None = None

    def succeed(self, result: Any) -> None:
        self.result = result
        self.is_done = True
        if self.on_reply is not None:
            self.on_reply(result)

    def fail(self, error: StoreError) -> None:
        self.error = error
        self.is_done = True


def _chunks(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[start : start + OPERATIONS_MAX] for start in range(0, len(items), OPERATIONS_MAX)] or [()]


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
