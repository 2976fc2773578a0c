"""Delta Lake without a jar: batches appended or merged exactly once, small files compacted, tables read.

Each task writes its rows as Parquet files below the table and reports them; the driver adds all files of a batch in one
commit of the table's log, together with the number of the batch (an application transaction of Delta's). Files that no
commit names are not part of the table: a batch that fails before its commit is not visible, and one that Spark repeats
after its commit is skipped. `DeltaTable.vacuum` removes such files later. Two drivers that commit the same
application at once are a conflict for Delta's own check: one of them fails.

A task holds its rows in memory; a merge runs in the driver.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyspark.sql.types import StructType

from tidelog.spark.pipeline.definition.endpoints import Delta
from tidelog.spark.pipeline.lake import storage
from tidelog.spark.pipeline.lake.batches import PLAN_DIGITS, Batch, Committed, is_written
from tidelog.spark.pipeline.lake.commits import until_no_conflict
from tidelog.spark.pipeline.lake.evolution import (
    Columns,
    arrow_columns,
    check_names,
    created_columns,
    fitted,
    in_order,
    table_columns,
)
from tidelog.spark.pipeline.lake.history import keys_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from tidelog.spark.pipeline.lake.changes import KeyedChanges, LastChanges
    from tidelog.spark.pipeline.lake.history import History

Partition = Mapping[str, str | None]

_FILES: Final = "path string, size long, stats string, partition string"
_SHORT: Final = 32
"""Characters of a text that Delta's readers expect in statistics, at most."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]+")
_PLAN: Final = "-plan"
_GONE: Final = "_gone"


