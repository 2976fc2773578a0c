"""Iceberg without a jar: batches appended or merged exactly once, small files compacted, tables read.

Each task writes data files as PyIceberg does (field ids, statistics, hidden partitions) and reports them; the driver
adds all files of a batch in one commit of the catalog, which also sets the table property `tidelog.batch.<query>` to
the number of the batch. A property survives the expiry of snapshots. PyIceberg repeats a commit that meets another
writer's; here it does not, because the property must be looked at again first.

Tried with PyIceberg 0.12. `_dataframe_to_data_files` is the only name of it that is not public.
"""

import os
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StructType

from tidelog.spark.pipeline.definition.endpoints import Iceberg
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.lake import storage
from tidelog.spark.pipeline.lake.batches import Batch, Committed, is_written
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
from tidelog.spark.pipeline.lake.iceberg_upkeep import expired, heads, known_snapshots, remove_orphans

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import DataScan, Table, Transaction
    from pyspark.sql import DataFrame

    from tidelog.spark.pipeline.lake.changes import KeyedChanges, LastChanges
    from tidelog.spark.pipeline.lake.history import History

PROPERTY: Final = "tidelog.batch."
MAIN: Final = "main"
"""The branch that readers see who name none."""
COMPACTION: Final = "tidelog.compaction"
"""A property of snapshots that change files and no rows."""
_CATALOG_FILE: Final = "catalog.db"
_TRANSFORM: Final = re.compile(r"(\w+)\((?:(\d+)\s*,\s*)?([^()]+)\)")
_SMALL: Final = 0.75
"""A file below this part of the target size is small."""
_TARGET_BYTES: Final = 128 * 1024 * 1024


