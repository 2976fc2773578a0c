"""The metadata tree in memory: for a member of a KRaft cluster, whose tree shows what the metadata log says, for tests,
and for the simulator, where several brokers share one `MemoryTree`.

It behaves like a ZooKeeper ensemble: sessions come and go, lose their connection and expire, each by a call. Nothing
happens by itself, and the same calls in the same order have the same effects, notifications included.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from tidelog.metadata.errors import (
    NoNodeError,
    SessionExpiredError,
    StoreUnavailableError,
)
from tidelog.metadata.store import (
    Delete,
    NodeData,
    Operation,
    Result,
    SessionListener,
    SessionState,
    Stat,
    Watcher,
    WatchEvent,
    join_path,
    split_path,
    system_wall_ms,
)
from tidelog.metadata.submission import none_if_missing
from tidelog.metadata.tree_rules import MultiCalls, TreeChange
from tidelog.metadata.watches import Notification, WatchTable


class _Node:
    __slots__ = (
        "children",
        "created_children",
        "ctime_ms",
        "czxid",
        "data",
        "mtime_ms",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    def __init__(self, data: bytes, zxid: int, now_ms: int, owner: int) -> None:
        self.data = data
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime_ms = self.mtime_ms = now_ms
        self.version = 0
        self.owner = owner
        self.children: set[str] = set()
        self.created_children = 0

    def stat(self) -> Stat:
        return Stat(
            self.czxid,
            self.mzxid,
            self.pzxid,
            self.ctime_ms,
            self.mtime_ms,
            self.version,
            2 * self.created_children - len(self.children),
            self.owner,
            len(self.data),
            len(self.children),
        )


Deliver: TypeAlias = Callable[["MemoryStore", Callable[[], None]], object]


def _deliver_at_once(_store: "MemoryStore", notify: Callable[[], None]) -> None:
    notify()


class MemoryTree:
    """The nodes, and the sessions that are notified of changes.

    `deliver(store, notify)` is called when a change has triggered watches of `store`: `notify()` calls the watchers. By
    default that is before the call that made the change returns. A simulator may call it later, in order for each
    store, or not at all; it does nothing when the session has ended, and waits for the connection if that is down.
    """

    def __init__(self, wall_ms: Callable[[], int] = system_wall_ms, deliver: Deliver = _deliver_at_once) -> None:
        self._wall_ms = wall_ms
        self._zxid = 0
        self._last_session_id = 0
        self._sessions: dict[int, MemoryStore] = {}
        self.deliver = deliver
        self.nodes = {"/": _Node(b"", 0, 0, 0)}

    def connect(self) -> "MemoryStore":
        """Open a session."""
        return MemoryStore(self)

    def join(self, store: "MemoryStore") -> int:
        """Open a session for `store`; return its id."""
        self._last_session_id += 1
        self._sessions[self._last_session_id] = store
        return self._last_session_id

    def leave(self, session_id: int) -> None:
        """End a session: it gets no more events, and its ephemeral nodes go."""
        del self._sessions[session_id]
        owned = [path for path, node in self.nodes.items() if node.owner == session_id]
        self.transact([Delete(path) for path in owned], session_id)

    def node(self, path: str) -> _Node:
        split_path(path)
        node = self.nodes.get(path)
        if node is None:
            raise NoNodeError(path)
        return node

    def transact(self, operations: Sequence[Operation], session_id: int) -> list[Result]:
        if not operations:
            return []
        nodes = _Change(self.nodes, self._zxid + 1, self._wall_ms())
        change = TreeChange(nodes, session_id)
        try:
            results = [change.apply(operation) for operation in operations]
        except BaseException:
            nodes.undo()
            raise
        self._zxid += 1
        for store in list(self._sessions.values()):
            store.trigger(change.events)
        return results


class _Change:
    """The nodes, as one transaction changes them. Each step notes how it is taken back."""

    def __init__(self, nodes: dict[str, _Node], zxid: int, now_ms: int) -> None:
        self._nodes = nodes
        self._zxid = zxid
        self._now_ms = now_ms
        self._undo: list[Callable[[], object]] = []

    def undo(self) -> None:
        for restore in reversed(self._undo):
            restore()

    def find(self, path: str) -> Stat | None:
        node = self._nodes.get(path)
        return None if node is None else node.stat()

    def insert(self, parent: str, name: str, data: bytes, owner: int) -> bool:
        path = join_path(parent, name)
        if path in self._nodes:
            return False
        self._nodes[path] = _Node(data, self._zxid, self._now_ms, owner)
        above = self._nodes[parent]
        above.children.add(name)
        self._undo += (partial(self._nodes.pop, path), partial(above.children.remove, name))
        self._change(above, created_children=above.created_children + 1, pzxid=self._zxid)
        return True

    def replace(self, path: str, data: bytes) -> None:
        node = self._nodes[path]
        self._change(node, data=data, version=node.version + 1, mzxid=self._zxid, mtime_ms=self._now_ms)

    def remove(self, parent: str, name: str) -> None:
        path = join_path(parent, name)
        above, node = self._nodes[parent], self._nodes.pop(path)
        above.children.remove(name)
        self._undo += (partial(self._nodes.__setitem__, path, node), partial(above.children.add, name))
        self._change(above, pzxid=self._zxid)

    def _change(self, node: _Node, **fields: object) -> None:
        """Set fields of a node."""
        for field, value in fields.items():
            self._undo.append(partial(setattr, node, field, getattr(node, field)))
            setattr(node, field, value)


class MemoryStore(MultiCalls):
    """A client of a `MemoryTree`, by default of one of its own. See `Store` for the methods.

    `suspend`, `resume` and `expire` are what a network and an ensemble do to a client. Calls cannot wait here for a
    connection to come back: while it is down they raise `StoreUnavailableError`.
    """

    def __init__(self, tree: MemoryTree | None = None) -> None:
        self._tree = tree or MemoryTree()
        self._watches = WatchTable()
        self._listeners: list[SessionListener] = []
        self._held_back: list[Notification] = []
        self._is_suspended = False
        self._is_closed = False
        self._is_expired = False
        self._session_id = self._tree.join(self)

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def is_suspended(self) -> bool:
        """Whether the connection is down."""
        return self._is_suspended

    def get(self, path: str, watch: Watcher | None = None) -> NodeData:
        node = self._live().node(path)
        self._watches.watch_data(path, watch)
        return node.data, node.stat()

    def get_many(self, paths: Sequence[str], watch: Watcher | None = None) -> list[NodeData | None]:
        return [none_if_missing(lambda each: self.get(each, watch), path) for path in paths]

    def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        split_path(path)
        node = self._live().nodes.get(path)
        self._watches.watch_data(path, watch)
        return None if node is None else node.stat()

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        node = self._live().node(path)
        self._watches.watch_children(path, watch)
        return sorted(node.children)

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        return self._live().transact(operations, self._session_id)

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    def limit_waits(self, seconds: float) -> None:
        """Nothing waits here."""

    def look_after(self) -> None:
        """There is no client that could fail."""

    def trigger(self, events: Sequence[WatchEvent]) -> None:
        """Use up the watches that these events trigger, and let the tree deliver the notifications."""
        notifications = self._watches.take(events)
        if notifications:
            self._tree.deliver(self, partial(self._notify, self._session_id, notifications))

    def suspend(self) -> None:
        """Cut the connection. The session goes on until it expires; its notifications wait."""
        if not (self._is_suspended or self._is_closed):
            self._is_suspended = True
            self._report(SessionState.SUSPENDED)

    def resume(self) -> None:
        """Restore the connection; the client learns whether its session has expired meanwhile."""
        if self._is_suspended and not self._is_closed:
            self._is_suspended = False
            if self._is_expired:
                self._begin_session()
            else:
                self._report(SessionState.CONNECTED)
                held_back, self._held_back = self._held_back, []
                self._watches.deliver(held_back)

    def expire(self) -> None:
        """End the session as an ensemble does that has not heard from its client for too long.

        A connected client learns it at once and has a new session; one that is cut off does so when it is back.
        """
        if self._is_expired or self._is_closed:
            return
        self._is_expired = True
        self._end_session()
        if not self._is_suspended:
            self._begin_session()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            if not self._is_expired:
                self._end_session()

    def _end_session(self) -> None:
        self._watches.clear()
        self._held_back.clear()
        self._tree.leave(self._session_id)

    def _begin_session(self) -> None:
        self._report(SessionState.EXPIRED)
        if not self._is_closed:
            self._session_id = self._tree.join(self)
            self._is_expired = False
            self._report(SessionState.CONNECTED)

    def _report(self, state: SessionState) -> None:
        for listener in list(self._listeners):
            listener(state)

    def _notify(self, session_id: int, notifications: list[Notification]) -> None:
        if self._is_closed or self._is_expired or session_id != self._session_id:
            return
        if self._is_suspended:
            self._held_back += notifications
        else:
            self._watches.deliver(notifications)

    def _live(self) -> MemoryTree:
        if self._is_closed or (self._is_expired and not self._is_suspended):
            raise SessionExpiredError(f"session {self._session_id} with the metadata tree is over")
        if self._is_suspended:
            raise StoreUnavailableError(f"session {self._session_id} has no connection to the metadata tree")
        return self._tree
