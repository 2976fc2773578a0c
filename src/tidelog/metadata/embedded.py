"""The metadata tree in a SQLite file: one broker, nothing to install.

The file stands in the first log directory. Each call that changes something is one transaction, synced to disk before
the call returns, so that a topic whose creation was acknowledged survives a power cut. A session is one opening of the
file; ephemeral nodes that an earlier process left behind, having been killed, go when the file is opened again. What
SQLite's write-ahead log holds stands in a checksummed journal, too: damage to one is repaired from the other.
"""

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidelog.metadata._database import Database
from tidelog.metadata._journal import JOURNAL_BYTES_MAX, Journal, JournalEntry
from tidelog.metadata.errors import (
    BadPathError,
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    StoreError,
    StoreUnavailableError,
)
from tidelog.metadata.store import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    EventKind,
    NodeData,
    Operation,
    Outcome,
    Result,
    SessionListener,
    Set,
    Stat,
    Watcher,
    WatchEvent,
    join_path,
    split_path,
    system_wall_ms,
)
from tidelog.metadata.submission import none_if_missing, submit_each
from tidelog.metadata.watches import WatchTable, events_of_create, events_of_delete

METADATA_FILE_NAME: Final = "tidelog-metadata.sqlite"
JOURNAL_SUFFIX: Final = ".journal"

logger = logging.getLogger(__name__)

_STAT: Final = """
    SELECT czxid, mzxid, pzxid, ctime_ms, mtime_ms, version, 2 * created_children - num_children, ephemeral_owner,
        length(data), num_children
    FROM node WHERE parent = ? AND name = ?"""
_DATA_AND_STAT: Final = """
    SELECT data, czxid, mzxid, pzxid, ctime_ms, mtime_ms, version, 2 * created_children - num_children, ephemeral_owner,
        length(data), num_children
    FROM node WHERE parent = ? AND name = ?"""
_CHILDREN: Final = "SELECT name FROM node WHERE parent = ? AND name != '' ORDER BY name"
_EPHEMERALS: Final = "SELECT parent, name FROM node WHERE ephemeral_owner != 0"
_EPHEMERALS_OF: Final = "SELECT parent, name FROM node WHERE ephemeral_owner = ?"
_INSERT: Final = "INSERT OR IGNORE INTO node VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, ?)"
_UPDATE: Final = (
    "UPDATE node SET data = ?, version = version + 1, mzxid = ?, mtime_ms = ? WHERE parent = ? AND name = ?"
)
_DELETE: Final = "DELETE FROM node WHERE parent = ? AND name = ?"
_PARENT: Final = "SELECT created_children, ephemeral_owner FROM node WHERE parent = ? AND name = ?"
_CHILD_ADDED: Final = (
    "UPDATE node SET created_children = created_children + 1, num_children = num_children + 1, pzxid = ? "
    "WHERE parent = ? AND name = ?"
)
_CHILD_REMOVED: Final = "UPDATE node SET num_children = num_children - 1, pzxid = ? WHERE parent = ? AND name = ?"


def new_session_id() -> int:
    """Random rather than counted, so that opening the file need not write; 63 bits and never 0, as ZooKeeper's."""
    return int.from_bytes(os.urandom(8), "big") >> 1 | 1


