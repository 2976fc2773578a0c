"""The embedded tree, shared by several processes over a Unix socket."""

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integration.shared_tree import TreeThread, serving, serving_process, short_directory
from tests.integration.zookeeper_support import RecordingWatcher, States
from tests.property.metadata.test_stores import drive, steps
from tests.unit.metadata.store_contract import StoreContract
from tidelog.metadata.errors import SessionExpiredError, StoreLockedError, StoreUnavailableError
from tidelog.metadata.shared import SharedStore
from tidelog.metadata.shared_protocol import LENGTH, Method, frame
from tidelog.metadata.shared_server import SharedTreeServer
from tidelog.metadata.store import Create, EventKind, NodeData, SessionState, Store, WatchEvent
from tidelog.metadata.walk import subtree


@pytest.fixture
def directory() -> Iterator[Path]:
    with short_directory() as directory:
        yield directory


@pytest.fixture
def tree(directory: Path) -> Iterator[TreeThread]:
    with serving(directory) as tree:
        yield tree


@contextmanager
def opened(path: str, session_timeout_ms: int = 10_000) -> Iterator[SharedStore]:
    store = SharedStore(path, session_timeout_ms=session_timeout_ms)
    try:
        yield store
    finally:
        store.close()


class TestSharedStore(StoreContract):
    @pytest.fixture
    def store(self, tree: TreeThread) -> Iterator[SharedStore]:
        with opened(tree.path) as store:
            yield store

    def settle(self, store: Store) -> None:
        assert isinstance(store, SharedStore)
        store.wait_until_notified(30)


@settings(max_examples=15, deadline=None)
@given(steps=steps)
def test_it_behaves_like_a_dictionary_that_survives_reopening(steps: list) -> None:
    with short_directory() as directory, serving(directory) as tree:

        def reopen(store: Store) -> Store:
            store.close()
            with opened(tree.path) as witness:
                # The server ends a session when it reads that the connection is closed, which may be later.
                assert wait_until(lambda: not any(node and node[1].ephemeral_owner for node in all_nodes(witness)))
            return SharedStore(tree.path)

        drive(SharedStore(tree.path), reopen, steps).close()


def all_nodes(store: Store) -> list[NodeData | None]:
    return store.get_many(subtree(store, "/"))


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            return False
    return True


def test_sessions_see_and_watch_the_same_nodes_and_end_with_their_connection(tree: TreeThread) -> None:
    with opened(tree.path) as one, opened(tree.path) as other:
        assert one.session_id != other.session_id
        deleted = Expected()
        one.create("/a", b"data", ephemeral=True)
        assert other.get("/a", deleted)[1].ephemeral_owner == one.session_id
        one.close()
        assert deleted.wait() == [WatchEvent(EventKind.DELETED, "/a")]
        assert other.children("/") == []


def test_ephemeral_nodes_of_a_killed_client_go_at_once(tree: TreeThread) -> None:
    with client_process(tree.path, 60_000) as client, opened(tree.path) as store:
        deleted = Expected()
        assert store.exists("/client", deleted) is not None
        client.kill()
        assert deleted.wait() == [WatchEvent(EventKind.DELETED, "/client")]


def test_a_client_that_hangs_loses_its_session_after_the_timeout_and_has_a_new_one_afterwards(
    tree: TreeThread,
) -> None:
    with client_process(tree.path, 1000) as client, opened(tree.path) as store:
        assert client.stdout is not None
        deleted = Expected()
        assert store.exists("/client", deleted) is not None
        client.send_signal(signal.SIGSTOP)
        assert deleted.wait() == [WatchEvent(EventKind.DELETED, "/client")]
        client.send_signal(signal.SIGCONT)
        assert [client.stdout.readline() for _ in range(2)] == ["expired\n", "connected\n"]


def test_heartbeats_keep_an_idle_session(tree: TreeThread) -> None:
    """Several timeouts of one client pass, as another client's expiries count them, and it is still there."""
    with opened(tree.path, 1500) as idle:
        states = States(idle)
        idle.create("/idle", ephemeral=True)
        for _ in range(2):
            with client_process(tree.path, 1000) as client, opened(tree.path) as store:
                deleted = Expected()
                store.exists("/client", deleted)
                client.send_signal(signal.SIGSTOP)
                deleted.wait()
        assert idle.get("/idle")[1].ephemeral_owner == idle.session_id
        assert states.seen == []


def test_a_server_that_hangs_suspends_sessions_and_ends_none(directory: Path) -> None:
    with serving_process(directory) as server, opened(str(directory / "socket"), 1500) as store:
        states = States(store)
        store.create("/mine", ephemeral=True)
        server.send_signal(signal.SIGSTOP)
        states.wait_for(SessionState.SUSPENDED)
        with pytest.raises(StoreUnavailableError, match="does not answer"):
            store.get("/")
        server.send_signal(signal.SIGCONT)
        states.wait_for(SessionState.SUSPENDED, SessionState.CONNECTED)
        assert store.get("/mine")[1].ephemeral_owner == store.session_id


