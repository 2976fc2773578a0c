"""Mistakes in the description of a table of a lakehouse. Pure."""

from collections.abc import Iterator
from typing import Final

from tidelog.client.durations import Duration, DurationError, milliseconds
from tidelog.spark.pipeline.definition.endpoints import (
    DATABASES,
    HISTORY,
    LATEST,
    Changes,
    Delta,
    Iceberg,
    Maintenance,
    SqlTable,
)
from tidelog.spark.pipeline.lake.storage import NAMES, is_remote

_SAFE_MS: Final = 3_600_000


def lake_problems(sink: Delta | Iceberg | SqlTable | Changes) -> Iterator[str]:
    """A sentence for each mistake."""
    if isinstance(sink, Changes):
        if not isinstance(sink.table, Delta | Iceberg | SqlTable):
            yield f"merge_changes({sink.table!r}, …): the table must be delta(…), iceberg(…) or sql_table(…)"
            return
        if not sink.key:
            yield f"{sink} needs the columns of the key: key='id'"
        yield from _history(sink)
        if isinstance(sink.table, SqlTable) and sink.table.key:
            yield f"{sink}: merge_changes has the key: leave it out of sql_table(…)"
        yield from _table(sink.table)
    else:
        yield from _table(sink)


def _history(sink: Changes) -> Iterator[str]:
    if sink.scd not in (LATEST, HISTORY):
        yield f"{sink}: scd={sink.scd!r}; it is 1 (the last state of each row) or 2 (every state)"
    if sink.scd == LATEST:
        if sink.track:
            yield f"{sink}: track needs scd=2"
        return
    made = [sink.valid_from, sink.valid_to, sink.keep_deleted or "deleted"]
    for name in dict.fromkeys(made):
        if made.count(name) > 1:
            yield f"{sink}: valid_from, valid_to and keep_deleted need different columns, not {name!r} twice"
        if name in sink.key or name in sink.track or name in sink.table.columns:
            yield (
                f"{sink}: the column {name!r} is one that scd=2 makes: name another with valid_from, valid_to or "
                "keep_deleted"
            )
    for name in sink.track:
        if name in sink.key or name == sink.order_by:
            yield f"{sink}: track has {name!r}, which is part of the key or the order of changes"


def _sql(table: SqlTable) -> Iterator[str]:
    if table.database is None:
        known = ", ".join(f"{scheme}://…" for scheme in DATABASES)
        yield f"sql_table({table.table!r}, …): the URL of a database begins with one of {known}"
        return
    is_sqlite = table.database == "sqlite"
    if not all(table.table.split(".")) or (is_sqlite and "." in table.table):
        yield f"{table}: the name of a table, in PostgreSQL with its schema before it if need be: shop.orders"
    if is_sqlite and not table.url.removeprefix("sqlite:///"):
        yield f"{table}: a database of SQLite is a file: sqlite:////path/to/file"


def _table(table: Delta | Iceberg | SqlTable) -> Iterator[str]:
    if isinstance(table, SqlTable):
        yield from _sql(table)
        return
    if table.compact_every is not None:
        yield from _duration(table, "compact_every", table.compact_every)
    if table.maintain is not None:
        yield from _maintenance(table, table.maintain)
    unknown = sorted(set(table.storage) - NAMES)
    if unknown:
        yield f"{table}: storage has {', '.join(unknown)}; its settings are {', '.join(sorted(NAMES))}"
    if isinstance(table, Iceberg):
        yield from _iceberg(table)


def _duration(table: Delta | Iceberg, setting: str, given: Duration) -> Iterator[str]:
    try:
        milliseconds(given)
    except DurationError as error:
        yield f"{table}: {setting} {error}"


def _maintenance(table: Delta | Iceberg, rule: Maintenance) -> Iterator[str]:
    if table.compact_every is not None:
        yield f"{table}: compact_every is part of maintain(…): give one of the two"
    if rule.target_mb is not None and rule.target_mb < 1:
        yield f"{table}: maintain(target_mb={rule.target_mb}) must be at least 1"
    yield from _duration(table, "maintain(every=…)", rule.every)
    for name, given in (("keep", rule.keep), ("orphans_after", rule.orphans_after)):
        if given is None:
            continue
        mistakes = [*_duration(table, f"maintain({name}=…)", given)]
        yield from mistakes
        if not mistakes and milliseconds(given) < _SAFE_MS:
            yield (
                f"{table}: maintain({name}={given!r}) must be at least 1h: readers and batches that run could lose "
                "files that they need"
            )


def _iceberg(table: Iceberg) -> Iterator[str]:
    if "." not in table.table.strip("."):
        yield f"{table}: name the table with its namespace, as in iceberg('shop.orders', …)"
    if table.branch is not None and (not table.branch or table.branch == "main"):
        yield f"{table}: branch={table.branch!r}; leave it out to write what readers see"
    if table.warehouse is not None and is_remote(table.warehouse) and not table.properties:
        yield f"{table}: a warehouse at {table.warehouse} needs a catalog: properties={{'uri': …}}"