class IcebergTable:
    """The table that an endpoint describes, in its catalog."""

    def __init__(self, endpoint: Iceberg) -> None:
        self.name = str(endpoint)
        self._endpoint = endpoint
        self._rule = Columns(self.name, "iceberg", endpoint.merge_schema, widens=True)
        self._branch = endpoint.branch or MAIN
        self._opened_catalog: Catalog | None = None

    def append(self, rows: "DataFrame", batch: Batch) -> bool:
        """Append a batch; False if the table has it."""
        found = self.opened()
        if found is not None and self._has(found, batch):
            return False
        check_names(self.name, "sort_by", self._endpoint.sort_by, rows.schema.fieldNames())
        table = self._with_columns(rows.schema, found or self._create(rows.schema))
        self._begin_branch(table)
        files = _write_files(rows, table, self._endpoint.sort_by)
        return self._commit(lambda: self._add(files, batch))

    def merge(self, rows: "DataFrame", batch: Batch, changes: "KeyedChanges") -> bool:
        """Merge a batch of changes; False if the table has it. `rows` has one change for each key."""
        found = self.opened()
        if found is not None and self._has(found, batch):
            return False
        columns = changes.stored(rows.schema)
        table = self._with_columns(columns, found or self._create(columns))
        self._begin_branch(table)
        last = changes.last(rows.toArrow(), arrow_columns(_columns(table)))
        return self._commit(lambda: self._merge(last, batch, changes))

    def keep(self, rows: "DataFrame", batch: Batch, history: "History") -> bool:
        """Merge a batch of changes into a table of all versions; False if the table has it."""
        found = self.opened()
        if found is not None and self._has(found, batch):
            return False
        columns = history.stored(rows.schema)
        table = self._with_columns(columns, found or self._create(columns))
        self._begin_branch(table)
        incoming = history.as_rows(rows.toArrow(), arrow_columns(_columns(table)))
        return self._commit(lambda: self._keep(incoming, batch, history))

    def compact(self, target_bytes: int | None = None) -> dict[str, int]:
        """Join small files into larger ones; how many files were replaced by how many. Appends go on meanwhile."""
        from pyiceberg.exceptions import CommitFailedException, ValidationException

        removed = added = 0
        table = self.opened()
        for group in [] if table is None else _small_files(self._scan(table), target_bytes or _TARGET_BYTES):
            assert table is not None
            new = _rewritten(table, group, self._endpoint.sort_by)
            old = [task.file for task in group]
            try:
                until_no_conflict(partial(self._replace, old, new), (CommitFailedException,))
            except ValidationException:
                # A merge has rewritten one of the files since: its rows are elsewhere now.
                continue
            removed, added = removed + len(group), added + len(new)
        return {"removed": removed, "added": added}

    def expire(self, keep_ms: int, now_ms: int) -> int:
        """Forget snapshots that are older than `keep_ms`; how many there were. Their files become orphans."""
        from pyiceberg.exceptions import CommitFailedException

        gone: list[int] = []

        def commit() -> bool:
            table = self.opened()
            gone[:] = [] if table is None else expired(known_snapshots(table), heads(table), before_ms=now_ms - keep_ms)
            if table is not None and gone:
                table.maintenance.expire_snapshots().by_ids(gone).commit()
            return bool(gone)

        until_no_conflict(commit, (CommitFailedException,))
        return len(gone)

    def remove_orphans(self, after_ms: int, now_ms: int) -> int:
        """Delete files that no snapshot of the table has once they are older than `after_ms`; how many there were."""
        if self.opened() is None:
            return 0
        return remove_orphans(self._current, storage.settings(self._endpoint.storage), now_ms - after_ms)

    def committed(self, application: str) -> Committed | None:
        """The last batch of a query that the table has."""
        found = self.opened()
        return None if found is None else _committed(found, application)

    def publish(self, tag: str | None = None) -> tuple[int | None, int]:
        """Give readers what the branch has; the snapshots that they saw before and see now. `tag` names the new one.

        Raises PipelineError if the branch has none, or if readers have seen something since that is not in it.
        """
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.table.snapshots import ancestors_of

        seen: list[tuple[int | None, int]] = []

        def commit() -> bool:
            table = self._current()
            head, shown = table.snapshot_by_name(self._branch), table.snapshot_by_name(MAIN)
            if head is None:
                raise PipelineError(f"{self.name} has no branch {self._branch!r} to publish")
            if shown is not None and shown.snapshot_id not in {
                each.snapshot_id for each in ancestors_of(head, table.metadata)
            }:
                raise PipelineError(
                    f"{self.name}: snapshot {shown.snapshot_id}, which readers see, is not part of the branch "
                    f"{self._branch!r}: something else was written to {MAIN!r} since the branch began"
                )
            if tag is not None and tag in table.metadata.refs:
                raise PipelineError(f"{self.name} has a branch or a tag {tag!r} already")
            seen[:] = [(None if shown is None else shown.snapshot_id, head.snapshot_id)]
            changing = table.manage_snapshots()
            if tag is not None:
                changing = changing.create_tag(head.snapshot_id, tag)
            changing.set_current_snapshot(snapshot_id=head.snapshot_id).commit()
            return True

        until_no_conflict(commit, (CommitFailedException,))
        return seen[0]

    def read(self) -> "pa.Table":
        """The rows of the table as it is now."""
        return self._scan(self._current()).to_arrow()

    def opened(self) -> "Table | None":
        """The table as it is now; None if it does not exist."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            table = self._catalog.load_table(self._endpoint.table)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        # Only in this copy of the metadata: conflicts are dealt with by `until_no_conflict`.
        table.metadata.properties["commit.retry.num-retries"] = "0"
        return table

    @property
    def _catalog(self) -> "Catalog":
        if self._opened_catalog is None:
            from pyiceberg.catalog import load_catalog

            self._opened_catalog = load_catalog(self._endpoint.catalog, **catalog_properties(self._endpoint))
        return self._opened_catalog

    def _scan(self, table: "Table", **options: Any) -> "DataScan":
        scan = table.scan(**options)
        # A scan of a branch has the columns that the table had at its last snapshot.
        is_apart = self._branch != MAIN and self._branch in table.metadata.refs
        return scan.use_ref(self._branch) if is_apart else scan

    def _begin_branch(self, table: "Table") -> None:
        """Begin the branch with what readers see."""
        from pyiceberg.exceptions import CommitFailedException

        if self._branch in table.metadata.refs or self._branch == MAIN:
            return

        def commit() -> bool:
            now = self._current()
            if now.snapshot_by_name(MAIN) is None:
                # A table without a snapshot has no place for a branch to begin.
                with now.transaction() as transaction, transaction.update_snapshot().fast_append():
                    pass
                now = self._current()
            shown = now.snapshot_by_name(MAIN)
            if shown is not None and self._branch not in now.metadata.refs:
                now.manage_snapshots().create_branch(shown.snapshot_id, self._branch).commit()
            return True

        until_no_conflict(commit, (CommitFailedException,))

    def _current(self) -> "Table":
        found = self.opened()
        if found is None:
            raise PipelineError(f"{self.name} does not exist in the catalog {self._endpoint.catalog!r}")
        return found

    def _has(self, table: "Table", batch: Batch) -> bool:
        return is_written(batch, _committed(table, batch.application), self.name)

    def _create(self, columns: StructType) -> "Table":
        from pyiceberg.exceptions import TableAlreadyExistsError

        namespace = self._endpoint.table.rpartition(".")[0]
        self._catalog.create_namespace_if_not_exists(namespace)
        schema = arrow_columns(created_columns(columns))
        try:
            with self._catalog.create_table_transaction(self._endpoint.table, schema) as transaction:
                _partition(transaction, self._endpoint.partition_by)
        except TableAlreadyExistsError:
            pass
        except ValueError as error:
            raise PipelineError(f"{self.name}: partition_by is {list(self._endpoint.partition_by)}: {error}") from None
        return self._current()

    def _commit(self, commit: Callable[[], bool]) -> bool:
        from pyiceberg.exceptions import CommitFailedException, ValidationException

        return until_no_conflict(commit, (CommitFailedException, ValidationException))

    def _replace(self, old: list[Any], new: list[Any]) -> bool:
        transaction = self._current().transaction()
        with transaction.update_snapshot({COMPACTION: "true"}, self._branch).overwrite() as replacing:
            for file in old:
                replacing.delete_data_file(file)
            for file in new:
                replacing.append_data_file(file)
        transaction.commit_transaction()
        return True

    def _add(self, files: list[Any], batch: Batch) -> bool:
        table = self._current()
        if self._has(table, batch):
            return False
        transaction = table.transaction()
        if files:
            with transaction.update_snapshot(_marks(batch), self._branch).fast_append() as append:
                for file in files:
                    append.append_data_file(file)
        transaction.set_properties(_marks(batch))
        transaction.commit_transaction()
        return True

    def _merge(self, last: "LastChanges", batch: Batch, changes: "KeyedChanges") -> bool:
        import pyarrow as pa
        from pyiceberg.table.upsert_util import create_match_filter

        table = self._current()
        if self._has(table, batch):
            return False
        source = last.rows
        transaction = table.transaction()
        if last.truncated is not None:
            self._truncate(table, transaction, last.truncated, changes, batch)
        if source.num_rows:
            matching = create_match_filter(source, list(changes.key))
            keys, order = list(changes.key), changes.order_by
            found = self._scan(table, row_filter=matching, selected_fields=(*keys, order)).to_arrow()
            found = found.select([*keys, order])
            there = found.cast(pa.schema([source.schema.field(name) for name in (*keys, order)]))
            winning = _newer(source, there, changes)
            replaced = winning.select(keys).join(there.select(keys), keys, join_type="left semi")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if replaced.num_rows:
                    transaction.delete(create_match_filter(replaced, keys), _marks(batch), branch=self._branch)
                rows = _remaining(winning, changes)
                if rows.num_rows:
                    rows = rows.select(changes.stored_names(rows.column_names))
                    transaction.append(rows, _marks(batch), self._branch)
        transaction.set_properties(_marks(batch))
        transaction.commit_transaction()
        return True

    def _keep(self, incoming: "pa.Table", batch: Batch, history: "History") -> bool:
        from pyiceberg.table.upsert_util import create_match_filter

        table = self._current()
        if self._has(table, batch):
            return False
        transaction = table.transaction()
        if incoming.num_rows:
            there = fitted(self._rows_of_keys(table, incoming, history), incoming.schema)
            new = history.replacement(there, incoming)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if new.keys.num_rows:
                    matching = create_match_filter(new.keys, list(history.key))
                    transaction.delete(matching, _marks(batch), branch=self._branch)
                if new.rows.num_rows:
                    transaction.append(new.rows, _marks(batch), self._branch)
        transaction.set_properties(_marks(batch))
        transaction.commit_transaction()
        return True

    def _rows_of_keys(self, table: "Table", incoming: "pa.Table", history: "History") -> "pa.Table":
        """The rows that a batch of changes may concern."""
        from pyiceberg.table.upsert_util import create_match_filter

        if history.truncates(incoming):
            return self._scan(table).to_arrow()
        made = _expressions()
        known = made.IsNull(history.key[0])
        keys = keys_of(incoming, history.key)
        return self._scan(table, row_filter=made.Or(known, create_match_filter(keys, list(history.key)))).to_arrow()

    def _truncate(
        self, table: "Table", transaction: "Transaction", truncated: Any, changes: "KeyedChanges", batch: Batch
    ) -> None:
        """Delete the rows that are older than a truncation, or mark them as deleted by it."""
        import pyarrow as pa
        from pyiceberg.expressions.literals import literal

        made = _expressions()
        older = made.Or(made.IsNull(changes.order_by), made.LessThan(changes.order_by, literal(truncated)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            there = None if changes.keep_deleted is None else self._scan(table, row_filter=older).to_arrow()
            transaction.delete(older, _marks(batch), branch=self._branch)
            if there is None or not there.num_rows:
                return
            for name, value in ((changes.keep_deleted, True), (changes.order_by, truncated)):
                place = there.schema.get_field_index(name)
                kind = there.schema.field(place).type
                there = there.set_column(
                    place, there.schema.field(place), pa.repeat(pa.scalar(value, kind), there.num_rows)
                )
            transaction.append(there, _marks(batch), self._branch)

    def _with_columns(self, rows: StructType, table: "Table") -> "Table":
        """The table, once it has columns for `rows`: a commit of its own, because files have the ids of columns."""
        there = _columns(table)
        if self._rule.after(there, rows) == there:
            return table
        self._commit(lambda: self._add_columns(rows))
        return self._current()

    def _add_columns(self, rows: StructType) -> bool:
        table = self._current()
        there = _columns(table)
        wanted = self._rule.after(there, rows)
        if wanted != there:
            with table.update_schema() as update:
                update.union_by_name(arrow_columns(wanted))
        return wanted != there


def catalog_properties(endpoint: Iceberg) -> dict[str, str]:
    """What opens the catalog: the endpoint's properties, else a SQLite file in a local warehouse."""
    properties = {**storage.for_iceberg(storage.settings(endpoint.storage)), **endpoint.properties}
    if endpoint.warehouse is None:
        return properties
    if storage.is_remote(endpoint.warehouse):
        return {"warehouse": endpoint.warehouse, **properties}
    directory = os.path.abspath(endpoint.warehouse.removeprefix("file://"))
    if "uri" in properties:
        return {"warehouse": f"file://{directory}", **properties}
    os.makedirs(directory, exist_ok=True)
    uri = f"sqlite:///{os.path.join(directory, _CATALOG_FILE)}"
    return {"type": "sql", "uri": uri, "warehouse": f"file://{directory}", **properties}


