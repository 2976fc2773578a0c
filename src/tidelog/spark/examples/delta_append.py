"""Batches appended to a Delta Lake table exactly once, without a jar: executors write, the driver commits.

Each task writes its rows as Parquet files below the table and reports them; the driver adds all files of a batch in one
commit of the table's log, together with the number of the batch (an application transaction of Delta's). Files that no
commit names are not part of the table: a batch that died half way, or before its commit, leaves nothing to be seen, and
one that Spark repeats after its commit is passed over. `DeltaTable.vacuum` removes such files in time.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_FILES: Final = "path string, size long, records long, partition string"
_NO_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"


def append_batch(
    rows: "DataFrame", table: str, *, application: str, version: int, partition_by: Sequence[str] = ()
) -> bool:
    """Append `rows` as number `version` of `application`, whose numbers ascend; False if that was done before.

    `table` is a directory that driver and executors share; the table is made if it is not there.
    """
    from deltalake import CommitProperties, DeltaTable, Transaction

    if DeltaTable.is_deltatable(table):
        last = DeltaTable(table).transaction_version(application)
        if last is not None and last >= version:
            return False
    os.makedirs(table, exist_ok=True)
    files = write_files(rows, table, partition_by)
    properties = CommitProperties(app_transactions=[Transaction(application, version)])
    _commit(table, rows, files, partition_by, properties)
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


def _parts(whole: "pa.Table", names: Sequence[str]) -> "Iterator[tuple[pa.Table, dict[str, str | None]]]":
    """The rows of each partition of the table, without the columns that say which one it is."""
    import pyarrow.compute as pc

    if not whole.num_rows:
        return
    if not names:
        yield whole, {}
        return
    for values in whole.select(names).group_by(list(names)).aggregate([]).to_pylist():
        mask = None
        for name, value in values.items():
            here = pc.is_null(whole[name]) if value is None else pc.equal(whole[name], value)
            here = pc.fill_null(here, fill_value=False)
            mask = here if mask is None else pc.and_(mask, here)
        partition = {name: None if value is None else str(value) for name, value in values.items()}
        yield whole.filter(mask).drop_columns(list(names)), partition


def _write_file(table: str, rows: "pa.Table", partition: "dict[str, str | None]") -> tuple[str, int, int, str]:
    import pyarrow.parquet as pq

    folder = "/".join(f"{name}={_NO_PARTITION if value is None else value}" for name, value in partition.items())
    path = os.path.join(folder, f"part-{uuid4()}.parquet")
    target = os.path.join(table, path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    pq.write_table(rows, target, compression="zstd")
    return path, os.path.getsize(target), rows.num_rows, json.dumps(partition)


def _commit(table: str, rows: "DataFrame", files: Sequence[Any], partition_by: Sequence[str], properties: Any) -> None:
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import AddAction, create_table_with_add_actions
    from pyspark.sql.pandas.types import to_arrow_schema

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
    schema = Schema.from_arrow(to_arrow_schema(rows.schema, timezone="UTC"))
    if DeltaTable.is_deltatable(table):
        DeltaTable(table).create_write_transaction(
            actions, "append", schema, list(partition_by), commit_properties=properties
        )
        return
    create_table_with_add_actions(
        table, schema, actions, mode="error", partition_by=list(partition_by), commit_properties=properties
    )