def test_a_restarted_server_has_the_nodes_and_new_sessions(directory: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        with serving_process(directory) as server:
            store = SharedStore(str(directory / "socket"), session_timeout_ms=30_000)
            states = States(store)
            store.multi([Create("/stays", b"data"), Create("/ephemeral", ephemeral=True)])
            before = store.session_id
            server.kill()
            states.wait_for(SessionState.EXPIRED)
        waiting = pool.submit(store.get, "/stays")
        with serving_process(directory):
            assert waiting.result(30)[0] == b"data"
            states.wait_for(SessionState.EXPIRED, SessionState.CONNECTED)
            assert store.session_id != before
            assert store.exists("/ephemeral") is None
            store.close()


def test_calls_under_way_fail_when_the_server_goes(directory: Path) -> None:
    with (
        serving_process(directory) as server,
        opened(str(directory / "socket")) as store,
        ThreadPoolExecutor(1) as pool,
    ):
        server.send_signal(signal.SIGSTOP)
        waiting = pool.submit(store.get, "/")
        assert wait_until(lambda: bool(store._waiting))
        server.kill()
        with pytest.raises(SessionExpiredError):
            waiting.result(30)


def test_a_shutdown_need_not_wait_for_a_server_that_hangs(directory: Path) -> None:
    with serving_process(directory) as server, opened(str(directory / "socket"), 60_000) as store:
        with ThreadPoolExecutor(1) as pool:
            server.send_signal(signal.SIGSTOP)
            waiting = pool.submit(store.get, "/")
            assert wait_until(lambda: bool(store._waiting))
            store.limit_waits(0.05)
            with pytest.raises(StoreUnavailableError, match="does not answer"):
                waiting.result(30)
        server.kill()


def test_only_the_user_may_connect(tree: TreeThread) -> None:
    assert stat.S_IMODE(os.stat(tree.path).st_mode) == 0o600


def test_a_path_that_is_too_long_for_a_socket_is_refused(directory: Path) -> None:
    with pytest.raises(StoreUnavailableError, match=r"has 1\d\d bytes, the limit is 10\d: choose a directory"):
        SharedTreeServer(None, str(directory / ("x" * 120)))  # type: ignore[arg-type]


def test_one_socket_has_one_server_and_what_a_dead_one_left_is_replaced(tree: TreeThread, directory: Path) -> None:
    other = directory / "other"
    other.mkdir()
    os.symlink(tree.path, other / "socket")
    with pytest.raises(StoreLockedError, match="is in use by another process"):
        TreeThread(other)
    os.unlink(other / "socket")
    left_behind = socket.socket(socket.AF_UNIX)
    left_behind.bind(str(other / "socket"))
    left_behind.close()
    with serving(other) as second, opened(second.path) as store:
        assert store.children("/") == []
    (other / "socket").write_text("a file")
    with pytest.raises(StoreUnavailableError, match="another file has this name"):
        TreeThread(other)


def test_a_socket_where_no_server_is_says_so(directory: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="No such file or directory"):
        SharedStore(str(directory / "none"), session_timeout_ms=200)


@pytest.fixture(scope="module")
def fuzzed_tree() -> Iterator[TreeThread]:
    """One server for all examples."""
    with short_directory() as directory, serving(directory) as tree:
        yield tree


@settings(max_examples=60, deadline=None)
@given(
    payloads=st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.lists(
                st.recursive(
                    st.one_of(st.none(), st.booleans(), st.integers(-3, 9), st.binary(max_size=4), st.text(max_size=4)),
                    lambda inner: st.lists(inner, max_size=3),
                    max_leaves=8,
                ),
                max_size=5,
            ).map(lambda message: frame(message)[LENGTH.size :]),
        ),
        max_size=4,
    ),
    is_greeted=st.booleans(),
)
def test_a_client_that_speaks_something_else_harms_no_other(
    fuzzed_tree: TreeThread, payloads: list[bytes], is_greeted: bool
) -> None:
    tree = fuzzed_tree
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(tree.path)
        raw.settimeout(30)
        if is_greeted:
            raw.sendall(frame([1, Method.HELLO, 5000]))
        for payload in payloads:
            try:
                raw.sendall(LENGTH.pack(len(payload)) + payload)
            except BrokenPipeError:
                break
    with opened(tree.path) as store:
        assert store.exists("/") is not None


def test_a_message_that_is_too_long_is_not_waited_for(tree: TreeThread) -> None:
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(tree.path)
        raw.settimeout(30)
        raw.sendall(LENGTH.pack(2**32 - 1))
        assert raw.recv(1) == b""


class Expected(RecordingWatcher):
    """A watcher whose event is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._is_notified = threading.Event()

    def __call__(self, event: WatchEvent) -> None:
        super().__call__(event)
        self._is_notified.set()

    def wait(self) -> list[WatchEvent]:
        assert self._is_notified.wait(30)
        return self.events


CLIENT = """
import sys, threading
from tidelog.metadata.shared import SharedStore
store = SharedStore(sys.argv[1], session_timeout_ms=int(sys.argv[2]))
store.add_session_listener(lambda state: print(state.value, flush=True))
store.create("/client", ephemeral=True)
print("ready", flush=True)
threading.Event().wait()
"""


@contextmanager
def client_process(path: str, session_timeout_ms: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", CLIENT, path, str(session_timeout_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()
