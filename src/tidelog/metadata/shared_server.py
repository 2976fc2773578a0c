"""One embedded tree for several brokers of one machine, served over a Unix socket.

Every connection is a session: its ephemeral nodes and watches end with it. A client that is silent for its session
timeout, because it hangs or is stopped, is disconnected. The tree is used on a thread of its own, one request after the
other, so that the event loop never waits for a disk.

Only the user who runs the server may connect: the socket has the permissions 0600. A client that sends something other
than the protocol is disconnected; other clients are unaffected.
"""

import asyncio
import contextlib
import logging
import os
import socket
import stat
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from tidelog.metadata._values import Value
from tidelog.metadata.embedded import EmbeddedStore, new_session_id
from tidelog.metadata.errors import StoreError, StoreLockedError, StoreUnavailableError
from tidelog.metadata.shared_protocol import (
    LENGTH,
    MESSAGE_BYTES_MAX,
    Method,
    error_value,
    event_value,
    expect,
    frame,
    node_value,
    outcome_value,
    read_message,
    read_operation,
    stat_value,
    texts,
)
from tidelog.metadata.store import Check, Operation, Result, WatchEvent
from tidelog.metadata.submission import submit_each
from tidelog.metadata.watches import WatchTable

SOCKET_PATH_BYTES_MAX: Final = 103 if sys.platform == "darwin" else 107
SESSION_TIMEOUT_MS_MIN: Final = 100
SESSION_TIMEOUT_MS_MAX: Final = 24 * 3600 * 1000
_GREETING_TIMEOUT_MS: Final = 10_000
_TICKS: Final = 8
"""How often a session is checked within its timeout. Ticks are counted instead of time: while the server itself was
stopped it read from no client, and must disconnect none for that."""
_QUEUED_MAX: Final = 256
_UNREAD_BYTES_MAX: Final = MESSAGE_BYTES_MAX

_logger = logging.getLogger(__name__)


class _Output(NamedTuple):
    """What to send to a session; None closes it."""

    session: "_Session"
    data: bytes | None


