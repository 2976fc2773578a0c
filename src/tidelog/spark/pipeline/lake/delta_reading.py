"""The files that commits of a Delta table have added, and their rows: a table read as a stream.

A version of the table that removes rows, or changes them, has no place in a stream of added rows and is refused; one
that only moves rows between files (a compaction) is passed over.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidelog.spark.pipeline.definition.endpoints import Delta
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.lake import storage
from tidelog.spark.pipeline.lake.delta import DeltaLake

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class DeltaFile:
    """A file of a table and the partition it is of."""

    path: str
    partition: tuple[tuple[str, str | None], ...]


class DeltaFiles:
    """The files of a table by version."""

    def __init__(self, endpoint: Delta) -> None:
        self._endpoint = endpoint
        self._path = endpoint.path.replace("s3a://", "s3://", 1)
        self._settings = storage.settings(endpoint.storage)

    def schema(self) -> "pa.Schema":
        """The columns of the table."""
        import pyarrow as pa

        return pa.schema(self._opened().schema().to_arrow())

    def latest(self) -> int:
        """The last version."""
        return int(self._opened().version())

    def added(self, after: int | None, upto: int) -> list[DeltaFile]:
        """What versions after `after` have added; without it, all files that version `upto` has."""
        import pyarrow as pa

        if after is not None:
            return [file for version in range(after + 1, upto + 1) for file in self._added_by(version)]
        table = self._opened()
        table.load_as_version(upto)
        features = set(table.protocol().reader_features or ())
        if features & {"columnMapping", "deletionVectors"}:
            used = ", ".join(sorted(features))
            raise PipelineError(f"{self._endpoint} uses {used}, which cannot be read as a stream")
        rows = pa.table(table.get_add_actions(flatten=False)).to_pylist()
        return [_file(row["path"], row.get("partition") or row.get("partition_values") or {}) for row in rows]

    def read(self, files: Sequence[DeltaFile], schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
        """The rows of files, with the columns of `schema`."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        system, root = storage.files_of(self._path, self._settings)
        for file in files:
            found = pq.ParquetFile(system.open_input_file(f"{root}/{file.path}")).read()
            partition = dict(file.partition)
            columns = [
                found[field.name].cast(field.type)
                if field.name in found.column_names
                else pa.array([partition.get(field.name)] * found.num_rows, pa.string()).cast(field.type)
                for field in schema
            ]
            yield from pa.table(columns, schema=schema).to_batches()

    def _opened(self) -> Any:
        found = DeltaLake(self._endpoint).opened()
        if found is None:
            raise PipelineError(f"{self._endpoint} does not exist: a table is read as a stream once it has columns")
        return found

    def _added_by(self, version: int) -> list[DeltaFile]:
        system, root = storage.files_of(self._path, self._settings)
        try:
            with system.open_input_stream(f"{root}/_delta_log/{version:020}.json") as log:
                actions = [json.loads(line) for line in log.read().splitlines() if line.strip()]
        except FileNotFoundError:
            raise PipelineError(
                f"version {version} of {self._endpoint} was removed from its log before it was read: start with a new "
                "checkpoint, which reads the whole table, or keep the log longer (delta.logRetentionDuration)"
            ) from None
        for action in actions:
            if action.get("remove", {}).get("dataChange"):
                raise PipelineError(
                    f"version {version} of {self._endpoint} removes or changes rows: only added rows can be read as a "
                    "stream. Write the changes to a topic beside the table, or put the table in `tables`"
                )
        added = [action["add"] for action in actions if action.get("add", {}).get("dataChange")]
        return [_file(each["path"], each.get("partitionValues") or {}) for each in added]


def _file(path: str, partition: dict[str, Any]) -> DeltaFile:
    values = {name: None if value is None else str(value) for name, value in partition.items()}
    return DeltaFile(unquote(path), tuple(sorted(values.items())))
