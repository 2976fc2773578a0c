"""Delta Lake without a jar: tables read, and batches appended exactly once; executors write, the driver commits.

Each task writes its rows as Parquet files below the table and reports them; the driver adds all files of a batch in one
commit of the table's log, together with the number of the batch (an application transaction of Delta's). Files that no
commit names are not part of the table: a batch that fails before its commit is not visible, and
one that Spark repeats after its commit is skipped. `DeltaTable.vacuum` removes such files later.

`append_batch` serves sinks and, called directly, any batch of rows. A task holds its rows in memory.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from tidelog.spark.pipeline.definition.endpoints import Delta
from tidelog.spark.pipeline.definition.pipeline import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Partition = Mapping[str, str | None]

_FILES: Final = "path string, size long, records long, partition string"
_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]+")


def append_batch(
    rows: "DataFrame", table: str, *, application: str, version: int, partition_by: Sequence[str] = ()
) -> bool:
    """Append `rows` as number `version` of `application`, whose numbers ascend; False if that was done before.

    `table` is a directory that driver and executors share; the table is made if it is not there.
    """
    from deltalake import CommitProperties, DeltaTable, Transaction

    found = DeltaTable(table) if DeltaTable.is_deltatable(table) else None
    if found is not None:
        last = found.transaction_version(application)
        if last is not None and last >= version:
            return False
        _check_fits(rows, found, table)
    os.makedirs(table, exist_ok=True)
    files = write_files(rows, table, partition_by)
    properties = CommitProperties(app_transactions=[Transaction(application, version)])
    commit_files(rows, table, files, partition_by, properties)
    return True


def write_files(rows: "DataFrame", table: str, partition_by: Sequence[str]) -> list[Any]:
    """Write the rows below the table, on the executors; the files, which no commit names yet."""
    names = tuple(partition_by)

    def write(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        gathered = list(batches)
        parts = _parts(pa.Table.from_batches(gathered), names) if gathered else ()
        written = [_write_file(table, *part) for part in parts]
        columns = zip(*written, strict=True) if written else ([], [], [], [])
        kinds = (pa.string(), pa.int64(), pa.int64(), pa.string())
        arrays = [pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, ["path", "size", "records", "partition"])

    return rows.mapInArrow(write, _FILES).collect()


def commit_files(rows: "DataFrame", table: str, files: Sequence[Any], partition_by: Sequence[str], how: Any) -> None:
    """Make files part of the table, all at once; `how` are deltalake's CommitProperties."""
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, create_table_with_add_actions

    now_ms = int(time.time() * 1000)
    actions: list[Any] = [
        AddAction(
            path=file.path,
            size=file.size,
            partition_values=json.loads(file.partition),
            modification_time=now_ms,
            data_change=True,
            stats=json.dumps({"numRecords": file.records}),
        )
        for file in files
    ]
    names = list(partition_by)
    if DeltaTable.is_deltatable(table):
        DeltaTable(table).create_write_transaction(actions, "append", _schema(rows), names, commit_properties=how)
        return
    create_table_with_add_actions(
        table, _schema(rows), actions, mode="error", partition_by=names, commit_properties=how
    )


def _schema(rows: "DataFrame") -> Any:
    from deltalake import Schema
    from pyspark.sql.pandas.types import to_arrow_schema

    return Schema.from_arrow(to_arrow_schema(rows.schema, timezone="UTC"))


def _check_fits(rows: "DataFrame", table: Any, path: str) -> None:
    """The log of a table accepts files of any columns; its readers would then fail."""
    there = {field.name: str(field.type) for field in table.schema().fields}
    given = {field.name: str(field.type) for field in _schema(rows).fields}
    for name in there.keys() | given.keys():
        if there.get(name) != given.get(name):
            raise PipelineError(
                f"the Delta table {path} has column {name!r} as {there.get(name)}, but the rows have it as "
                f"{given.get(name)}: they must have the same columns"
            )


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


def _write_file(table: str, rows: "pa.Table", partition: Partition) -> tuple[str, int, int, str]:
    import pyarrow.parquet as pq

    path = os.path.join(_folder(partition), f"part-{uuid4()}.parquet")
    target = os.path.join(table, path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    pq.write_table(rows, target, compression="zstd")
    return path, os.path.getsize(target), rows.num_rows, json.dumps(partition)


def _folder(partition: Partition) -> str:
    """`day=2026-01-01`, for people: the table's log says which partition a file is of. Nothing for unusual values."""
    if not all(value and _PLAIN.fullmatch(value) for value in partition.values()):
        return ""
    return os.path.join("", *[f"{name}={value}" for name, value in partition.items()])


def read_delta(spark: "SparkSession", source: Delta) -> "DataFrame":
    """The table as it is now."""
    from deltalake import DeltaTable

    return spark.createDataFrame(DeltaTable(source.path).to_pyarrow_table())


def delta_writer(sink: Delta, query_id: Callable[[], str]) -> "Callable[[DataFrame, int], None]":
    """A function for `foreachBatch`."""

    def write(rows: "DataFrame", batch_id: int) -> None:
        append_batch(
            rows, sink.path, application=f"tidelog-{query_id()}", version=batch_id, partition_by=sink.partition_by
        )

    return write
