"""One ZooKeeper for all tests of a process, an own chroot in it for each test, and what can happen to a session."""

import socket
import threading
from contextlib import suppress
from functools import cache
from itertools import count

import pytest
from kazoo.client import KazooClient

from tidelog.metadata.store import SessionState, Store, WatchEvent
from tidelog.metadata.zookeeper import ZooKeeperStore
from tidelog.testing.zookeeper import HOST, ZooKeeperServer, unavailable_reason

needs_zookeeper = pytest.mark.skipif(unavailable_reason() is not None, reason=str(unavailable_reason()))
_chroots = count()


@cache
def shared_server() -> ZooKeeperServer:
    """Never stopped by a test; it ends with the test process."""
    return ZooKeeperServer().start()


def fresh_chroot(server: ZooKeeperServer) -> str:
    """An address of a tree that does not exist yet."""
    return f"{server.connect_string}/tests/{next(_chroots)}"


class CuttableProxy:
    """Forwards connections to a port, until it is cut; then it closes them and accepts none until it is restored."""

    def __init__(self, port: int) -> None:
        self._target = (HOST, port)
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._is_cut = False
        self._is_silent = False
        self._silent: list[socket.socket] = []
        self.silent_connections = threading.Semaphore(0)
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def connect_string(self) -> str:
        return f"{HOST}:{self.port}"

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            for connection in self._open:
                _shut(connection)
            self._open.clear()

    def fall_silent(self) -> None:
        """Accept connections and forward nothing of them, now or later."""
        with self._lock:
            self._is_silent = True

    def restore(self) -> None:
        """Forward new connections again."""
        with self._lock:
            self._is_cut = self._is_silent = False

    def close(self) -> None:
        self.cut()
        _shut(self._listener)
        self._listener.close()
        self._accepting.join()
        for connection in self._silent:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._is_cut:
                    client.close()
                    continue
                if self._is_silent:
                    self._silent.append(client)
                    self.silent_connections.release()
                    continue
                try:
                    server = socket.create_connection(self._target, timeout=30)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                self._open += [client, server]
            for pair in ((client, server), (server, client)):
                threading.Thread(target=_pump, args=pair, daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while chunk := source.recv(65536):
            sink.sendall(chunk)
    except OSError:
        pass
    _shut(sink)
    source.close()


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def expire_session(store: ZooKeeperStore) -> None:
    """End the session on the server, as it does when it has heard nothing for too long."""
    end_session(shared_server(), store._client.client_id)


def end_session(server: ZooKeeperServer, client_id: tuple[int, bytes]) -> None:
    """Take a session over, then close it."""
    impostor = KazooClient(hosts=server.connect_string, client_id=client_id, timeout=10)
    impostor.start(timeout=30)
    impostor.stop()
    impostor.close()


class RecordingWatcher:
    """A watcher and its events."""

    def __init__(self) -> None:
        self.events: list[WatchEvent] = []

    def __call__(self, event: WatchEvent) -> None:
        self.events.append(event)


class States:
    """The states that a store reported, to be waited for."""

    def __init__(self, store: Store) -> None:
        self._changed = threading.Condition()
        self.seen: list[SessionState] = []
        store.add_session_listener(self._add)

    def _add(self, state: SessionState) -> None:
        with self._changed:
            self.seen.append(state)
            self._changed.notify_all()

    def wait_for(self, *states: SessionState) -> None:
        """Return when exactly these were reported, in this order."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= len(states), 30), self.seen
            assert tuple(self.seen) == states