class EmbeddedStore:
    """The tree in the SQLite file at `path`, which is made if it is missing. See `Store` for the methods.

    Raises `StoreLockedError` when another process has the file open and `StoreCorruptError` when it is damaged.
    """

    def __init__(self, path: str, wall_ms: Callable[[], int] = system_wall_ms) -> None:
        self._database = Database(path)
        self._wall_ms = wall_ms
        self._watches = WatchTable()
        self._events: list[WatchEvent] = []
        self._journal = Journal(path + JOURNAL_SUFFIX)
        self._session_id = self._owner = new_session_id()
        try:
            (self._zxid,) = self._one("SELECT zxid FROM last_transaction")
            self._restore_from_journal()
            self._drop_ephemerals()
        except BaseException:
            self._database.close()
            raise

    @property
    def session_id(self) -> int:
        return self._session_id

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        (created,) = self.multi([Create(path, data, ephemeral, sequential)])
        assert isinstance(created, str)
        return created

    def get(self, path: str, watch: Watcher | None = None) -> NodeData:
        row = self._database.one(_DATA_AND_STAT, split_path(path))
        if row is None:
            raise NoNodeError(path)
        self._watches.watch_data(path, watch)
        return row[0], Stat._make(row[1:])

    def get_many(self, paths: Sequence[str], watch: Watcher | None = None) -> list[NodeData | None]:
        one = self._database.one
        rows = [one(_DATA_AND_STAT, split_path(path)) for path in paths]
        if watch is not None:
            for path, row in zip(paths, rows, strict=True):
                self._watches.watch_data(path, None if row is None else watch)
        return [None if row is None else (row[0], Stat._make(row[1:])) for row in rows]

    def set(self, path: str, data: bytes, expected_version: int = ANY_VERSION) -> Stat:
        (stat,) = self.multi([Set(path, data, expected_version)])
        assert isinstance(stat, Stat)
        return stat

    def delete(self, path: str, expected_version: int = ANY_VERSION) -> None:
        self.multi([Delete(path, expected_version)])

    def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        row = self._database.one(_STAT, split_path(path))
        self._watches.watch_data(path, watch)
        return None if row is None else Stat._make(row)

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        if self._database.one(_STAT, split_path(path)) is None:
            raise NoNodeError(path)
        self._watches.watch_children(path, watch)
        return [name for (name,) in self._database.all(_CHILDREN, (path,))]

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        return [none_if_missing(self.children, path) for path in paths]

    def submit_all(self, operations: Sequence[Operation], fence: Check | None = None) -> list[Outcome]:
        return submit_each(self.multi, operations, fence)

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        results, events = self.transact(operations, self._session_id)
        self._watches.fire(events)
        return results

    def transact(self, operations: Sequence[Operation], session_id: int) -> tuple[list[Result], list[WatchEvent]]:
        """Carry out operations for a session, which need not be this one's; their results, and the events to notify.

        The watches of this session are not notified.
        """
        if not operations:
            return [], []
        now_ms = self._wall_ms()
        events: list[WatchEvent] = []
        self._events = events
        self._owner = session_id
        results = self._commit(operations, now_ms)
        self._journal.append(self._zxid, now_ms, operations)
        if self._journal.size_bytes > JOURNAL_BYTES_MAX:
            self._begin_journal()
        return results, events

    def end_session(self, session_id: int) -> list[WatchEvent]:
        """Remove the ephemeral nodes of a session of `transact`; the events to notify."""
        owned = self._database.all(_EPHEMERALS_OF, (session_id,))
        return self.transact([Delete(join_path(parent, name)) for parent, name in owned], session_id)[1]

    def _commit(self, operations: Sequence[Operation], now_ms: int) -> list[Result]:
        zxid = self._zxid + 1
        with self._database.transaction():
            results = [self._apply(operation, zxid, now_ms) for operation in operations]
            self._database.run("UPDATE last_transaction SET zxid = ?", (zxid,))
        self._zxid = zxid
        return results

    def add_session_listener(self, listener: SessionListener) -> None:
        """Never calls `listener`: this session ends with the process, not before."""

    def limit_waits(self, seconds: float) -> None:
        """There is no connection to wait for."""

    def close(self) -> None:
        if self._database.is_open:
            self._watches.clear()
            self._drop_ephemerals()
            self._database.close()
            self._journal.remove()

    def _restore_from_journal(self) -> None:
        """Carry out again what the journal has and the tree has lost, then begin a new journal."""
        entries = self._journal.read()
        before = self._zxid
        is_whole = self._carry_out_again([entry for entry in entries if entry.zxid > before])
        if self._zxid > before:
            logger.error(
                "%s had lost its last %d transactions, as a damaged write-ahead log does: they are restored from %s",
                self._database.path,
                self._zxid - before,
                self._journal.path,
            )
        if not is_whole:
            logger.error("%s does not continue the tree at %d: it is put aside", self._journal.path, self._zxid)
            self._journal.put_aside()
        if entries:
            self._database.checkpoint()
        self._journal.begin()

    def _carry_out_again(self, entries: Sequence[JournalEntry]) -> bool:
        """Apply entries that continue the tree; False if one does not, because the journal is of another tree."""
        for entry in entries:
            if entry.zxid != self._zxid + 1:
                return False
            try:
                self._commit(entry.operations, entry.wall_ms)
            except StoreUnavailableError:
                raise
            except StoreError:
                return False
        return True

    def _begin_journal(self) -> None:
        """Begin a new journal once the tree's own file is synced. The commit that led here has been made either way."""
        try:
            self._database.checkpoint()
        except StoreUnavailableError as error:
            logger.warning("the metadata has no second copy from now on: %s", error)
            self._journal.remove()
        else:
            self._journal.begin()

    def _drop_ephemerals(self) -> None:
        left_behind = self._database.all(_EPHEMERALS)
        self.multi([Delete(join_path(parent, name)) for parent, name in left_behind])

    def _apply(self, operation: Operation, zxid: int, now_ms: int) -> Result:
        if isinstance(operation, Create):
            return self._create(operation, zxid, now_ms)
        if isinstance(operation, Set):
            return self._set(operation, zxid, now_ms)
        if isinstance(operation, Delete):
            self._delete(operation, zxid)
        else:
            self._checked(operation)
        return None

    def _create(self, operation: Create, zxid: int, now_ms: int) -> str:
        parent, name = split_path(operation.path, sequential=operation.sequential)
        if not parent:
            raise NodeExistsError("/")
        key_of_parent = split_path(parent)
        row = self._database.one(_PARENT, key_of_parent)
        if row is None:
            raise NoNodeError(parent)
        created_children, ephemeral_owner = row
        if ephemeral_owner:
            raise NoChildrenForEphemeralsError(parent)
        if operation.sequential:
            name += f"{created_children:010d}"
        path = join_path(parent, name)
        owner = self._owner if operation.ephemeral else 0
        node = (parent, name, operation.data, zxid, zxid, zxid, now_ms, now_ms, owner)
        if not self._database.run(_INSERT, node):
            raise NodeExistsError(path)
        self._database.run(_CHILD_ADDED, (zxid, *key_of_parent))
        self._events += events_of_create(path, parent)
        return path

    def _set(self, operation: Set, zxid: int, now_ms: int) -> Stat:
        self._checked(operation)
        key = split_path(operation.path)
        self._database.run(_UPDATE, (operation.data, zxid, now_ms, *key))
        self._events.append(WatchEvent(EventKind.CHANGED, operation.path))
        return Stat._make(self._one(_STAT, key))

    def _delete(self, operation: Delete, zxid: int) -> None:
        stat = self._checked(operation)
        parent, name = split_path(operation.path)
        if not parent:
            raise BadPathError("/", "the root cannot be deleted")
        if stat.num_children:
            raise NotEmptyError(operation.path)
        self._database.run(_DELETE, (parent, name))
        self._database.run(_CHILD_REMOVED, (zxid, *split_path(parent)))
        self._events += events_of_delete(operation.path, parent)

    def _checked(self, operation: Set | Delete | Check) -> Stat:
        row = self._database.one(_STAT, split_path(operation.path))
        if row is None:
            raise NoNodeError(operation.path)
        stat = Stat._make(row)
        if operation.expected_version not in (ANY_VERSION, stat.version):
            raise BadVersionError(operation.path, operation.expected_version, stat.version)
        return stat

    def _one(self, statement: str, arguments: tuple[Any, ...] = ()) -> tuple[Any, ...]:
        row = self._database.one(statement, arguments)
        assert row is not None, f"no row where there must be one: {statement}"
        return row