class SharedTreeServer:
    """Serves `tree` at the socket `path` to `SharedStore`s. It owns the tree: `stop` closes it."""

    def __init__(self, tree: EmbeddedStore, path: str) -> None:
        check_socket_path(path)
        self._path = path
        self._tree = tree
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="tidelog-shared-tree")
        self._queue: asyncio.Queue[tuple[_Session, bytes | None]] = asyncio.Queue(_QUEUED_MAX)
        self._sessions: dict[_Session, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None
        self._requests: _Requests | None = None
        self._worker: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen. Raises `StoreLockedError` if another server does so at this path."""
        listener = _listen(self._path)
        self._requests = _Requests(self._tree, asyncio.get_running_loop())
        self._worker = asyncio.create_task(self._work(self._requests))
        self._server = await asyncio.start_unix_server(self._accept, sock=listener)

    async def wait_until_left(self) -> None:
        """Returns when no client is connected any more."""
        while self._sessions:
            await asyncio.wait(set(self._sessions.values()))

    async def stop(self) -> None:
        """End all sessions and close the tree. Stopping twice does nothing."""
        if self._server is None or self._worker is None or self._requests is None:
            return
        self._server.close()
        self._server = None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        for session in list(self._sessions):
            session.close()
        await asyncio.gather(*self._sessions.values(), return_exceptions=True)
        await self._queue.join()
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(self._executor, self._requests.close)
        self._executor.shutdown()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = _Session(reader, writer)
        self._sessions[session] = asyncio.create_task(self._serve(session))

    async def _serve(self, session: "_Session") -> None:
        try:
            while (payload := await session.next_payload()) is not None:
                await self._queue.put((session, payload))
        finally:
            session.close()
            self._sessions.pop(session, None)
            # After its last request, in the same order: its ephemeral nodes go when that has been carried out.
            await self._queue.put((session, None))

    async def _work(self, requests: "_Requests") -> None:
        """Carry out what is queued, together as far as it has come together."""
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get_nowait())
            try:
                for session, data in await loop.run_in_executor(self._executor, requests.carry_out, batch):
                    session.send(data)
            except Exception:
                _logger.exception("the shared metadata tree failed to carry out %d requests", len(batch))
                for session, _ in batch:
                    session.close()
            finally:
                for _ in batch:
                    self._queue.task_done()


class _Session:
    """One client's connection. `watches` and `session_id` belong to the tree's thread, the rest to the event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._silent_ticks = 0
        self._ticker: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.session_id = 0
        self.watches = WatchTable()
        self.set_timeout(_GREETING_TIMEOUT_MS)

    async def next_payload(self) -> bytes | None:
        """The next message; None when the connection ends or sends a malformed one."""
        try:
            (size,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
            if size > MESSAGE_BYTES_MAX:
                _logger.warning(
                    "disconnecting a client of the shared metadata tree: it announced a message of %d bytes", size
                )
                return None
            payload = await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, OSError):
            return None
        self._silent_ticks = 0
        return payload

    def set_timeout(self, timeout_ms: int) -> None:
        """Disconnect the client when it is silent for so long."""
        self._timeout_ms = timeout_ms
        self._schedule_tick()

    def send(self, data: bytes | None) -> None:
        if data is None:
            self.close()
        elif not self._writer.is_closing():
            self._writer.write(data)
            if self._writer.transport.get_write_buffer_size() > _UNREAD_BYTES_MAX:
                _logger.warning(
                    "closing session %#x of the shared metadata tree: it does not read its replies", self.session_id
                )
                self.close()

    def close(self) -> None:
        self._is_closed = True
        if self._ticker is not None:
            self._ticker.cancel()
        # Not `close`, which would wait until a client that hangs has read what it was sent.
        self._writer.transport.abort()

    def _schedule_tick(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        if self._is_closed:
            return
        delay_s = self._timeout_ms / 1000 / _TICKS
        self._ticker = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._silent_ticks += 1
        if self._silent_ticks > _TICKS:
            _logger.warning(
                "session %#x of the shared tree expired: no message for %d ms", self.session_id, self._timeout_ms
            )
            self.close()
        else:
            self._schedule_tick()


class _Requests:
    """What clients ask for, carried out on the tree. Everything here runs on the tree's thread."""

    def __init__(self, tree: EmbeddedStore, loop: asyncio.AbstractEventLoop) -> None:
        self._tree = tree
        self._loop = loop
        self._sessions: dict[int, _Session] = {}
        self._outputs: list[_Output] = []
        self._methods: dict[int, tuple[int, Callable[..., Value]]] = {
            Method.PING: (0, lambda _session: None),
            Method.GET_MANY: (2, self._get_many),
            Method.EXISTS: (2, self._exists),
            Method.CHILDREN: (2, self._children),
            Method.CHILDREN_MANY: (1, lambda _session, paths: self._tree.children_many(texts(paths))),
            Method.MULTI: (1, self._multi),
            Method.SUBMIT_ALL: (2, self._submit_all),
        }
        """How many arguments each takes, and what does it."""

    def carry_out(self, batch: Sequence[tuple[_Session, bytes | None]]) -> list[_Output]:
        """Carry out requests, of which None is the end of a session; what is to be sent, in order."""
        outputs = self._outputs = []
        for session, payload in batch:
            if payload is None:
                self._end(session)
                continue
            try:
                outputs.append(_Output(session, frame(self._reply(session, payload))))
            except (ValueError, StoreError) as error:
                _logger.warning("disconnecting a client of the shared metadata tree: %s", error)
                outputs.append(_Output(session, None))
        return outputs

    def close(self) -> None:
        self._tree.close()

    def _reply(self, session: _Session, payload: bytes) -> Value:
        """Raises `ValueError` for a malformed request."""
        request_id, method, *arguments = read_message(payload)
        try:
            if session.session_id == 0:
                return [request_id, True, self._hello(session, method, arguments)]
            known = self._methods.get(expect(method, int))
            if known is None or len(arguments) != known[0]:
                raise ValueError(f"there is no method {method} of {len(arguments)} arguments")
            return [request_id, True, known[1](session, *arguments)]
        except StoreError as error:
            return [request_id, False, *error_value(error)]

    def _hello(self, session: _Session, method: object, arguments: list[Any]) -> int:
        if method != Method.HELLO or len(arguments) != 1:
            raise ValueError("the first message is not HELLO")
        timeout_ms = min(max(SESSION_TIMEOUT_MS_MIN, expect(arguments[0], int)), SESSION_TIMEOUT_MS_MAX)
        session.session_id = new_session_id()
        self._sessions[session.session_id] = session
        self._loop.call_soon_threadsafe(session.set_timeout, timeout_ms)
        return session.session_id

    def _end(self, session: _Session) -> None:
        if self._sessions.pop(session.session_id, None) is not None:
            session.watches.clear()
            try:
                self._notify(self._tree.end_session(session.session_id))
            except StoreError as error:
                _logger.error("the ephemeral nodes of session %#x cannot be removed: %s", session.session_id, error)

    def _get_many(self, session: _Session, paths: object, is_watched: object) -> Value:
        names = texts(paths)
        nodes = self._tree.get_many(names)
        if expect(is_watched, bool):
            for path, node in zip(names, nodes, strict=True):
                session.watches.watch_data(path, None if node is None else _watched)
        return [node_value(node) for node in nodes]

    def _exists(self, session: _Session, path: object, is_watched: object) -> Value:
        found = self._tree.exists(expect(path, str))
        session.watches.watch_data(expect(path, str), _watched if expect(is_watched, bool) else None)
        return None if found is None else stat_value(found)

    def _children(self, session: _Session, path: object, is_watched: object) -> Value:
        names = self._tree.children(expect(path, str))
        session.watches.watch_children(expect(path, str), _watched if expect(is_watched, bool) else None)
        return names

    def _multi(self, session: _Session, operations: object) -> Value:
        return [outcome_value(result) for result in self._transact(session, _operations(operations))]

    def _submit_all(self, session: _Session, operations: object, fence: object) -> Value:
        check = None if fence is None else read_operation(fence)
        if check is not None and not isinstance(check, Check):
            raise ValueError("a fence is a check")
        outcomes = submit_each(lambda batch: self._transact(session, batch), _operations(operations), check)
        return [outcome_value(outcome) for outcome in outcomes]

    def _transact(self, session: _Session, operations: Sequence[Operation]) -> list[Result]:
        results, events = self._tree.transact(operations, session.session_id)
        self._notify(events)
        return results

    def _notify(self, events: Sequence[WatchEvent]) -> None:
        for session in self._sessions.values():
            for _, event in session.watches.take(events):
                self._outputs.append(_Output(session, frame(event_value(event))))


def _watched(_event: WatchEvent) -> None:
    """Marks a node that the session watches. The client maps the event to its own watchers."""


def _operations(value: object) -> list[Operation]:
    return [read_operation(item) for item in expect(value, list)]


def check_socket_path(path: str) -> None:
    """Raise if the operating system cannot have a socket at this path."""
    size = len(os.fsencode(path))
    if size > SOCKET_PATH_BYTES_MAX:
        raise StoreUnavailableError(
            f"the path of the metadata socket, {path}, has {size} bytes, the limit is {SOCKET_PATH_BYTES_MAX}: choose "
            "a directory with a shorter path"
        )


def _listen(path: str) -> socket.socket:
    """A socket at `path` that only our user may connect to. One that a dead server left behind is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        listener.bind(path)
        # No process can connect before `listen`, and only this one afterwards.
        os.chmod(path, stat.S_IRUSR | stat.S_IWUSR)
        listener.listen()
    except OSError as error:
        listener.close()
        raise StoreUnavailableError(f"the metadata socket {path} cannot be created: {error}") from error
    except BaseException:
        listener.close()
        raise
    return listener


def _remove_stale(path: str) -> None:
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise StoreUnavailableError(f"the metadata socket {path} cannot be created: another file has this name")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError:
            os.unlink(path)
        else:
            raise StoreLockedError(f"the metadata socket {path} is in use by another process")
