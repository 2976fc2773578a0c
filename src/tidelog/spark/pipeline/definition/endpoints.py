"""What a pipeline reads and writes: topics, files, tables, anything Spark has a format for. Plain data, no Spark.

An endpoint is only a description: `running` opens it. The same description serves as a source and as a sink where
possible (`topic`, `parquet`, `delta`, `iceberg`, `spark_format`): one pipeline's output is named like the next one's
input.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tidelog.client.durations import Duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Options = Mapping[str, str]
Path = str | os.PathLike[str]
LATEST: Final = 1
"""`merge_changes(scd=1)`: a table has the last state of each row."""
DATABASES: Final = {"postgresql": "postgresql", "postgres": "postgresql", "sqlite": "sqlite"}
"""The schemes of `sql_table(url=…)`, and which database each means."""
HISTORY: Final = 2
"""`merge_changes(scd=2)`: a table has every state of each row, and when it was valid."""
_REQUEST_BYTES: Final = "kafka.max.request.size"


@dataclass(frozen=True, slots=True)
class Topic:
    """Topics by name or by pattern. As a sink: one topic, or none when the column `to_topic` names it for each row.

    A sink takes the rows for which `where` is true, and the columns `key` and `value` as the record's.
    """

    names: tuple[str, ...] = ()
    pattern: str | None = None
    options: Options = field(default_factory=dict)
    where: str | None = None
    key: str | None = None
    value: str | None = None

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"topics matching {self.pattern}"
        return f"topic {', '.join(self.names)}" if self.names else "the topic each row names"


@dataclass(frozen=True, slots=True)
class Files:
    """A format that Spark has, at a path if it has one. As a stream, files need a schema."""

    format: str
    path: str | None = None
    schema: str | None = None
    options: Options = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.format} {self.path}" if self.path else self.format


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What is done beside the running query to keep a table in order. `None` leaves something out."""

    every: Duration
    compact: bool = True
    target_mb: int | None = None
    keep: Duration | None = None
    orphans_after: Duration | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """A Delta Lake table, read and written by the `deltalake` library: no jar."""

    path: str
    partition_by: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    storage: Options = field(default_factory=dict)
    compact_every: Duration | None = None
    merge_schema: bool = False
    maintain: Maintenance | None = None
    sort_by: tuple[str, ...] = ()

    @property
    def maintenance(self) -> Maintenance | None:
        """What `maintain` and `compact_every` say."""
        return self.maintain or (None if self.compact_every is None else Maintenance(self.compact_every))

    def __str__(self) -> str:
        return f"delta {self.path}"


@dataclass(frozen=True, slots=True)
class Iceberg:
    """An Iceberg table, read and written by the `pyiceberg` library: no jar."""

    table: str
    catalog: str = "default"
    warehouse: str | None = None
    partition_by: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    storage: Options = field(default_factory=dict)
    properties: Options = field(default_factory=dict)
    compact_every: Duration | None = None
    merge_schema: bool = False
    maintain: Maintenance | None = None
    sort_by: tuple[str, ...] = ()
    branch: str | None = None

    @property
    def maintenance(self) -> Maintenance | None:
        """What `maintain` and `compact_every` say."""
        return self.maintain or (None if self.compact_every is None else Maintenance(self.compact_every))

    def __str__(self) -> str:
        return f"iceberg {self.table}"


@dataclass(frozen=True, slots=True)
class SqlTable:
    """A table of a relational database, PostgreSQL or SQLite."""

    table: str
    url: str = field(repr=False)
    """It may have a password in it."""
    key: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    merge_schema: bool = False

    @property
    def database(self) -> str | None:
        """The kind of database that the URL names; None if it is none of those known."""
        return DATABASES.get(self.url.partition(":")[0])

    def __str__(self) -> str:
        return f"table {self.table} in {self.database}"


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows that are changes of a table's rows: the last of each key is merged into it, or all are kept as versions."""

    table: Delta | Iceberg | SqlTable
    key: tuple[str, ...]
    order_by: str
    operation: str
    delete: tuple[str, ...] = ("d", "delete", "tombstone")
    keep_deleted: str | None = None
    truncate: tuple[str, ...] = ("truncate",)
    scd: int = LATEST
    valid_from: str = "valid_from"
    valid_to: str = "valid_to"
    track: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"changes of {self.table}"


