"""The store on a real ZooKeeper."""

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.integration.zookeeper_support import (
    CuttableProxy,
    RecordingWatcher,
    States,
    end_session,
    expire_session,
    fresh_chroot,
    needs_zookeeper,
    shared_server,
)
from tests.property.metadata.test_stores import drive, steps
from tests.unit.metadata.store_contract import StoreContract
from tidelog.metadata import zookeeper
from tidelog.metadata._kazoo import MultiRead
from tidelog.metadata.client_watch import SILENT_TIMEOUTS_MAX
from tidelog.metadata.errors import (
    RequestTooLargeError,
    SessionExpiredError,
    StoreClientFailedError,
    StoreUnavailableError,
)
from tidelog.metadata.store import Create, EventKind, SessionState, Store, WatchEvent
from tidelog.metadata.zookeeper import ZooKeeperStore
from tidelog.metadata.zookeeper_options import ZooKeeperOptions
from tidelog.testing.zookeeper import ZooKeeperServer

pytestmark = needs_zookeeper


class TestZooKeeperStore(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[ZooKeeperStore]:
        store = ZooKeeperStore(fresh_chroot(shared_server()), ZooKeeperOptions(session_timeout_ms=10_000))
        yield store
        store.close()

    def settle(self, store: Store) -> None:
        assert isinstance(store, ZooKeeperStore)
        store.wait_until_notified(30)


OPTIONS = ZooKeeperOptions(session_timeout_ms=10_000)


@pytest.fixture
def address() -> str:
    return fresh_chroot(shared_server())


@pytest.fixture
def proxy() -> Iterator[CuttableProxy]:
    proxy = CuttableProxy(shared_server().port)
    yield proxy
    proxy.close()


@contextmanager
def opened(address: str, options: ZooKeeperOptions = OPTIONS) -> Iterator[ZooKeeperStore]:
    store = ZooKeeperStore(address, options)
    try:
        yield store
    finally:
        store.close()


@settings(max_examples=15, deadline=None)
@given(steps=steps)
def test_it_behaves_like_a_dictionary_that_survives_reopening(steps: list) -> None:
    address = fresh_chroot(shared_server())

    def reopen(store: Store) -> Store:
        store.close()
        return ZooKeeperStore(address, OPTIONS)

    drive(ZooKeeperStore(address, OPTIONS), reopen, steps).close()


def test_two_clients_see_and_watch_the_same_nodes(address: str) -> None:
    with opened(address) as one, opened(address) as other:
        assert one.session_id != other.session_id
        seen: list[WatchEvent] = []
        other.exists("/a", seen.append)
        one.create("/a", b"data", ephemeral=True)
        assert other.get("/a")[0] == b"data"
        assert other.get("/a")[1].ephemeral_owner == one.session_id
        other.wait_until_notified(30)
        assert seen == [WatchEvent(EventKind.CREATED, "/a")]
        other.exists("/a", seen.append)
        one.close()
        other.wait_until_notified(30)
        assert other.exists("/a") is None
        assert seen[1:] == [WatchEvent(EventKind.DELETED, "/a")]


def test_after_an_expiry_a_new_session_begins_by_itself(address: str) -> None:
    with opened(address) as store, opened(address) as other:
        states = States(store)
        seen: list[WatchEvent] = []
        store.create("/ephemeral", ephemeral=True)
        store.create("/stays")
        store.get("/stays", seen.append)
        before = store.session_id
        expire_session(store)
        states.wait_for(SessionState.SUSPENDED, SessionState.EXPIRED, SessionState.CONNECTED)
        assert store.session_id not in (0, before)
        assert other.children("/") == ["stays"]
        other.set("/stays", b"changed")
        store.create("/ephemeral", ephemeral=True)
        assert other.get("/ephemeral")[1].ephemeral_owner == store.session_id
        store.wait_until_notified(30)
        assert seen == [], "the watches ended with the session"


def test_a_lost_connection_loses_neither_nodes_nor_watches(address: str, proxy: CuttableProxy) -> None:
    """Changes made while the client is cut off are notified when it is back, each once; others keep their watches."""
    chroot = address[address.index("/") :]
    with opened(proxy.connect_string + chroot) as store, opened(address) as other:
        store.multi([Create(path) for path in ("/changed", "/deleted", "/parent", "/quiet")])
        store.create("/mine", ephemeral=True)
        states, seen = States(store), RecordingWatcher()
        for path in ("/changed", "/deleted", "/quiet"):
            store.get(path, seen)
        store.exists("/created", seen)
        store.exists("/never", seen)
        store.children("/parent", seen)
        store.children("/quiet", seen)
        proxy.cut()
        states.wait_for(SessionState.SUSPENDED)
        other.set("/changed", b"1")
        other.delete("/deleted")
        other.create("/created")
        other.create("/parent/child")
        proxy.restore()
        states.wait_for(SessionState.SUSPENDED, SessionState.CONNECTED)
        store.wait_until_notified(30)
        assert sorted(seen.events, key=lambda event: event.path) == [
            WatchEvent(EventKind.CHANGED, "/changed"),
            WatchEvent(EventKind.CREATED, "/created"),
            WatchEvent(EventKind.DELETED, "/deleted"),
            WatchEvent(EventKind.CHILDREN, "/parent"),
        ]
        seen.events.clear()
        other.set("/quiet", b"1")
        other.create("/quiet/child")
        other.create("/never")
        store.wait_until_notified(30)
        assert seen.events == [
            WatchEvent(EventKind.CHANGED, "/quiet"),
            WatchEvent(EventKind.CHILDREN, "/quiet"),
            WatchEvent(EventKind.CREATED, "/never"),
        ]
        assert store.get("/mine")[1].ephemeral_owner == store.session_id


def test_calls_wait_for_the_connection_to_come_back(address: str, proxy: CuttableProxy) -> None:
    chroot = address[address.index("/") :]
    with opened(proxy.connect_string + chroot) as store, ThreadPoolExecutor(3) as pool:
        states = States(store)
        proxy.cut()
        states.wait_for(SessionState.SUSPENDED)
        created = pool.submit(store.create, "/a", b"data")
        listed = pool.submit(store.children_many, ["/", "/x"])
        assert not created.done()
        proxy.restore()
        assert created.result(30) == "/a"
        assert listed.result(30)[1] is None
        states.wait_for(SessionState.SUSPENDED, SessionState.CONNECTED)


def test_calls_fail_when_the_session_expires_while_they_wait(address: str, proxy: CuttableProxy) -> None:
    chroot = address[address.index("/") :]
    with opened(proxy.connect_string + chroot) as store, opened(address) as other, ThreadPoolExecutor(1) as pool:
        states = States(store)
        store.create("/mine", ephemeral=True)
        session = store._client.client_id
        proxy.cut()
        states.wait_for(SessionState.SUSPENDED)
        waiting = pool.submit(store.create, "/a")
        end_session(shared_server(), session)
        assert other.exists("/mine") is None
        proxy.restore()
        with pytest.raises(SessionExpiredError):
            waiting.result(30)
        states.wait_for(SessionState.SUSPENDED, SessionState.EXPIRED, SessionState.CONNECTED)
        assert store.children("/") == []


def test_calls_give_up_after_the_session_timeout_and_closing_ends_them(address: str, proxy: CuttableProxy) -> None:
    chroot = address[address.index("/") :]
    short = ZooKeeperOptions(session_timeout_ms=1_000, connection_timeout_ms=30_000)
    with opened(proxy.connect_string + chroot, short) as store, ThreadPoolExecutor(1) as pool:
        proxy.cut()
        with pytest.raises(StoreUnavailableError, match=r"has not replied within 1000 ms"):
            store.get("/")
        waiting = pool.submit(store.get, "/")
        store.close()
        with pytest.raises((SessionExpiredError, StoreUnavailableError)):
            waiting.result(30)


def test_a_restarted_server_keeps_nodes_and_sessions(tmp_path: Path) -> None:
    with ZooKeeperServer(tmp_path) as server, opened(server.connect_string, ZooKeeperOptions()) as store:
        states, seen = States(store), RecordingWatcher()
        store.create("/mine", ephemeral=True)
        store.get("/mine", seen)
        before = store.session_id
        server.restart()
        states.wait_for(SessionState.SUSPENDED, SessionState.CONNECTED)
        assert store.get("/mine")[1].ephemeral_owner == store.session_id == before
        store.set("/mine", b"1")
        store.wait_until_notified(30)
        assert seen.events == [WatchEvent(EventKind.CHANGED, "/mine")]


def test_a_server_that_hangs_suspends_the_session(tmp_path: Path) -> None:
    options = ZooKeeperOptions(session_timeout_ms=2_000)
    with ZooKeeperServer(tmp_path) as server, opened(server.connect_string, options) as store:
        states = States(store)
        server.pause()
        states.wait_for(SessionState.SUSPENDED)
        server.resume()
        assert store.children("/") == ["zookeeper"], "whether in the old session or a new one"


def test_a_server_that_takes_a_connection_and_does_not_reply_is_tried_again(address: str, proxy: CuttableProxy) -> None:
    """ZooKeeper does so while it starts."""
    chroot = address[address.index("/") :]
    proxy.fall_silent()
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(ZooKeeperStore, proxy.connect_string + chroot, ZooKeeperOptions(session_timeout_ms=6_000))
        assert proxy.silent_connections.acquire(timeout=30)
        proxy.restore()
        store = opening.result(30)
        assert store.children("/") == []
        store.close()


def test_an_address_where_no_server_is_says_what_to_check(proxy: CuttableProxy) -> None:
    proxy.cut()
    with pytest.raises(StoreUnavailableError, match=r"cannot be reached within 300 ms: check zookeeper\.connect"):
        ZooKeeperStore(proxy.connect_string, ZooKeeperOptions(session_timeout_ms=2_000, connection_timeout_ms=300))


def test_what_need_not_be_atomic_is_split_and_what_must_be_is_refused(address: str) -> None:
    with opened(address) as store:
        large = [Create(f"/{number}", b"x" * 100_000) for number in range(12)]
        with pytest.raises(RequestTooLargeError, match=r"a transaction of 12 operations from /0 to /11 has \d+ bytes"):
            store.multi(large)
        assert store.children("/") == []
        assert store.submit_all(large) == [operation.path for operation in large]
        with pytest.raises(RequestTooLargeError):
            store.submit_all([Create("/huge", b"x" * 2_000_000)])


def test_a_server_without_reads_of_many_nodes_is_asked_for_each(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As servers before 3.6 are."""
    monkeypatch.setattr(zookeeper, "MultiRead", partial(MultiRead, type=999))
    with opened(address, ZooKeeperOptions(max_in_flight_requests=3)) as store:
        paths = store.submit_all([Create(f"/{number}", b"%d" % number) for number in range(20)])
        assert [node and node[0] for node in store.get_many([*map(str, paths), "/x"])] == [
            *(b"%d" % n for n in range(20)),
            None,
        ]
        assert store.children_many(["/1", "/x"]) == [[], None]


def test_access_lists_let_only_brokers_change_nodes_and_read_the_sensitive_ones(address: str) -> None:
    secured = ZooKeeperOptions(set_acl=True, credentials=(("digest", "broker:secret"),))
    with opened(address, secured) as broker, opened(address) as stranger:
        broker.multi([Create("/config"), Create("/config/users"), Create("/consumers"), Create("/a", b"data")])
        assert stranger.get("/a")[0] == b"data"
        for refused in (lambda: stranger.set("/a", b""), lambda: stranger.get("/config/users")):
            with pytest.raises(StoreUnavailableError, match="ZooKeeper's ACL does not permit it for this broker"):
                refused()
        assert stranger.create("/consumers/group") == "/consumers/group"
        assert broker.set("/a", b"1").version == 1


def test_a_shutdown_need_not_wait_for_a_connection(address: str, proxy: CuttableProxy) -> None:
    chroot = address[address.index("/") :]
    patient = ZooKeeperOptions(session_timeout_ms=60_000)
    with opened(proxy.connect_string + chroot, patient) as store, ThreadPoolExecutor(1) as pool:
        states = States(store)
        proxy.cut()
        states.wait_for(SessionState.SUSPENDED)
        waiting = pool.submit(store.get, "/")
        store.limit_waits(0.05)
        with pytest.raises(StoreUnavailableError, match="within 50 ms"):
            waiting.result(30)
        with pytest.raises(StoreUnavailableError):
            store.get("/")


SHORT = ZooKeeperOptions(session_timeout_ms=4000)
ABANDONED = "tidelog-zookeeper-abandoned"
"""The threads that end what is left of a client."""


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def end_thread(store: ZooKeeperStore) -> None:
    """End the thread of the store's client as an error would that kazoo does not expect."""
    connecting: threading.Thread = store._client._connection._connection_routine
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(connecting.ident or 0), ctypes.py_object(ValueError))
    connecting.join(30)
    assert not connecting.is_alive()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_client_whose_thread_has_ended_is_replaced_and_the_store_is_used_on(address: str) -> None:
    with opened(address, SHORT) as store, ThreadPoolExecutor(1) as pool:
        states = States(store)
        store.look_after()
        store.create("/kept", b"1")
        store.create("/mine", ephemeral=True)
        before = store.session_id
        end_thread(store)
        states.wait_for(SessionState.EXPIRED)
        waiting = pool.submit(store.get, "/kept")
        store.look_after()
        assert waiting.result(30)[0] == b"1"
        states.wait_for(SessionState.EXPIRED, SessionState.CONNECTED)
        assert store.session_id != before
        seen = RecordingWatcher()
        assert store.get("/kept", seen)[0] == b"1"
        store.set("/kept", b"2")
        store.wait_until_notified(30)
        assert seen.events == [WatchEvent(EventKind.CHANGED, "/kept")]
        store.look_after()
        end_thread(store)
        store.look_after()
        states.wait_for(*(SessionState.EXPIRED, SessionState.CONNECTED) * 2)
    wait_until(lambda: not [each for each in threading.enumerate() if each.name == ABANDONED])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_replacement_that_fails_before_it_is_connected_is_the_end(address: str, proxy: CuttableProxy) -> None:
    chroot = address[address.index("/") :]
    with opened(proxy.connect_string + chroot, SHORT) as store:
        states = States(store)
        store.look_after()
        proxy.cut()
        states.wait_for(SessionState.SUSPENDED)
        for _ in range(SILENT_TIMEOUTS_MAX + 1):
            signs = store._client.signs
            wait_until(lambda signs=signs: store._client.signs > signs)  # type: ignore[misc]
            store.look_after()
        states.wait_for(SessionState.SUSPENDED)
        end_thread(store)
        store.look_after()
        wait_until(lambda: store._client.signs > 0)
        end_thread(store)
        with pytest.raises(StoreClientFailedError, match="has ended, although it was renewed"):
            store.look_after()
    wait_until(lambda: not [each for each in threading.enumerate() if each.name == ABANDONED])