def transform_of(text: str) -> tuple[str, str]:
    """The column and the transform in `day(created)`, `bucket(16, id)` or `country`."""
    found = _TRANSFORM.fullmatch(text.strip())
    if found is None:
        return text.strip(), "identity"
    name, number, column = found.groups()
    return column.strip(), f"{name}[{number}]" if number else name


def _partition(transaction: "Transaction", partition_by: tuple[str, ...]) -> None:
    from pyiceberg.transforms import parse_transform

    if not partition_by:
        return
    with transaction.update_spec() as spec:
        for text in partition_by:
            column, transform = transform_of(text)
            if transform == "identity":
                spec.add_identity(column)
            else:
                spec.add_field(column, parse_transform(transform))


def _marks(batch: Batch) -> dict[str, str]:
    plan = "" if batch.plan is None else f" {batch.plan}"
    return {PROPERTY + batch.application: f"{batch.number}{plan}"}


def _committed(table: "Table", application: str) -> Committed | None:
    text = table.properties.get(PROPERTY + application)
    if text is None:
        return None
    number, _, plan = text.partition(" ")
    return Committed(int(number), plan or None)


def _columns(table: "Table") -> StructType:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return table_columns(schema_to_pyarrow(table.schema(), include_field_ids=False))


def _write_files(rows: "DataFrame", table: "Table", order: tuple[str, ...]) -> list[Any]:
    """Write the rows below the table, on the executors; the files, which no commit names yet."""
    metadata, io = pickle.dumps(table.metadata), pickle.dumps(table.io)
    schema = arrow_columns(_columns(table))

    def write(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pickle

        import pyarrow as pa
        from pyiceberg.io.pyarrow import _dataframe_to_data_files

        gathered = [batch for batch in batches if batch.num_rows]
        files: list[Any] = []
        if gathered:
            whole = in_order(fitted(pa.Table.from_batches(gathered), schema), order)
            # Written by the driver a moment ago.
            opened = pickle.loads(metadata), pickle.loads(io)  # noqa: S301
            files = list(_dataframe_to_data_files(opened[0], whole, opened[1]))
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(files)], pa.binary())], ["files"])

    return [
        file
        for row in rows.mapInArrow(write, "files binary").collect()
        for file in pickle.loads(row.files)  # noqa: S301 - written by a task above
    ]


