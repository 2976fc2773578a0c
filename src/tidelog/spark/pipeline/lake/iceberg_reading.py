"""The files that snapshots of an Iceberg table have added, and their rows: a table read as a stream.

A snapshot that removes rows, or changes them, has no place in a stream of added rows and is refused; one that only
moves rows between files (a compaction) is passed over.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.spark.pipeline.definition.endpoints import Iceberg
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.lake.iceberg import COMPACTION, MAIN, IcebergTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table


class IcebergFiles:
    """The files of a table by snapshot."""

    def __init__(self, endpoint: Iceberg) -> None:
        self._endpoint = endpoint

    def schema(self) -> "pa.Schema":
        """The columns of the table."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        return schema_to_pyarrow(self._opened().schema(), include_field_ids=False)

    def latest(self) -> int | None:
        """The last snapshot; None if there is none yet."""
        snapshot = self._opened().snapshot_by_name(self._endpoint.branch or MAIN)
        return None if snapshot is None else snapshot.snapshot_id

    def added(self, after: int | None, upto: int) -> list[Any]:
        """What snapshots after `after` have added; without it, all files that `upto` has."""
        table = self._opened()
        if after is None:
            return list(table.scan(snapshot_id=upto).plan_files())
        if after == upto:
            return []
        self._check_appends(table, after, upto)
        scan = table.incremental_append_scan(from_snapshot_id_exclusive=after, to_snapshot_id_inclusive=upto)
        return list(scan.plan_files())

    def read(self, files: Sequence[Any], schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
        """The rows of files, with the columns of `schema`."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        table = self._opened()
        scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
        yield from scan.to_table(list(files)).select(schema.names).cast(schema).to_batches()

    def _opened(self) -> "Table":
        found = IcebergTable(self._endpoint).opened()
        if found is None:
            raise PipelineError(f"{self._endpoint} does not exist: a table is read as a stream once it has columns")
        return found

    def _check_appends(self, table: "Table", after: int, upto: int) -> None:
        at = upto
        while at != after:
            snapshot = table.snapshot_by_id(at)
            if snapshot is None or snapshot.parent_snapshot_id is None:
                raise PipelineError(
                    f"snapshot {after} of {self._endpoint} has expired before the next ones were read: start with a "
                    "new checkpoint, which reads the whole table, or expire snapshots later"
                )
            summary = snapshot.summary
            operation = "append" if summary is None else summary.operation.value
            is_move = operation == "replace" or (summary is not None and summary.get(COMPACTION) == "true")
            if operation != "append" and not is_move:
                raise PipelineError(
                    f"snapshot {at} of {self._endpoint} removes or changes rows ({operation}): only added rows can be "
                    "read as a stream. Write the changes to a topic beside the table, or put the table in `tables`"
                )
            at = snapshot.parent_snapshot_id
