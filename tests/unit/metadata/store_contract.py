"""The contract of every store. A test class for a store inherits this one and makes the store."""

import pytest

from tidelog.metadata.errors import (
    BadPathError,
    BadVersionError,
    ControllerMovedError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
)
from tidelog.metadata.store import Check, Create, Delete, EventKind, Operation, Set, Stat, Store, WatchEvent


class StoreContract:
    """Subclasses provide the fixture `store`."""

    def settle(self, store: Store) -> None:
        """Return when every watcher of the changes made so far has been called; at once in a local store."""

    def test_a_created_node_holds_its_data_in_version_0(self, store: Store) -> None:
        assert store.create("/a", b"data") == "/a"
        data, stat = store.get("/a")
        assert data == b"data"
        assert (stat.version, stat.data_length, stat.ephemeral_owner) == (0, 4, 0)
        assert stat.czxid == stat.mzxid == stat.pzxid
        assert stat.ctime_ms == stat.mtime_ms > 1_600_000_000_000

    def test_the_root_is_there_from_the_start(self, store: Store) -> None:
        assert store.exists("/") is not None
        assert store.children("/") == []
        with pytest.raises(NodeExistsError):
            store.create("/")
        with pytest.raises(BadPathError):
            store.delete("/")

    def test_a_node_cannot_be_created_twice(self, store: Store) -> None:
        store.create("/a", b"first")
        with pytest.raises(NodeExistsError, match="/a: the node exists already"):
            store.create("/a", b"second")
        assert store.get("/a")[0] == b"first"

    def test_a_node_needs_its_parent(self, store: Store) -> None:
        with pytest.raises(NoNodeError, match="/a"):
            store.create("/a/b")

    def test_each_change_increments_the_version_and_moves_the_times(self, store: Store) -> None:
        store.create("/a", b"1")
        created = store.get("/a")[1]
        changed = store.set("/a", b"22")
        assert changed == store.get("/a")[1]
        assert (changed.version, changed.data_length, changed.czxid) == (1, 2, created.czxid)
        assert changed.mzxid > created.mzxid
        assert changed.mtime_ms >= created.mtime_ms == changed.ctime_ms

    def test_setting_a_missing_node_is_an_error(self, store: Store) -> None:
        with pytest.raises(NoNodeError, match="/a: no such node"):
            store.set("/a", b"")

    def test_set_and_delete_hold_to_the_expected_version(self, store: Store) -> None:
        store.create("/a", b"0")
        assert store.set("/a", b"1", expected_version=0).version == 1
        with pytest.raises(
            BadVersionError, match=r"/a: the node has (version 1|another version), expected 0"
        ) as caught:
            store.set("/a", b"2", expected_version=0)
        assert (caught.value.expected, caught.value.found) in ((0, 1), (0, None)), "not every store says what it found"
        with pytest.raises(BadVersionError):
            store.delete("/a", expected_version=0)
        assert store.get("/a")[0] == b"1"
        store.delete("/a", expected_version=1)
        assert store.exists("/a") is None

    def test_a_node_with_children_is_not_deleted(self, store: Store) -> None:
        store.create("/a")
        store.create("/a/b")
        with pytest.raises(NotEmptyError, match="/a: the node has children"):
            store.delete("/a")
        store.delete("/a/b")
        store.delete("/a")
        with pytest.raises(NoNodeError):
            store.delete("/a")

    def test_children_are_sorted_names_of_one_level(self, store: Store) -> None:
        store.create("/a")
        for name in ("c", "b", "a.b", "ab", "ä", "B"):
            store.create(f"/a/{name}")
        store.create("/a/b/deeper")
        store.create("/ab")
        assert store.children("/a") == ["B", "a.b", "ab", "b", "c", "ä"]
        assert store.children("/") == ["a", "ab"]
        with pytest.raises(NoNodeError):
            store.children("/x")

    def test_the_parent_counts_its_children_and_their_comings_and_goings(self, store: Store) -> None:
        store.create("/a")
        before = store.get("/a")[1]
        store.create("/a/b")
        store.create("/a/c")
        store.delete("/a/b")
        after = store.get("/a")[1]
        assert (after.num_children, after.cversion) == (1, 3)
        assert (after.version, after.mzxid) == (before.version, before.mzxid), "its own data did not change"
        assert after.pzxid > before.pzxid

    def test_sequential_names_count_up_and_never_repeat(self, store: Store) -> None:
        store.create("/a")
        assert store.create("/a/n_", sequential=True) == "/a/n_0000000000"
        assert store.create("/a/n_", sequential=True) == "/a/n_0000000001"
        store.delete("/a/n_0000000001")
        assert store.create("/a/n_", sequential=True) == "/a/n_0000000002"
        assert store.create("/a/", sequential=True) == "/a/0000000003"

    def test_an_ephemeral_node_belongs_to_the_session_and_has_no_children(self, store: Store) -> None:
        store.create("/a", ephemeral=True)
        assert store.get("/a")[1].ephemeral_owner == store.session_id != 0
        with pytest.raises(NoChildrenForEphemeralsError):
            store.create("/a/b")

    def test_get_many_answers_in_order_with_none_for_the_missing(self, store: Store) -> None:
        store.create("/a", b"1")
        store.create("/b", b"2")
        found = store.get_many(["/b", "/x", "/a"])
        assert [node and node[0] for node in found] == [b"2", None, b"1"]
        assert found[0] == store.get("/b")

    def test_get_many_watches_the_nodes_that_are_there(self, store: Store) -> None:
        store.create("/a", b"1")
        store.create("/b", b"2")
        seen: list[WatchEvent] = []
        store.get_many(["/a", "/b", "/x"], seen.append)
        store.create("/x")
        store.set("/b", b"3")
        store.delete("/a")
        self.settle(store)
        assert seen == [WatchEvent(EventKind.CHANGED, "/b"), WatchEvent(EventKind.DELETED, "/a")]

    def test_children_many_answers_in_order_with_none_for_the_missing(self, store: Store) -> None:
        store.multi([Create("/a"), Create("/a/c"), Create("/a/b"), Create("/d")])
        assert store.children_many(["/d", "/x", "/a", "/"]) == [[], None, ["b", "c"], ["a", "d"]]

    def test_many_nodes_are_written_read_and_listed_in_one_go(self, store: Store) -> None:
        store.create("/a")
        paths = [f"/a/{number:04d}" for number in range(1000)]
        assert store.submit_all([Create(path, path.encode()) for path in paths]) == paths
        assert [node and node[0] for node in store.get_many(paths)] == [path.encode() for path in paths]
        assert store.children_many(["/a", *paths]) == [[path[3:] for path in paths], *([] for _ in paths)]

    def test_each_submitted_operation_has_its_own_outcome(self, store: Store) -> None:
        store.multi([Create("/a"), Create("/b"), Create("/b/c")])
        outcomes = store.submit_all(
            [
                Create("/new"),
                Create("/a"),
                Set("/a", b"1", 0),
                Set("/b", b"1", 7),
                Delete("/b"),
                Check("/x"),
                Create("/n_", sequential=True),
            ]
        )
        assert outcomes[0] == "/new"
        assert [type(outcome) for outcome in outcomes[1:6]] == [
            NodeExistsError,
            Stat,
            BadVersionError,
            NotEmptyError,
            NoNodeError,
        ]
        assert outcomes[6] == "/n_0000000003", "counted by the children that were made, not by those that were tried"
        assert (store.get("/a")[0], store.get("/b")[0]) == (b"1", b"")
        assert store.submit_all([]) == []

    def test_what_is_not_a_path_is_the_error_of_its_operation(self, store: Store) -> None:
        created, refused = store.submit_all([Create("/a"), Create("b")])
        assert created == "/a"
        assert isinstance(refused, BadPathError)

    def test_fenced_operations_are_carried_out_while_the_fence_stands(self, store: Store) -> None:
        store.multi([Create("/controller_epoch", b"1"), Create("/a")])
        fence = Check("/controller_epoch", 0)
        outcomes = store.submit_all([Set("/a", b"1"), Create("/a")], fence)
        assert isinstance(outcomes[0], Stat)
        assert isinstance(outcomes[1], NodeExistsError)
        store.set("/controller_epoch", b"2")
        with pytest.raises(ControllerMovedError, match="/controller_epoch"):
            store.submit_all([Set("/a", b"2"), Create("/b")], fence)
        assert (store.get("/a")[0], store.exists("/b")) == (b"1", None)

    def test_a_fence_that_was_removed_stops_everything(self, store: Store) -> None:
        with pytest.raises(ControllerMovedError):
            store.submit_all([Create("/a")], Check("/controller_epoch", 0))
        assert store.exists("/a") is None

    @pytest.mark.parametrize("wrong", ["", "a", "a/b", "/a/", "//", "/a//b", "/.", "/a/..", "/a/./b", "/\0", "/\ud800"])
    def test_what_is_not_a_path_is_refused(self, store: Store, wrong: str) -> None:
        store.create("/a")
        for call in (store.create, store.get, store.exists, store.children, store.delete):
            with pytest.raises(BadPathError):
                call(wrong)
        with pytest.raises(BadPathError):
            store.set(wrong, b"")

    def test_multi_does_everything_in_order(self, store: Store) -> None:
        results = store.multi(
            [
                Create("/a", b"1"),
                Create("/a/n_", sequential=True),
                Set("/a", b"2"),
                Check("/a", 1),
                Create("/b"),
                Delete("/b"),
            ]
        )
        assert results[:2] == ["/a", "/a/n_0000000000"]
        assert isinstance(results[2], Stat)
        assert results[2].version == 1
        assert results[3:] == [None, "/b", None]
        assert store.children("/") == ["a"]
        assert store.multi([]) == []

    def test_one_multi_is_one_transaction(self, store: Store) -> None:
        store.multi([Create("/a"), Create("/b")])
        assert store.get("/a")[1].czxid == store.get("/b")[1].czxid

    @pytest.mark.parametrize(
        ("failing", "error"),
        [
            (Create("/a"), NodeExistsError),
            (Create("/x/y"), NoNodeError),
            (Set("/a", b"", 7), BadVersionError),
            (Delete("/a"), NotEmptyError),
            (Check("/a", 7), BadVersionError),
            (Check("/x"), NoNodeError),
        ],
    )
    def test_multi_does_nothing_at_all_if_one_operation_fails(
        self, store: Store, failing: Operation, error: type[Exception]
    ) -> None:
        store.multi([Create("/a", b"data"), Create("/a/b")])
        before = store.get("/a")
        seen: list[WatchEvent] = []
        store.get("/a", seen.append)
        store.children("/", seen.append)
        with pytest.raises(error):
            store.multi([Set("/a", b"changed"), Delete("/a/b"), Create("/a/c"), failing])
        with pytest.raises(error):
            store.multi([Create("/new"), Create("/a/d"), failing])
        assert store.get("/a") == before
        assert store.children("/") == ["a"]
        assert store.children("/a") == ["b"]
        self.settle(store)
        assert seen == []
        assert store.create("/a/n_", sequential=True) == "/a/n_0000000001", "the number was not used up"

    def test_a_data_watch_fires_once(self, store: Store) -> None:
        seen: list[WatchEvent] = []
        store.create("/a")
        store.get("/a", seen.append)
        store.set("/a", b"1")
        store.set("/a", b"2")
        self.settle(store)
        assert seen == [WatchEvent(EventKind.CHANGED, "/a")]

    def test_a_watch_set_twice_fires_once(self, store: Store) -> None:
        seen: list[WatchEvent] = []

        def watcher(event: WatchEvent) -> None:
            seen.append(event)

        store.create("/a")
        store.get("/a", watcher)
        store.exists("/a", watcher)
        store.children("/a", watcher)
        store.delete("/a")
        self.settle(store)
        assert seen == [WatchEvent(EventKind.DELETED, "/a")]

    def test_an_exists_watch_waits_for_a_node_to_come(self, store: Store) -> None:
        seen: list[WatchEvent] = []
        assert store.exists("/a", seen.append) is None
        store.create("/a")
        self.settle(store)
        assert seen == [WatchEvent(EventKind.CREATED, "/a")]

    def test_reading_a_missing_node_sets_no_watch(self, store: Store) -> None:
        seen: list[WatchEvent] = []
        with pytest.raises(NoNodeError):
            store.get("/a", seen.append)
        with pytest.raises(NoNodeError):
            store.children("/a", seen.append)
        store.create("/a")
        store.create("/a/b")
        self.settle(store)
        assert seen == []

    def test_a_child_watch_fires_for_children_but_not_for_data(self, store: Store) -> None:
        seen: list[WatchEvent] = []
        store.create("/a")
        store.children("/a", seen.append)
        store.set("/a", b"1")
        self.settle(store)
        assert seen == []
        store.create("/a/b")
        store.children("/a", seen.append)
        store.set("/a/b", b"1")
        store.delete("/a/b")
        store.children("/a", seen.append)
        store.delete("/a")
        self.settle(store)
        assert seen == [
            WatchEvent(EventKind.CHILDREN, "/a"),
            WatchEvent(EventKind.CHILDREN, "/a"),
            WatchEvent(EventKind.DELETED, "/a"),
        ]

    def test_a_watcher_sees_the_change_and_may_make_another(self, store: Store) -> None:
        seen: list[bytes] = []
        store.create("/a")

        def again(event: WatchEvent) -> None:
            data, stat = store.get("/a", again)
            seen.append(data)
            if stat.version < 3:
                store.set("/a", str(stat.version).encode())

        store.get("/a", again)
        store.set("/a", b"start")
        for _ in range(4):  # each change is made by the watcher of the one before
            self.settle(store)
        assert seen == [b"start", b"1", b"2"]

    def test_a_watcher_that_fails_harms_neither_the_caller_nor_the_other_watchers(
        self, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        seen: list[WatchEvent] = []
        store.create("/a")
        store.get("/a", lambda event: 1 // 0)
        store.get("/a", seen.append)
        assert store.set("/a", b"1").version == 1
        self.settle(store)
        assert len(seen) == 1
        assert "a watcher of /a failed" in caplog.text

    def test_a_closed_store_refuses_to_work(self, store: Store) -> None:
        seen: list[WatchEvent] = []
        store.create("/a", ephemeral=True)
        store.get("/a", seen.append)
        store.close()
        store.close()
        assert seen == []
        for call in (store.get, store.exists, store.children, store.create):
            with pytest.raises(SessionExpiredError):
                call("/a")