class DeltaLake:
    """The table that an endpoint describes. The driver and the executors reach it by the same path."""

    def __init__(self, endpoint: Delta) -> None:
        self.name = str(endpoint)
        self._path = endpoint.path.replace("s3a://", "s3://", 1)
        self._partition_by = endpoint.partition_by
        self._sort_by = endpoint.sort_by
        self._settings = storage.settings(endpoint.storage)
        self._options = storage.for_delta(self._path, self._settings)
        self._rule = Columns(self.name, "delta", endpoint.merge_schema, widens=False)

    def append(self, rows: "DataFrame", batch: Batch) -> bool:
        """Append a batch; False if the table has it."""
        found = self.opened()
        if found is not None and self._has(found, batch):
            return False
        check_names(self.name, "sort_by", self._sort_by, rows.schema.fieldNames())
        columns = self._columns_for(rows.schema, found)
        names = self._partition_by if found is None else _partition_columns(found)
        actions = self._write_files(rows, columns, names)
        return self._commit(lambda: self._add(columns, batch, actions))

    def merge(self, rows: "DataFrame", batch: Batch, changes: "KeyedChanges") -> bool:
        """Merge a batch of changes; False if the table has it. `rows` has one change for each key."""
        found = self.opened()
        if found is not None and self._has(found, batch):
            return False
        columns = self._columns_or_created(changes.stored(rows.schema), found)
        last = changes.last(rows.toArrow(), arrow_columns(columns))
        return self._commit(lambda: self._merge(last, batch, changes))

    def keep(self, rows: "DataFrame", batch: Batch, history: "History") -> bool:
        """Merge a batch of changes into a table of all versions; False if the table has it."""
        found = self.opened()
        if found is not None and self._has(found, batch):
            return False
        columns = self._columns_or_created(history.stored(rows.schema), found)
        incoming = history.as_rows(rows.toArrow(), arrow_columns(columns))
        return self._commit(lambda: self._keep(incoming, batch, history))

    def compact(self, target_bytes: int | None = None) -> dict[str, int]:
        """Join small files into larger ones; how many files were replaced by how many. Appends go on meanwhile."""
        found = self.opened()
        if found is None:
            return {"removed": 0, "added": 0}
        done = found.optimize.compact(target_size=target_bytes)
        return {"removed": done["numFilesRemoved"], "added": done["numFilesAdded"]}

    def expire(self, keep_ms: int, now_ms: int) -> int:
        """Forget versions that are older than `keep_ms`: delete the files that only they have; how many there were.

        The time of a removal is in the log, in which Delta itself looks.
        """
        del now_ms
        found = self.opened()
        if found is None:
            return 0
        # A checkpoint holds what older entries of the log say: then they may go, as the table's properties have it.
        found.create_checkpoint()
        found.cleanup_metadata()
        gone = found.vacuum(_hours(keep_ms), dry_run=False, enforce_retention_duration=False)
        return len(gone)

    def remove_orphans(self, after_ms: int, now_ms: int) -> int:
        """Delete files that no version of the table has once they are older than `after_ms`; how many there were."""
        del now_ms
        found = self.opened()
        if found is None:
            return 0
        gone = found.vacuum(_hours(after_ms), dry_run=False, enforce_retention_duration=False, full=True)
        return len(gone)

    def committed(self, application: str) -> Committed | None:
        """The last batch of a query that the table has."""
        found = self.opened()
        return None if found is None else _committed(found, application)

    def read(self) -> "pa.Table":
        """The rows of the table as it is now."""
        from deltalake import DeltaTable

        return DeltaTable(self._path, storage_options=self._options).to_pyarrow_table()

    def opened(self) -> Any:
        """The table as it is now; None if it does not exist."""
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self._path, self._options):
            return None
        return DeltaTable(self._path, storage_options=self._options)

    def _has(self, table: Any, batch: Batch) -> bool:
        return is_written(batch, _committed(table, batch.application), self.name)

    def _commit(self, commit: Callable[[], bool]) -> bool:
        from deltalake.exceptions import CommitFailedError, DeltaError

        # The second is what a table raises that another query creates at the same time.
        return until_no_conflict(commit, (CommitFailedError, DeltaError))

    def _add(self, columns: StructType, batch: Batch, actions: list[Any]) -> bool:
        from deltalake.transaction import create_table_with_add_actions

        found = self.opened()
        how = _commit_properties(batch)
        if found is None:
            create_table_with_add_actions(
                self._path,
                delta_schema(columns),
                actions,
                mode="error",
                partition_by=list(self._partition_by),
                storage_options=self._options,
                commit_properties=how,
            )
            return True
        # Checked again: a driver that was taken for dead may have committed since. After this, Delta's check sees it.
        if self._has(found, batch):
            return False
        names = list(_partition_columns(found))
        found.create_write_transaction(actions, "append", found.schema(), names, commit_properties=how)
        return True

    def _merge(self, last: "LastChanges", batch: Batch, changes: "KeyedChanges") -> bool:
        found = self.opened()
        if self._has(found, batch):
            return False
        source = last.rows
        same = _same(changes.key)
        order = _quoted(changes.order_by)
        newer = f"(target.{order} IS NULL OR source.{order} >= target.{order})"
        values = {_quoted(name): f"source.{_quoted(name)}" for name in changes.stored_names(source.column_names)}
        merging = found.merge(
            source, same, source_alias="source", target_alias="target", commit_properties=_commit_properties(batch)
        )
        if changes.keep_deleted is not None:
            merging = merging.when_matched_update(values, newer).when_not_matched_insert(values)
        else:
            gone = f"source.{_quoted(changes.deleted)}"
            merging = merging.when_matched_delete(f"{gone} AND {newer}")
            merging = merging.when_matched_update(values, f"NOT {gone} AND {newer}")
            merging = merging.when_not_matched_insert(values, f"NOT {gone}")
        if last.truncated is not None:
            at = literal(last.truncated)
            older = f"target.{order} IS NULL OR target.{order} < {at}"
            if changes.keep_deleted is None:
                merging = merging.when_not_matched_by_source_delete(older)
            else:
                marked = {_quoted(changes.keep_deleted): "true", order: at}
                merging = merging.when_not_matched_by_source_update(marked, older)
        merging.execute()
        return True

    def _keep(self, incoming: "pa.Table", batch: Batch, history: "History") -> bool:
        import pyarrow as pa

        found = self.opened()
        if self._has(found, batch):
            return False
        new = history.replacement(_rows_of_keys(found, incoming, history), incoming)
        gone = new.keys.append_column(_GONE, pa.repeat(True, new.keys.num_rows))
        put = new.rows.append_column(_GONE, pa.repeat(False, new.rows.num_rows))
        source = pa.concat_tables([put, gone], promote_options="default")
        is_gone = f"source.{_GONE}"
        merging = found.merge(
            source,
            f"{is_gone} AND {_same(history.key)}",
            source_alias="source",
            target_alias="target",
            commit_properties=_commit_properties(batch),
        )
        values = {_quoted(name): f"source.{_quoted(name)}" for name in new.rows.column_names}
        merging.when_matched_delete().when_not_matched_insert(values, f"NOT {is_gone}").execute()
        return True

    def _write_files(self, rows: "DataFrame", columns: StructType, names: tuple[str, ...]) -> list[Any]:
        """Write the rows below the table, on the executors; the files, which no commit names yet."""
        from deltalake.transaction import AddAction

        path, settings, order = self._path, self._settings, self._sort_by
        schema = arrow_columns(columns)

        def write(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
            import pyarrow as pa

            gathered = list(batches)
            whole = in_order(fitted(pa.Table.from_batches(gathered), schema), order) if gathered else None
            parts = () if whole is None else _parts(whole, names)
            written = [_write_file(path, settings, *part) for part in parts]
            columns = zip(*written, strict=True) if written else ([], [], [], [])
            kinds = (pa.string(), pa.int64(), pa.string(), pa.string())
            arrays = [pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, ["path", "size", "stats", "partition"])

        now_ms = int(time.time() * 1000)
        return [
            AddAction(
                path=file.path,
                size=file.size,
                partition_values=json.loads(file.partition),
                modification_time=now_ms,
                data_change=True,
                stats=file.stats,
            )
            for file in rows.mapInArrow(write, _FILES).collect()
        ]

    def _columns_for(self, rows: StructType, found: Any) -> StructType:
        """The columns that files for `rows` have, once the table has them too.

        The log of a table accepts files of any columns; its readers would then fail. New columns are a commit of their
        own: a driver that dies after it leaves columns without values, and the batch that is repeated finds them.
        """
        if found is None:
            self._check_partitions(rows)
            return created_columns(rows)
        there = _columns(found)
        if self._rule.after(there, rows) == there:
            return there
        self._commit(lambda: self._add_columns(rows))
        return _columns(self.opened())

    def _columns_or_created(self, rows: StructType, found: Any) -> StructType:
        """The columns that the table has for `rows`; it is created if it is missing."""
        from deltalake import DeltaTable

        columns = self._columns_for(rows, found)
        if found is None:
            DeltaTable.create(
                self._path,
                delta_schema(columns),
                mode="ignore",
                partition_by=list(self._partition_by),
                storage_options=self._options,
            )
        return columns

    def _check_partitions(self, rows: StructType) -> None:
        check_names(self.name, "partition_by", self._partition_by, rows.fieldNames())

    def _add_columns(self, rows: StructType) -> bool:
        found = self.opened()
        there = _columns(found)
        wanted = self._rule.after(there, rows)
        changed = [field for field in wanted.fields if field not in there.fields]
        if changed:
            found.alter.add_columns(delta_schema(StructType(changed)).fields)
        return bool(changed)


def delta_schema(columns: StructType) -> Any:
    """Columns as Delta has them."""
    from deltalake import Schema

    return Schema.from_arrow(arrow_columns(columns))


def _columns(table: Any) -> StructType:
    import pyarrow as pa

    return table_columns(pa.schema(table.schema().to_arrow()))


def _partition_columns(table: Any) -> tuple[str, ...]:
    """The table's own: a file of other partitions would be read without the values of their columns."""
    return tuple(table.metadata().partition_columns)


def _committed(table: Any, application: str) -> Committed | None:
    number = table.transaction_version(application)
    if number is None:
        return None
    plan = table.transaction_version(application + _PLAN)
    return Committed(number, None if plan is None else f"{plan:0{PLAN_DIGITS}x}")


def _commit_properties(batch: Batch) -> Any:
    from deltalake import CommitProperties, Transaction

    marks = [Transaction(batch.application, batch.number)]
    if batch.plan is not None:
        marks.append(Transaction(batch.application + _PLAN, int(batch.plan, 16)))
    return CommitProperties(app_transactions=marks)


def _hours(ms: int) -> int:
    """At least as long: Delta counts in hours."""
    return -(-ms // 3_600_000)


def _same(key: Sequence[str]) -> str:
    return " AND ".join(f"target.{_quoted(name)} = source.{_quoted(name)}" for name in key)


def literal(value: Any) -> str:
    """A value as the SQL of a merge has it."""
    if isinstance(value, datetime):
        micros = int(value.replace(tzinfo=value.tzinfo or UTC).timestamp()) * 1_000_000 + value.microsecond
        zone = "None" if value.tzinfo is None else 'Some("UTC")'
        return f"arrow_cast({micros}, 'Timestamp(Microsecond, {zone})')"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _rows_of_keys(table: Any, incoming: "pa.Table", history: "History") -> "pa.Table":
    """The rows that a batch of changes may concern."""
    import pyarrow.dataset as ds

    dataset = table.to_pyarrow_dataset(as_large_types=False)
    if history.truncates(incoming):
        return dataset.to_table()
    keys = keys_of(incoming, history.key)
    known = ds.field(history.key[0]).is_null()
    among = None
    for name in history.key:
        is_in = ds.field(name).isin(keys[name].combine_chunks())
        among = is_in if among is None else among & is_in
    return dataset.to_table(filter=known | among)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _parts(whole: "pa.Table", names: Sequence[str]) -> "Iterator[tuple[pa.Table, Partition]]":
    """The rows of each partition of the table, without the columns that say which one it is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not whole.num_rows:
        return
    if not names:
        yield whole, {}
        return
    rest = whole.drop_columns(list(names))
    texts = pa.table({name: whole[name].cast(pa.string()) for name in names})
    for partition in texts.group_by(list(names)).aggregate([]).to_pylist():
        mask = None
        for name, value in partition.items():
            is_here = pc.is_null(texts[name]) if value is None else pc.fill_null(pc.equal(texts[name], value), False)
            mask = is_here if mask is None else pc.and_(mask, is_here)
        yield rest.filter(mask), partition


def _write_file(
    table: str, settings: storage.Settings, rows: "pa.Table", partition: Partition
) -> tuple[str, int, str, str]:
    import pyarrow.parquet as pq

    path = os.path.join(_folder(partition), f"part-{uuid4()}.parquet")
    files, root = storage.files_of(table, settings)
    target = f"{root}/{path}"
    if not storage.is_remote(table):
        files.create_dir(os.path.dirname(target), recursive=True)
    pq.write_table(rows, target, compression="zstd", filesystem=files)
    return path, files.get_file_info(target).size, json.dumps(statistics(rows)), json.dumps(partition)


def statistics(rows: "pa.Table") -> dict[str, Any]:
    """What readers need to pass a file over: the least and the greatest of numbers, days and short texts, and nulls."""
    import pyarrow as pa
    import pyarrow.compute as pc

    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, values in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_nested(values.type):
            continue
        nulls[name] = values.null_count
        if not (pa.types.is_integer(values.type) or pa.types.is_date(values.type) or pa.types.is_string(values.type)):
            continue
        ends = pc.min_max(values).as_py()
        if ends["min"] is None or any(isinstance(each, str) and len(each) > _SHORT for each in ends.values()):
            continue
        texts = {end: each.isoformat() if isinstance(each, date) else each for end, each in ends.items()}
        least[name], greatest[name] = texts["min"], texts["max"]
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _folder(partition: Partition) -> str:
    """`day=2026-01-01`, for people: the table's log says which partition a file is of. Nothing for unusual values."""
    if not all(value and _PLAIN.fullmatch(value) for value in partition.values()):
        return ""
    return os.path.join("", *[f"{name}={value}" for name, value in partition.items()])
