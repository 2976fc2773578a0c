"""The metadata tree as an interface: ZooKeeper's semantics, for every store.

A node has data, a version that each change of the data increments, and children. `set` and `delete` may name the
version they expect and fail if it is another, which is how two writers stay out of each other's way. `multi` does all
or nothing. An ephemeral node goes when the session that made it ends. A watch fires once, at the next change.

Stores answer synchronously and may wait: for a disk that syncs, for a quorum. They may be used from any thread, by one
call at a time. At start-up, before clients are served, they are called directly; from then on through a `StoreQueue`,
so that the event loop never waits for one.

A session of a remote store can be lost. While its connection is down (`SUSPENDED`) calls wait, up to a deadline, and
are repeated when it is back; watches stay. So a `create` may find its own node, and a `set` its own version: callers
that care read again. When the session is over (`EXPIRED`) its watches and ephemeral nodes are gone, and calls that were
under way raise `SessionExpiredError`. The store opens a new session by itself, reports `CONNECTED` and has a new
`session_id`; the owners of watches and ephemeral nodes make them again.
"""

import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar

from tidelog.metadata.errors import BadPathError, StoreError

ANY_VERSION: Final = -1

P = ParamSpec("P")
T = TypeVar("T")


class Stat(NamedTuple):
    """What ZooKeeper says about a node. Each transaction on the tree has a number, the zxid, one above the last."""

    czxid: int
    """The transaction that created the node; of a broker's registration this is the broker epoch."""
    mzxid: int
    """The transaction that last changed the data."""
    pzxid: int
    """The transaction that last added or removed a child."""
    ctime_ms: int
    mtime_ms: int
    version: int
    """How often the data was changed since the node was created."""
    cversion: int
    """How often children were added or removed."""
    ephemeral_owner: int
    """The session that the node lives with; 0 for a persistent node."""
    data_length: int
    num_children: int


class EventKind(Enum):
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    """Something happened to the node at `path`. It says what, not how the tree looks now: read again to know."""

    kind: EventKind
    path: str


class SessionState(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The store cannot be reached; the session may or may not survive."""
    EXPIRED = "expired"
    """The session is over: its ephemeral nodes and watches are gone."""


Watcher: TypeAlias = Callable[[WatchEvent], object]
SessionListener: TypeAlias = Callable[[SessionState], object]
NodeData: TypeAlias = tuple[bytes, Stat]


class Create(NamedTuple):
    """In a `multi`: make a node. The result is its path."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class Set(NamedTuple):
    """In a `multi`: replace a node's data. The result is its new `Stat`."""

    path: str
    data: bytes
    expected_version: int = ANY_VERSION


class Delete(NamedTuple):
    """In a `multi`: remove a node that has no children. The result is None."""

    path: str
    expected_version: int = ANY_VERSION


class Check(NamedTuple):
    """In a `multi`: fail unless the node is there, in the version expected. The result is None."""

    path: str
    expected_version: int = ANY_VERSION


Operation: TypeAlias = Create | Set | Delete | Check
Result: TypeAlias = str | Stat | None
Outcome: TypeAlias = Result | StoreError


class Store(Protocol):
    """A session with the metadata tree. Raises the errors of `tidelog.metadata.errors` and nothing else.

    Watches fire once, after the change is durable: here before the call that made it returns, with a remote store at
    any time and on any thread. A watcher may call the store; what it raises is logged and otherwise lost.
    """

    @property
    def session_id(self) -> int:
        """The owner of the ephemeral nodes made through this store; never 0."""
        ...

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        """Make a node under an existing one; return its path, which a sequential node gets ten digits appended to."""
        ...

    def get(self, path: str, watch: Watcher | None = None) -> NodeData:
        """A node's data. The watch fires when the data changes or the node is deleted."""
        ...

    def get_many(self, paths: Sequence[str], watch: Watcher | None = None) -> list[NodeData | None]:
        """The data of many nodes, in one go; None for those that do not exist. The watch is set on those that do.

        Without a watch this is a hundred times faster than a `get` for each where the store is remote; with one, it is
        as many pipelined requests.
        """
        ...

    def set(self, path: str, data: bytes, expected_version: int = ANY_VERSION) -> Stat:
        """Replace a node's data."""
        ...

    def delete(self, path: str, expected_version: int = ANY_VERSION) -> None:
        """Remove a node that has no children."""
        ...

    def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        """A node's `Stat`, None if there is none. The watch fires when it is created, changed or deleted."""
        ...

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """The names of a node's children, sorted. The watch fires when one comes or goes, or the node itself goes."""
        ...

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """The sorted names of the children of many nodes, in one go; None for nodes that do not exist."""
        ...

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Carry out all operations in order, or none: then the error of the first that failed is raised."""
        ...

    def submit_all(self, operations: Sequence[Operation], fence: Check | None = None) -> list[Outcome]:
        """Carry out operations that do not depend on each other, in any order; the result or the error of each.

        With a `fence` no operation takes effect unless its check holds: otherwise `ControllerMovedError` is raised, and
        what was carried out before the fence moved stays. Errors that are not of one node are raised, too.
        """
        ...

    def add_session_listener(self, listener: SessionListener) -> None:
        """Call `listener` at every change of the session's state from now on."""
        ...

    def limit_waits(self, seconds: float) -> None:
        """Wait no longer than this for a connection from now on, in calls under way too: a shutdown has begun."""
        ...

    def look_after(self) -> None:
        """Replace what keeps the session if that does not work any more; to be called once in a session timeout.

        Raises StoreClientFailedError if the replacement does not work either. A server that cannot be reached is no
        reason for that, however long it lasts. Unlike other methods, it may be called while a call is under way.
        """
        ...

    def close(self) -> None:
        """End the session and let its ephemeral nodes go. Closing twice does nothing."""
        ...


class StoreRunner(Protocol):
    """Runs functions of a store in its turn, off the event loop: a `StoreQueue`, or what stands in for one."""

    async def run(self, function: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function(store, …)`; what it returns or raises."""
        ...

    def on_loop(self, watcher: Watcher) -> Watcher:
        """The watcher, to be called on the event loop."""
        ...


def system_wall_ms() -> int:
    """The wall clock with which stores stamp nodes, unless they are given another."""
    return time.time_ns() // 1_000_000


def split_path(path: str, *, sequential: bool = False) -> tuple[str, str]:
    """The path of the parent and the name within it: `/a/b` is (`/a`, `b`). The root is its own case: (``, ``).

    A sequential node may have an empty name, `/a/`, because its number follows. Anything ZooKeeper would refuse as a
    path raises `BadPathError`.
    """
    if path == "/" and not sequential:
        return "", ""
    if not path.startswith("/"):
        raise BadPathError(path, "a path starts with a slash")
    parent, _, name = path.rpartition("/")
    # A sequential name gets digits appended, so that even `.` becomes harmless and an empty one is a name.
    parts = parent.split("/")[1:] if sequential else path.split("/")[1:]
    for part in parts:
        if part in ("", ".", ".."):
            raise BadPathError(path, f"a path cannot have the part {part!r}")
    if "\0" in path or not (path.isascii() or _is_utf8(path)):
        raise BadPathError(path, "a path cannot contain a null character or half a surrogate pair")
    return parent or "/", name


def join_path(parent: str, name: str) -> str:
    """The inverse of `split_path`."""
    return f"/{name}" if parent == "/" else f"{parent}/{name}"


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
