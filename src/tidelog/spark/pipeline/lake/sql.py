"""Tables of relational databases: batches appended, upserted or merged exactly once.

The number of a batch is a row of the table `tidelog_batches`, written in the transaction that writes the rows: both are
there or neither. The row is locked first, so a driver that was taken for dead waits for the new one, and then finds its
batch there. A batch is written by the driver, which holds its rows in memory.
"""

# ruff: noqa: S608 - names are quoted, and values are bound
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StructType

from tidelog.spark.pipeline.definition.endpoints import SqlTable
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.lake.batches import Batch, Committed, is_written
from tidelog.spark.pipeline.lake.evolution import arrow_columns, check_names, created_columns, fitted
from tidelog.spark.pipeline.lake.history import keys_of
from tidelog.spark.pipeline.lake.sql_dialects import Dialect, columns_of, dialect_of, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from tidelog.spark.pipeline.lake.changes import KeyedChanges, LastChanges
    from tidelog.spark.pipeline.lake.history import History

BATCHES: Final = "tidelog_batches"
_KEYS_AT_ONCE: Final = 200
_PARTS: Final = re.compile(r'"[^"]*"|\?')
"""Quoted names, and the places of values."""


class Transaction:
    """One transaction. Every statement of this module goes through here."""

    def __init__(self, connection: Any, dialect: Dialect) -> None:
        self.dialect = dialect
        self._connection = connection
        if dialect.begin is not None:
            self.run(dialect.begin)

    def run(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """The cursor of a statement, whose values are `?`."""
        cursor = self._connection.cursor()
        cursor.execute(self._placed(statement), values)
        return cursor

    def run_each(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """A statement for each row, in order."""
        self._connection.cursor().executemany(self._placed(statement), rows)

    def commit(self) -> None:
        """All of it, or nothing."""
        self._connection.commit()

    def _placed(self, statement: str) -> str:
        """With the driver's placeholders, and names as the driver passes them on."""
        if self.dialect.placeholder == "?":
            return statement

        def placed(found: re.Match[str]) -> str:
            return self.dialect.placeholder if found[0] == "?" else found[0].replace("%", "%%")

        return _PARTS.sub(placed, statement)


class SqlTarget:
    """The table that an endpoint describes."""

    def __init__(self, endpoint: SqlTable) -> None:
        self.name = str(endpoint)
        self._endpoint = endpoint
        self._dialect = dialect_of(endpoint.url)
        self._table = self._dialect.quoted(endpoint.table)

    def append(self, rows: "DataFrame", batch: Batch) -> bool:
        """Append a batch, or upsert it by the key of the endpoint; False if the table has it."""
        source = rows.toArrow()
        key = self._endpoint.key
        self._check_upsert(source)

        def write(within: Transaction, columns: StructType) -> None:
            self._upsert(within, source, columns, key, None)

        return self._written(batch, rows.schema, key, write)

    def merge(self, rows: "DataFrame", batch: Batch, changes: "KeyedChanges") -> bool:
        """Merge a batch of changes; False if the table has it. `rows` has one change for each key."""
        stored = created_columns(changes.stored(rows.schema))
        last = changes.last(rows.toArrow(), arrow_columns(stored))
        return self._written(
            batch, stored, changes.key, lambda within, columns: self._merge(within, last, columns, changes)
        )

    def keep(self, rows: "DataFrame", batch: Batch, history: "History") -> bool:
        """Merge a batch of changes into a table of all versions; False if the table has it."""
        stored = created_columns(history.stored(rows.schema))
        incoming = history.as_rows(rows.toArrow(), arrow_columns(stored))
        return self._written(batch, stored, (), lambda within, columns: self._keep(within, incoming, columns, history))

    def committed(self, application: str) -> Committed | None:
        """The last batch of a query that the table has."""
        with closing(self._dialect.connect(self._endpoint.url)) as connection:
            within = Transaction(connection, self._dialect)
            return _committed(within, application) if _exists(within, quoted(BATCHES)) else None

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the table, as the driver returns them; none if there is no such table."""
        with closing(self._dialect.connect(self._endpoint.url)) as connection:
            within = Transaction(connection, self._dialect)
            if not _exists(within, self._table):
                return []
            found = within.run(f"SELECT * FROM {self._table}")
            names = [each[0] for each in found.description]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def _written(
        self,
        batch: Batch,
        stored: StructType,
        key: Sequence[str],
        write: Callable[[Transaction, StructType], None],
    ) -> bool:
        with closing(self._dialect.connect(self._endpoint.url)) as connection:
            within = Transaction(connection, self._dialect)
            if not _begins(within, batch, self.name):
                return False
            self._create(within, stored, key)
            write(within, stored)
            within.run(
                f"UPDATE {quoted(BATCHES)} SET batch = ?, plan = ? WHERE application = ?",
                (batch.number, batch.plan, batch.application),
            )
            within.commit()
            return True

    def _create(self, within: Transaction, stored: StructType, key: Sequence[str]) -> None:
        """Create the table, or see that it has the columns."""
        types = {field.name: self._dialect.type_of(field.dataType) for field in stored.fields}
        if not _exists(within, self._table):
            if within.dialect.lock_creation is not None:
                within.run(within.dialect.lock_creation)
            columns = [f"{quoted(name)} {kind}" for name, kind in types.items()]
            columns += [f"PRIMARY KEY ({_names(key)})"] if key else []
            within.run(f"CREATE TABLE IF NOT EXISTS {self._table} ({', '.join(columns)})")
        there = self._there(within)
        for name, kind in types.items():
            if name in there:
                continue
            if not self._endpoint.merge_schema:
                raise PipelineError(
                    f"{self.name} has no column {name!r}, but the rows have it: set merge_schema=True on sql_table(…) "
                    "to add it to the table, or name the columns to write: columns=[…]"
                )
            within.run(f"ALTER TABLE {self._table} ADD COLUMN {quoted(name)} {kind}")

    def _there(self, within: Transaction) -> list[str]:
        return [each[0] for each in within.run(f"SELECT * FROM {self._table} WHERE 1 = 0").description]

    def _check_upsert(self, source: "pa.Table") -> None:
        key = list(self._endpoint.key)
        if not key:
            return
        check_names(self.name, "key", key, source.column_names)
        for name in key:
            if source[name].null_count:
                raise PipelineError(f"{self.name}: {source[name].null_count} rows have no value in the key {name!r}")
        if source.select(key).group_by(key).aggregate([]).num_rows < source.num_rows:
            raise PipelineError(
                f"{self.name}: a batch has several rows of one key, and nothing says which is the last: use "
                "merge_changes(sql_table(…), key=…, order_by=…, operation=…)"
            )

    def _upsert(
        self, within: Transaction, source: "pa.Table", columns: StructType, key: Sequence[str], order_by: str | None
    ) -> None:
        names = source.column_names
        statement = f"INSERT INTO {self._table} AS target ({_names(names)}) VALUES ({', '.join('?' * len(names))})"
        if key:
            others = [name for name in names if name not in key]
            changed = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in others)
            statement += f" ON CONFLICT ({_names(key)}) " + (f"DO UPDATE SET {changed}" if others else "DO NOTHING")
            if order_by is not None:
                order = quoted(order_by)
                statement += f" WHERE target.{order} IS NULL OR excluded.{order} >= target.{order}"
        within.run_each(statement, self._rows(source, columns))

    def _merge(self, within: Transaction, last: "LastChanges", columns: StructType, changes: "KeyedChanges") -> None:
        import pyarrow.compute as pc

        order = quoted(changes.order_by)
        if last.truncated is not None:
            at = self._value(last.truncated, columns, changes.order_by)
            older = f"WHERE {order} IS NULL OR {order} < ?"
            if changes.keep_deleted is None:
                within.run(f"DELETE FROM {self._table} {older}", (at,))
            else:
                marked = f"SET {quoted(changes.keep_deleted)} = ?, {order} = ?"
                is_deleted = self._value(True, columns, changes.keep_deleted)
                within.run(f"UPDATE {self._table} {marked} {older}", (is_deleted, at, at))
        rows = last.rows
        if changes.keep_deleted is None:
            gone = rows.filter(rows[changes.deleted]).select([*changes.key, changes.order_by])
            same = " AND ".join(f"{quoted(name)} = ?" for name in changes.key)
            within.run_each(
                f"DELETE FROM {self._table} WHERE {same} AND ({order} IS NULL OR {order} <= ?)",
                self._rows(gone, columns),
            )
            rows = rows.filter(pc.invert(rows[changes.deleted])).select(changes.stored_names(rows.column_names))
        self._upsert(within, rows, columns, changes.key, changes.order_by)

    def _keep(self, within: Transaction, incoming: "pa.Table", columns: StructType, history: "History") -> None:
        there = self._there(within)
        unknown = [name for name in there if name not in columns.names]
        if unknown:
            raise PipelineError(
                f"{self.name} has column {unknown[0]!r}, but the changes do not: a history is written again when a "
                "change comes late, so add the column in a step"
            )
        if within.dialect.lock_table is not None:
            within.run(within.dialect.lock_table.format(table=self._table))
        new = history.replacement(self._rows_of_keys(within, incoming, columns, history), incoming)
        same = " AND ".join(f"{quoted(name)} = ?" for name in history.key)
        within.run_each(f"DELETE FROM {self._table} WHERE {same}", self._rows(new.keys, columns))
        self._upsert(within, new.rows, columns, (), None)

    def _rows_of_keys(
        self, within: Transaction, incoming: "pa.Table", columns: StructType, history: "History"
    ) -> "pa.Table":
        select = f"SELECT {_names(columns.names)} FROM {self._table}"
        if history.truncates(incoming):
            found = within.run(select).fetchall()
        else:
            found = within.run(f"{select} WHERE {quoted(history.key[0])} IS NULL").fetchall()
            keys = [*self._rows(keys_of(incoming, history.key), columns)]
            same = "(" + " AND ".join(f"{quoted(name)} = ?" for name in history.key) + ")"
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                part = keys[start : start + _KEYS_AT_ONCE]
                where = " OR ".join([same] * len(part))
                found += within.run(f"{select} WHERE {where}", [value for key in part for value in key]).fetchall()
        return _arrow(found, columns, within.dialect)

    def _rows(self, source: "pa.Table", columns: StructType) -> Iterable[tuple[Any, ...]]:
        kinds = [columns[name].dataType for name in source.column_names]
        values = [
            columns_of(source[name].to_pylist(), self._dialect.encoded(kind))
            for name, kind in zip(source.column_names, kinds, strict=True)
        ]
        return zip(*values, strict=True)

    def _value(self, value: Any, columns: StructType, name: str) -> Any:
        return columns_of([value], self._dialect.encoded(columns[name].dataType))[0]


def _begins(within: Transaction, batch: Batch, table: str) -> bool:
    """Whether a batch is still to be written. From here on, no other driver can write it."""
    name = quoted(BATCHES)
    if not _exists(within, name):
        if within.dialect.lock_creation is not None:
            within.run(within.dialect.lock_creation)
        within.run(
            f"CREATE TABLE IF NOT EXISTS {name} (application TEXT PRIMARY KEY, batch BIGINT NOT NULL, plan TEXT)"
        )
    within.run(f"INSERT INTO {name} VALUES (?, -1, NULL) ON CONFLICT DO NOTHING", (batch.application,))
    return not is_written(batch, _committed(within, batch.application), table)


def _committed(within: Transaction, application: str) -> Committed | None:
    statement = f"SELECT batch, plan FROM {quoted(BATCHES)} WHERE application = ?{within.dialect.lock_row}"
    row = within.run(statement, (application,)).fetchone()
    return None if row is None or row[0] < 0 else Committed(*row)


def _exists(within: Transaction, table: str) -> bool:
    return within.run(within.dialect.exists, (table,)).fetchone() is not None


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _arrow(found: Sequence[Sequence[Any]], columns: StructType, dialect: Dialect) -> "pa.Table":
    import pyarrow as pa

    schema = arrow_columns(columns)
    values = list(zip(*found, strict=True)) or [()] * len(schema)
    arrays = [
        pa.array(columns_of(column, dialect.decoded(field.dataType)), kind)
        for column, field, kind in zip(values, columns.fields, schema.types, strict=True)
    ]
    return fitted(pa.table(arrays, names=schema.names), schema)
