"""What kazoo lacks: requests of our own making, many reads in one, watches that survive a lost connection, and signs of
life.

This is the only module that touches kazoo's inner parts. kazoo drops all watches when a connection is lost, and a watch
that is simply set again misses changes in between. ZooKeeper's request `SetWatches` closes the gap: the server compares
each watched node with the last transaction that the client saw.
"""

import logging
import socket
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from struct import Struct
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import GetChildren, GetData, int_struct, stat_struct, write_string
from kazoo.protocol.states import KeeperState

from tidelog.metadata.zookeeper_options import ZooKeeperOptions

_CONNECT_SECONDS_MAX: Final = 5.0
_SET_WATCHES_PATHS_MAX: Final = 1000
"""Paths in one request; at 250 characters, the longest there are, a quarter of a megabyte."""
_HANDSHAKE_SECONDS_MAX: Final = 2.0
_NOT_LOST: Final = 2**63 - 1
_CONNECTED: Final = (KeeperState.CONNECTED, KeeperState.CONNECTED_RO)
_MULTI_HEADER: Final = Struct("!iBi")
_LONG: Final = Struct("!q")


class MultiRead(NamedTuple):
    """Several reads in one request, as ZooKeeper 3.6 and later have it.

    The response has, for each read, what the read returns, or the exception that it would raise.
    """

    reads: Sequence[Any]
    type: int = 22

    def serialize(self) -> bytes:
        parts = [_MULTI_HEADER.pack(read.type, False, -1) + read.serialize() for read in self.reads]
        return b"".join(parts) + _MULTI_HEADER.pack(-1, True, -1)

    @staticmethod
    def deserialize(data: bytes, offset: int) -> list[Any]:
        found: list[Any] = []
        while True:
            kind, is_done, _ = _MULTI_HEADER.unpack_from(data, offset)
            offset += _MULTI_HEADER.size
            if is_done:
                return found
            if kind == GetData.type:
                found.append(GetData.deserialize(data, offset))
                offset += 4 + max(0, int_struct.unpack_from(data, offset)[0]) + stat_struct.size
            elif kind == GetChildren.type:
                names = GetChildren.deserialize(data, offset)
                found.append(names)
                offset += 4 + sum(4 + len(name.encode()) for name in names)
            else:
                found.append(EXCEPTIONS[int_struct.unpack_from(data, offset)[0]]())
                offset += 4


class SetWatches(NamedTuple):
    """Set watches as of the transaction `zxid`: what has changed since is notified at once."""

    zxid: int
    on_reply: Callable[[], None]
    """Called on kazoo's connection thread."""
    data: Sequence[str] = ()
    exist: Sequence[str] = ()
    children: Sequence[str] = ()
    type: int = 101

    def serialize(self) -> bytes:
        parts = [_LONG.pack(self.zxid)]
        for paths in (self.data, self.exist, self.children):
            parts += [int_struct.pack(len(paths)), *map(write_string, paths)]
        return b"".join(parts)

    def deserialize(self, _data: bytes, _offset: int) -> None:
        self.on_reply()


class LivelyHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads, with signs of life, and with TLS as it is asked for.

    kazoo's own TLS would trust the system's certificates as well.
    """

    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._context = context
        self.signs = 0
        """Goes up whenever kazoo's connection thread waits for something, which it never does for long."""

    def select(self, *args: Any, **kwargs: Any) -> Any:
        self.signs += 1
        return super().select(*args, **kwargs)

    def sleep_func(self, seconds: float) -> None:
        """Called between two attempts to connect."""
        self.signs += 1
        time.sleep(seconds)

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_kwargs: Any
    ) -> socket.socket:
        self.signs += 1
        # The handshake of TLS is part of it, and a server that is about to start may not reply.
        connection = socket.create_connection(address, timeout=min(timeout, _CONNECT_SECONDS_MAX))
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is None:
                return connection
            return self._context.wrap_socket(connection, server_hostname=hostname)
        except BaseException:
            connection.close()
            raise


class WatchKeepingClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """kazoo's client, with watches that last as long as their session.

    A watch is a callable with the attribute `is_for_creation`: whether it waits for a node that was not there.
    """

    _data_watchers: dict[str, set[Any]]
    _child_watchers: dict[str, set[Any]]

    def __init__(self, hosts: str, options: ZooKeeperOptions, logger: logging.Logger) -> None:
        self._kept: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
        self._watched_since = _NOT_LOST
        handler = LivelyHandler(None if options.tls is None else options.tls.context())
        pauses = {"delay": 0.05, "backoff": 2, "max_delay": 1.0, "sleep_func": handler.sleep_func}
        super().__init__(
            hosts=hosts,
            timeout=options.session_timeout_ms / 1000,
            handler=handler,
            connection_retry={"max_tries": -1, **pauses},
            auth_data=list(options.credentials),
            logger=logger,
        )
        self._invoke_as_kazoo = self._connection._invoke
        self._connection._invoke = self._invoke

    @property
    def is_alive(self) -> bool:
        """Whether kazoo's threads run: that of the connection, and those that call watches and listeners."""
        connecting = self._connection._connection_routine
        return connecting is not None and all(each.is_alive() for each in (connecting, *self.handler._workers))

    @property
    def signs(self) -> int:
        """How many signs of life the connection's thread has given."""
        signs: int = self.handler.signs
        return signs

    def abandon(self) -> None:
        """Let go of a client that does not work: what can be stopped of it is, and nothing waits for that."""
        threading.Thread(target=self._stop_what_runs, name="tidelog-zookeeper-abandoned", daemon=True).start()

    def _stop_what_runs(self) -> None:
        with suppress(Exception):  # whatever has ended its threads may have left anything behind
            self.stop()
            self.close()
        connection = self._connection._socket
        if connection is not None:
            with suppress(OSError):
                connection.close()

    def submit(self, request: Any) -> Any:
        """Send a request; its result, to come. Paths of requests are those of the server, chroot included."""
        result = self.handler.async_result()
        self._call(request, result)
        return result

    def _invoke(self, timeout_s: float, request: Any, xid: int | None = None) -> Any:
        """Send a request of the handshake and wait for its reply.

        kazoo waits for the session timeout. But a server that is about to start may take a connection and never reply:
        it is tried again soon.
        """
        return self._invoke_as_kazoo(min(timeout_s / 3, _HANDSHAKE_SECONDS_MAX), request, xid)

    def _session_callback(self, state: Any) -> None:
        """Called on kazoo's connection thread, which alone reads and writes the watches."""
        if state == KeeperState.CONNECTING and self._live.is_set():
            # Replaced, not cleared: kazoo calls the watches that it drops.
            self._kept = (self._data_watchers, self._child_watchers)
            self._watched_since = min(self._watched_since, self.last_zxid)
            self._data_watchers = defaultdict(set)
            self._child_watchers = defaultdict(set)
        elif state not in (KeeperState.CONNECTING, *_CONNECTED):
            self._kept, self._watched_since = None, _NOT_LOST
        super()._session_callback(state)
        if state in _CONNECTED and self._kept is not None:
            kept, self._kept = self._kept, None
            self._restore_watches(*kept)

    def _restore_watches(self, data: Mapping[str, Any], children: Mapping[str, Any]) -> None:
        for path, watches in data.items():
            self._data_watchers[path] |= watches
        for path, watches in children.items():
            self._child_watchers[path] |= watches
        requests = self._set_watches(data, children)
        if not requests:
            self._watched_since = _NOT_LOST
        # Sent before all queued requests: their replies would raise the last zxid and hide missed changes.
        for request in reversed(requests):
            self._queue.appendleft((request, self.handler.async_result()))
        for _ in requests:
            self._connection._write_sock.send(b"\0")

    def _set_watches(self, data: Mapping[str, Any], children: Mapping[str, Any]) -> list[SetWatches]:
        missing = [path for path, watches in data.items() if any(watch.is_for_creation for watch in watches)]
        present = [path for path, watches in data.items() if not any(watch.is_for_creation for watch in watches)]
        chunks: list[dict[str, Any]] = [
            {kind: paths[start : start + _SET_WATCHES_PATHS_MAX]}
            for kind, paths in (("data", present), ("exist", missing), ("children", list(children)))
            for start in range(0, len(paths), _SET_WATCHES_PATHS_MAX)
        ]
        waiting = len(chunks)

        def on_reply() -> None:
            # Until the server has all of them, a second loss of the connection must set them as of the first.
            nonlocal waiting
            waiting -= 1
            if not waiting:
                self._watched_since = _NOT_LOST

        return [SetWatches(self._watched_since, on_reply, **chunk) for chunk in chunks]