def _expressions() -> Any:
    """Their constructors take the names of columns, which their types do not say."""
    from pyiceberg import expressions

    return expressions


def _newer(source: "pa.Table", there: "pa.Table", changes: "KeyedChanges") -> "pa.Table":
    """The changes that are not older than the row that the table has."""
    import pyarrow as pa
    import pyarrow.compute as pc

    stored, row, keys = "_stored", "_row", list(changes.key)
    # Arrow joins no structs and arrays, not even beside the keys: their rows are taken by number.
    numbered = source.select([*keys, changes.order_by]).append_column(row, pa.array(range(source.num_rows), pa.int64()))
    joined = numbered.join(there.rename_columns([*keys, stored]), keys, join_type="left outer")
    is_newer = pc.fill_null(pc.greater_equal(joined[changes.order_by], joined[stored]), True)
    return source.take(joined.filter(is_newer)[row])


def _remaining(winning: "pa.Table", changes: "KeyedChanges") -> "pa.Table":
    """The rows that the table has afterwards."""
    import pyarrow.compute as pc

    return winning if changes.keep_deleted is not None else winning.filter(pc.invert(winning[changes.deleted]))


def _small_files(scan: "DataScan", target_bytes: int) -> list[list[Any]]:
    """Groups of small files of the same partition, each group together at most about `target_bytes`."""
    groups: dict[Any, list[list[Any]]] = {}
    for task in sorted(scan.plan_files(), key=lambda each: each.file.file_path):
        if task.delete_files or task.file.file_size_in_bytes >= _SMALL * target_bytes:
            continue
        packs = groups.setdefault(str(task.file.partition), [[]])
        if sum(each.file.file_size_in_bytes for each in packs[-1]) + task.file.file_size_in_bytes > target_bytes:
            packs.append([])
        packs[-1].append(task)
    return [pack for packs in groups.values() for pack in packs if len(pack) > 1]


def _rewritten(table: "Table", group: list[Any], order: tuple[str, ...]) -> list[Any]:
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files

    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    return list(_dataframe_to_data_files(table.metadata, in_order(scan.to_table(group), order), table.io))
