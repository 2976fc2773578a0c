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
    NoNodeError,
    StoreError,
    StoreUnavailableError,
)
from tidelog.metadata.store import (
    Delete,
    NodeData,
    Operation,
    Result,
    SessionListener,
    Stat,
    Watcher,
    WatchEvent,
    join_path,
    split_path,
    system_wall_ms,
)
from tidelog.metadata.tree_rules import MultiCalls, TreeChange
from tidelog.metadata.watches import WatchTable

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
_CHILD_ADDED: Final = (
    "UPDATE node SET created_children = created_children + 1, num_children = num_children + 1, pzxid = ? "
    "WHERE parent = ? AND name = ?"
)
_CHILD_REMOVED: Final = "UPDATE node SET num_children = num_children - 1, pzxid = ? WHERE parent = ? AND name = ?"


def new_session_id() -> int:
    """Random rather than counted, so that opening the file need not write; 63 bits and never 0, as ZooKeeper's."""
    return int.from_bytes(os.urandom(8), "big") >> 1 | 1


class _Rows:
    """The nodes as rows of the table. `begin` says which transaction changes them from now on."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._zxid = 0
        self._now_ms = 0

    def begin(self, zxid: int, now_ms: int) -> None:
        self._zxid = zxid
        self._now_ms = now_ms

    def find(self, path: str) -> Stat | None:
        row = self._database.one(_STAT, split_path(path))
        return None if row is None else Stat._make(row)

    def insert(self, parent: str, name: str, data: bytes, owner: int) -> bool:
        zxid, now_ms = self._zxid, self._now_ms
        if not self._database.run(_INSERT, (parent, name, data, zxid, zxid, zxid, now_ms, now_ms, owner)):
            return False
        self._database.run(_CHILD_ADDED, (zxid, *split_path(parent)))
        return True

    def replace(self, path: str, data: bytes) -> None:
        self._database.run(_UPDATE, (data, self._zxid, self._now_ms, *split_path(path)))

    def remove(self, parent: str, name: str) -> None:
        self._database.run(_DELETE, (parent, name))
        self._database.run(_CHILD_REMOVED, (self._zxid, *split_path(parent)))


class EmbeddedStore(MultiCalls):
    """The tree in the SQLite file at `path`, which is made if it is missing. See `Store` for the methods.

    Raises `StoreLockedError` when another process has the file open and `StoreCorruptError` when it is damaged.
    """

    def __init__(self, path: str, wall_ms: Callable[[], int] = system_wall_ms) -> None:
        self._database = Database(path)
        self._wall_ms = wall_ms
        self._watches = WatchTable()
        self._nodes = _Rows(self._database)
        self._journal = Journal(path + JOURNAL_SUFFIX)
        self._session_id = new_session_id()
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

    def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        found = self._nodes.find(path)
        self._watches.watch_data(path, watch)
        return found

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        if self._nodes.find(path) is None:
            raise NoNodeError(path)
        self._watches.watch_children(path, watch)
        return [name for (name,) in self._database.all(_CHILDREN, (path,))]

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
        change = TreeChange(self._nodes, session_id)
        results = self._commit(change, operations, now_ms)
        self._journal.append(self._zxid, now_ms, operations)
        if self._journal.size_bytes > JOURNAL_BYTES_MAX:
            self._begin_journal()
        return results, change.events

    def end_session(self, session_id: int) -> list[WatchEvent]:
        """Remove the ephemeral nodes of a session of `transact`; the events to notify."""
        owned = self._database.all(_EPHEMERALS_OF, (session_id,))
        return self.transact([Delete(join_path(parent, name)) for parent, name in owned], session_id)[1]

    def _commit(self, change: TreeChange, operations: Sequence[Operation], now_ms: int) -> list[Result]:
        zxid = self._zxid + 1
        self._nodes.begin(zxid, now_ms)
        with self._database.transaction():
            results = [change.apply(operation) for operation in operations]
            self._database.run("UPDATE last_transaction SET zxid = ?", (zxid,))
        self._zxid = zxid
        return results

    def add_session_listener(self, listener: SessionListener) -> None:
        """Never calls `listener`: this session ends with the process, not before."""

    def limit_waits(self, seconds: float) -> None:
        """There is no connection to wait for."""

    def look_after(self) -> None:
        """There is no client that could fail."""

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
                self._commit(TreeChange(self._nodes, self._session_id), entry.operations, entry.wall_ms)
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

    def _one(self, statement: str, arguments: tuple[Any, ...] = ()) -> tuple[Any, ...]:
        row = self._database.one(statement, arguments)
        assert row is not None, f"no row where there must be one: {statement}"
        return row
