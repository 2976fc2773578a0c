from collections.abc import Callable

import pytest

from tests.unit.metadata.store_contract import StoreContract
from tidelog.metadata.errors import SessionExpiredError, StoreUnavailableError
from tidelog.metadata.store import EventKind, SessionState, WatchEvent
from tidelog.testing.memory_store import MemoryStore, MemoryTree


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


def test_sessions_of_one_tree_see_and_watch_the_same_nodes() -> None:
    tree = MemoryTree()
    one, other = tree.connect(), tree.connect()
    assert one.session_id != other.session_id
    seen: list[WatchEvent] = []
    other.exists("/a", seen.append)
    one.create("/a", b"data")
    assert other.get("/a")[0] == b"data"
    assert seen == [WatchEvent(EventKind.CREATED, "/a")]


class Client:
    """A store, and what it reported."""

    def __init__(self, tree: MemoryTree) -> None:
        self.store = tree.connect()
        self.states: list[SessionState] = []
        self.seen: list[WatchEvent] = []
        self.store.add_session_listener(self.states.append)


def test_an_expired_session_loses_its_ephemeral_nodes_and_a_new_one_begins() -> None:
    tree = MemoryTree()
    one, other = Client(tree), Client(tree)
    one.store.create("/controller", ephemeral=True)
    one.store.create("/stays")
    one.store.get("/stays", one.seen.append)
    other.store.exists("/controller", other.seen.append)
    before = one.store.session_id
    one.store.expire()
    assert one.states == [SessionState.EXPIRED, SessionState.CONNECTED]
    assert one.store.session_id not in (before, other.store.session_id)
    assert other.seen == [WatchEvent(EventKind.DELETED, "/controller")]
    other.store.set("/stays", b"changed")
    assert one.seen == [], "the watches ended with the session"
    assert one.store.children("/") == ["stays"]


def test_calls_between_two_sessions_fail() -> None:
    store = MemoryTree().connect()
    errors: list[type[Exception]] = []

    def listener(state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            with pytest.raises(SessionExpiredError) as caught:
                store.get("/")
            errors.append(caught.type)

    store.add_session_listener(listener)
    store.expire()
    assert errors == [SessionExpiredError]


def test_a_client_that_is_cut_off_keeps_its_nodes_and_gets_its_notifications_later() -> None:
    tree = MemoryTree()
    one, other = Client(tree), Client(tree)
    one.store.create("/a", ephemeral=True)
    one.store.get("/a", one.seen.append)
    one.store.suspend()
    assert one.store.is_suspended
    with pytest.raises(StoreUnavailableError):
        one.store.get("/a")
    other.store.set("/a", b"1")
    assert one.seen == []
    one.store.resume()
    assert one.seen == [WatchEvent(EventKind.CHANGED, "/a")]
    assert one.states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert one.store.get("/a")[1].ephemeral_owner == one.store.session_id


def test_a_client_that_is_cut_off_learns_of_its_expiry_when_it_is_back() -> None:
    tree = MemoryTree()
    one, other = Client(tree), Client(tree)
    one.store.create("/a", ephemeral=True)
    one.store.suspend()
    one.store.expire()
    assert other.store.exists("/a") is None
    assert one.states == [SessionState.SUSPENDED]
    one.store.resume()
    assert one.states == [SessionState.SUSPENDED, SessionState.EXPIRED, SessionState.CONNECTED]
    one.store.create("/a", ephemeral=True)


def test_notifications_can_be_delayed_and_lost_for_each_client() -> None:
    waiting: list[tuple[MemoryStore, Callable[[], None]]] = []
    tree = MemoryTree(deliver=lambda store, notify: waiting.append((store, notify)))
    one, other, third = Client(tree), Client(tree), Client(tree)
    for client in (one, other, third):
        client.store.exists("/a", client.seen.append)
    one.store.create("/a")
    assert [store for store, _ in waiting] == [one.store, other.store, third.store], "in the order in which they came"
    third.store.expire()
    assert (one.seen, other.seen) == ([], [])
    for _, notify in waiting[1:]:
        notify()
    assert one.seen == [], "this one was lost"
    assert other.seen == [WatchEvent(EventKind.CREATED, "/a")]
    assert third.seen == [], "its session had ended before"


def test_closing_while_cut_off_or_expired_ends_everything() -> None:
    tree = MemoryTree()
    one, other = Client(tree), Client(tree)
    one.store.create("/a", ephemeral=True)
    one.store.suspend()
    one.store.close()
    one.store.resume()
    assert other.store.exists("/a") is None
    assert one.states == [SessionState.SUSPENDED]
    other.store.suspend()
    other.store.expire()
    other.store.close()
    with pytest.raises(SessionExpiredError):
        other.store.get("/")