@dataclass(frozen=True, slots=True)
class EachBatch:
    """A function that writes one micro-batch. It may be called twice with the same batch, which has the same id."""

    function: "Callable[[DataFrame, int], object]"

    def __str__(self) -> str:
        return f"function {getattr(self.function, '__name__', self.function)}"


@dataclass(frozen=True, slots=True)
class Refreshed:
    """A table to join with that is read again when it is older than `every`, and kept in memory until then."""

    source: "Source"
    every: Duration

    def __str__(self) -> str:
        return f"{self.source}, read again every {self.every}"


Table = Delta | Iceberg
Source = Topic | Files | Delta | Iceberg
Sink = Topic | Files | Delta | Iceberg | SqlTable | Changes | EachBatch


def topic(
    *names: str,
    pattern: str | None = None,
    where: str | None = None,
    key: str | None = None,
    value: str | None = None,
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> Topic:
    """Topics to read, or one to write.

    Options are the connector's, as keywords (`startingOffsets="earliest"`) or, where they have dots, in `options`. For
    a sink, `where` is a condition in SQL: only such rows are written; `key` and `value` name the columns to write.
    """
    return Topic(tuple(names), pattern, texts({**(options or {}), **more}), where, key, value)


def parquet(path: Path, *, schema: str | None = None, partition_by: str | Sequence[str] = (), **options: Any) -> Files:
    """Parquet files in a directory."""
    return spark_format("parquet", path, schema=schema, partition_by=partition_by, **options)


def maintain(
    *,
    every: Duration,
    compact: bool = True,
    target_mb: int | None = None,
    keep: Duration | None = "7d",
    orphans_after: Duration | None = "7d",
) -> Maintenance:
    """What keeps a table in order, every so often and beside the running query.

    Small files are joined into ones of `target_mb`. Versions that are older than `keep` can no longer be read, and
    files that belong to no version are removed once they are older than `orphans_after`. `None` leaves either out.
    """
    return Maintenance(every, compact, target_mb, keep, orphans_after)


def delta(
    path: Path,
    *,
    partition_by: str | Sequence[str] = (),
    columns: str | Sequence[str] = (),
    storage: Mapping[str, Any] | None = None,
    compact_every: Duration | None = None,
    merge_schema: bool = False,
    maintain: Maintenance | None = None,
    sort_by: str | Sequence[str] = (),
) -> Delta:
    """A Delta Lake table, in a directory or at `s3://bucket/path`; the first batch creates it if it is missing.

    `columns` are the columns to write, by default all. `storage` are settings like `AWS_ENDPOINT_URL`, by default those
    of the environment. With `compact_every="1h"` small files are compacted beside the running query. With
    `merge_schema=True` columns that only the rows have are added to the table, and those that only it has become null.
    `maintain` is what `maintain(…)` makes, instead of `compact_every`. The rows of each file are sorted by `sort_by`.
    """
    return Delta(
        os.fspath(path),
        _names(partition_by),
        _names(columns),
        texts(storage or {}),
        compact_every,
        merge_schema,
        maintain,
        _names(sort_by),
    )


def iceberg(
    table: str,
    *,
    warehouse: Path | None = None,
    catalog: str = "default",
    partition_by: str | Sequence[str] = (),
    columns: str | Sequence[str] = (),
    storage: Mapping[str, Any] | None = None,
    properties: Mapping[str, Any] | None = None,
    compact_every: Duration | None = None,
    merge_schema: bool = False,
    maintain: Maintenance | None = None,
    sort_by: str | Sequence[str] = (),
    branch: str | None = None,
) -> Iceberg:
    """An Iceberg table `namespace.name`; the first batch creates it if it is missing.

    `properties` are those of the catalog (`uri`, `type`, …); without them, the catalog is a SQLite file in the
    directory `warehouse`, or the one that PyIceberg's own configuration has under the name `catalog`. `partition_by`
    takes columns and transforms: `day(created)`, `bucket(16, id)`. With `branch="audit"` rows are written to a branch,
    which readers do not see before `tidelog pipeline publish`. The other arguments are those of `delta`.
    """
    where = None if warehouse is None else os.fspath(warehouse)
    return Iceberg(
        table,
        catalog,
        where,
        _names(partition_by),
        _names(columns),
        texts(storage or {}),
        texts(properties or {}),
        compact_every,
        merge_schema,
        maintain,
        _names(sort_by),
        branch,
    )


def sql_table(
    table: str,
    *,
    url: str,
    key: str | Sequence[str] = (),
    columns: str | Sequence[str] = (),
    merge_schema: bool = False,
) -> SqlTable:
    """A table of PostgreSQL (`postgresql://user@host/database`) or SQLite (`sqlite:////path/to/file`).

    Rows are appended, or, with `key`, inserted or updated. The first batch creates the table if it is missing. The
    number of a batch is written in the transaction of its rows, to the table `tidelog_batches`.
    """
    return SqlTable(table, url, _names(key), _names(columns), merge_schema)


def merge_changes(
    table: Delta | Iceberg | SqlTable,
    *,
    key: str | Sequence[str],
    order_by: str,
    operation: str,
    delete: str | Sequence[str] = ("d", "delete", "tombstone"),
    truncate: str | Sequence[str] = "truncate",
    keep_deleted: str | None = None,
    scd: int = LATEST,
    valid_from: str = "valid_from",
    valid_to: str = "valid_to",
    track: str | Sequence[str] = (),
) -> Changes:
    """Rows that are changes of a table's rows, such as those of a database's change log.

    Of each key, the change with the greatest `order_by` wins, in a batch and against the table, which keeps that
    column. A change whose column `operation` is one of `delete` removes the row, or, with `keep_deleted="deleted"`,
    sets this column to true: then a change that arrives after the deletion, but is older, is recognised. One whose
    `operation` is one of `truncate` removes all rows that are older; it needs no key.

    With `scd=2` the table keeps every version of a row, valid from the `order_by` of its change (the column
    `valid_from`) up to that of the next change, or null (`valid_to`), in whatever order the changes arrive. A change
    that differs from the version before it in none of the columns `track`, by default of all, opens no version.
    """
    return Changes(
        table,
        _names(key),
        order_by,
        operation,
        _names(delete),
        keep_deleted,
        _names(truncate),
        scd,
        valid_from,
        valid_to,
        _names(track),
    )


def refreshed(source: "Source", *, every: Duration) -> Refreshed:
    """A table to join with that changes slowly: read at most once in `every` (`10m`), and kept in memory until then."""
    return Refreshed(source, every)


def table_source(table: "Source | Refreshed") -> "Source":
    """The source of a table, whether it is refreshed or not."""
    return table.source if isinstance(table, Refreshed) else table


def spark_format(
    format: str,  # noqa: A002 - Spark's word
    path: Path | None = None,
    *,
    schema: str | None = None,
    partition_by: str | Sequence[str] = (),
    **options: Any,
) -> Files:
    """Anything that `spark.readStream.format(...)`, `spark.read` or `writeStream` knows by name."""
    return Files(format, None if path is None else os.fspath(path), schema, texts(options), _names(partition_by))


def each_batch(function: "Callable[[DataFrame, int], object]") -> EachBatch:
    """A sink of your own: `function(rows, batch_id)`."""
    return EachBatch(function)


def with_room(sink: Topic, record_bytes: int) -> Topic:
    """`sink` with a producer that allows records of `record_bytes`, and larger ones if its max.request.size does."""
    kept = {name: value for name, value in sink.options.items() if name.lower() != _REQUEST_BYTES}
    allowed = max(record_bytes, request_bytes(sink) or 0)
    return replace(sink, options={**kept, _REQUEST_BYTES: str(allowed)})


def request_bytes(sink: Topic) -> int | None:
    """The max.request.size that a sink sets."""
    given = next((value for name, value in sink.options.items() if name.lower() == _REQUEST_BYTES), None)
    return None if given is None else int(given)


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    """One name may stand alone: as a sequence, `"day"` would be the columns `d`, `a` and `y`."""
    return (given,) if isinstance(given, str) else tuple(given)


def texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Options and settings as Spark takes them."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
