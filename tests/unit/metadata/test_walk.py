from tidelog.metadata.store import Set
from tidelog.metadata.walk import create_if_missing, create_or_set, ensure_paths, subtree
from tidelog.testing.memory_store import MemoryStore


def test_missing_ancestors_are_made_and_what_is_there_is_left_alone() -> None:
    store = MemoryStore()
    store.create("/a", b"data")
    ensure_paths(store, ["/a/b/c", "/a/b/d", "/a", "/x"])
    assert store.children("/a/b") == ["c", "d"]
    assert store.children("/") == ["a", "x"]
    assert store.get("/a")[0] == b"data"
    before = store.get("/")[1]
    ensure_paths(store, ["/a/b/c"])
    assert store.get("/")[1] == before


def test_paths_made_by_another_broker_meanwhile_are_taken_for_ours() -> None:
    class Racing(MemoryStore):
        """Another broker makes a node between our look and our write."""

        def exists(self, path, watch=None):  # type: ignore[no-untyped-def]
            found = super().exists(path, watch)
            if path == "/a/b" and found is None:
                super().create("/a")
            return found

    store = Racing()
    ensure_paths(store, ["/a/b", "/c"])
    assert store.children("/") == ["a", "c"]
    assert store.children("/a") == ["b"]


def test_create_if_missing_says_whether_it_did() -> None:
    store = MemoryStore()
    assert create_if_missing(store, "/a", b"1")
    assert not create_if_missing(store, "/a", b"2")
    assert store.get("/a")[0] == b"1"


def test_a_subtree_lists_children_before_their_parents() -> None:
    store = MemoryStore()
    ensure_paths(store, ["/a/b/c", "/a/d", "/e"])
    found = subtree(store, "/a")
    assert sorted(found) == ["/a", "/a/b", "/a/b/c", "/a/d"]
    for path in found:
        store.delete(path)
    assert subtree(store, "/a") == []


def test_a_set_holds_to_the_version_that_was_seen() -> None:
    store = MemoryStore()
    store.multi([create_or_set(store, "/a", b"1")])
    assert create_or_set(store, "/a", b"2") == Set("/a", b"2", 0)
