import pytest

from tests.unit.metadata.store_contract import StoreContract
from tidelog.metadata.errors import SessionExpiredError
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
    told: list[WatchEvent] = []
    other.exists("/a", told.append)
    one.create("/a", b"data")
    assert other.get("/a")[0] == b"data"
    assert told == [WatchEvent(EventKind.CREATED, "/a")]


def test_an_expired_session_loses_its_ephemeral_nodes_and_is_told() -> None:
    tree = MemoryTree()
    one, other = tree.connect(), tree.connect()
    one.create("/controller", ephemeral=True)
    one.create("/stays")
    states: list[SessionState] = []
    one.add_session_listener(states.append)
    told: list[WatchEvent] = []
    other.exists("/controller", told.append)
    one.expire()
    assert states == [SessionState.EXPIRED]
    assert told == [WatchEvent(EventKind.DELETED, "/controller")]
    assert other.children("/") == ["stays"]
    with pytest.raises(SessionExpiredError):
        one.get("/stays")
