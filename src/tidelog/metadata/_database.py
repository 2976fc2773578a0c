"""One SQLite file, opened for this process alone, with every failure of the library translated.

`EmbeddedStore` is the only caller. `sqlite3` is imported when a file is opened: commands that talk to a broker over the
network never need it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from tidelog.metadata.errors import SessionExpiredError, StoreCorruptError, StoreLockedError, StoreUnavailableError

if TYPE_CHECKING:
    import sqlite3

SCHEMA_VERSION: Final = 1

FILE_MODE: Final = 0o600
"""Of the file and those beside it: they hold the credentials of users."""

# Keyed by parent and name, so that the children of a node are one range of the table's own tree, sorted. The
# application id, "tide" in ASCII, is how `file` knows what this is.
_SCHEMA: Final = """
    BEGIN EXCLUSIVE;
    CREATE TABLE node (
        parent TEXT NOT NULL,
        name TEXT NOT NULL,
        data BLOB NOT NULL,
        czxid INTEGER NOT NULL,
        mzxid INTEGER NOT NULL,
        pzxid INTEGER NOT NULL,
        ctime_ms INTEGER NOT NULL,
        mtime_ms INTEGER NOT NULL,
        version INTEGER NOT NULL,
        created_children INTEGER NOT NULL,
        num_children INTEGER NOT NULL,
        ephemeral_owner INTEGER NOT NULL,
        PRIMARY KEY (parent, name)
    ) WITHOUT ROWID;
    CREATE INDEX ephemeral ON node (ephemeral_owner) WHERE ephemeral_owner != 0;
    CREATE TABLE last_transaction (zxid INTEGER NOT NULL);
    INSERT INTO node VALUES ('', '', x'', 0, 0, 0, 0, 0, 0, 0, 0, 0);
    INSERT INTO last_transaction VALUES (0);
    PRAGMA application_id = 0x74696465;
    PRAGMA user_version = 1;
    COMMIT;
"""

_LOCKED_CODES: Final = (5, 6)  # SQLITE_BUSY, SQLITE_LOCKED
_CORRUPT_CODES: Final = (11, 26)  # SQLITE_CORRUPT, SQLITE_NOTADB

_REMEDY: Final = (
    "Restore the file from a backup. If there is none, move it away together with its -wal file and start again: "
    "topics are then taken over from the log directories, but settings made at runtime are lost"
)


def forbid_others(path: str) -> None:
    """Take the rights of everybody else from a file, if it is there: older versions gave them to all.

    What the owner's group may do is left to the operator.
    """
    with suppress(OSError):
        mode = os.stat(path).st_mode
        if mode & 0o007:
            os.chmod(path, mode & 0o770)


class Database:
    """A connection and its transactions."""

    def __init__(self, path: str) -> None:
        import sqlite3

        self.path = path
        self._library_error = sqlite3.Error
        self._connection: sqlite3.Connection | None = None
        with suppress(OSError):  # it is there, or SQLite says why it cannot be
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
        for each in (path, f"{path}-wal", f"{path}-shm"):
            forbid_others(each)
        try:
            # Transactions are begun and ended here and not by the library. Any thread may use the connection, one at a
            # time, as the store's own rule has it. No waiting for a lock: its owner keeps it as long as it lives.
            connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        except sqlite3.Error as error:
            raise self._translated(error) from error

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def one(self, statement: str, arguments: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """The first row that a statement yields."""
        row: tuple[Any, ...] | None = self._execute(statement, arguments).fetchone()
        return row

    def all(self, statement: str, arguments: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Every row that a statement yields."""
        cursor = self._execute(statement, arguments)
        try:
            return cursor.fetchall()
        except self._library_error as error:
            raise self._translated(error) from error

    def run(self, statement: str, arguments: tuple[Any, ...] = ()) -> int:
        """Change something; return how many rows were changed."""
        return self._execute(statement, arguments).rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything within is durable at the end, or, if an error leaves it, never happened."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            # Some failures, a full disk for one, have rolled back already.
            if self._connection is not None and self._connection.in_transaction:
                self.run("ROLLBACK")
            raise

    def checkpoint(self) -> None:
        """Bring everything from the write-ahead log into the database file, synced, and empty the log."""
        self.one("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def _execute(self, statement: str, arguments: tuple[Any, ...]) -> sqlite3.Cursor:
        if self._connection is None:
            raise SessionExpiredError(f"the metadata store {self.path} is closed")
        try:
            return self._connection.execute(statement, arguments)
        except self._library_error as error:
            raise self._translated(error) from error

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # Exclusive, and set before the first access: a second broker on the same directory is refused, and the
        # write-ahead log needs no shared-memory file. FULL syncs the log at each commit: what was acknowledged stays.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._create_schema(connection)
        elif version != SCHEMA_VERSION:
            raise StoreUnavailableError(
                f"{self.path} has format {version}; this version of Tidelog knows format {SCHEMA_VERSION} only"
            )

    def _create_schema(self, connection: sqlite3.Connection) -> None:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables:
            raise StoreCorruptError(f"{self.path} is a database, but not one of Tidelog's. {_REMEDY}.")
        # One transaction: a crash leaves either an empty file, which the next start fills, or a complete one.
        connection.executescript(_SCHEMA)

    def _translated(self, error: sqlite3.Error) -> StoreUnavailableError:
        # The lower byte is the class of the error; errors of the Python module itself have no code.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _LOCKED_CODES:
            return StoreLockedError(
                f"{self.path} is in use by another process; is another broker running on this directory?"
            )
        if code in _CORRUPT_CODES:
            return StoreCorruptError(f"{self.path} is damaged: {error}. {_REMEDY}.")
        return StoreUnavailableError(f"{self.path} cannot be used: {error}")
