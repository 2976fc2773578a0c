"""A Delta or Iceberg table as a streaming source: first all its rows, then those that are added.

The offset of a batch is the version or snapshot of the table up to which it reads, so a checkpoint holds where to go
on, and a repeated batch reads the same files. A batch reads whole versions.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tidelog.spark.pipeline.definition.endpoints import Delta, Iceberg
from tidelog.spark.pipeline.lake.delta_reading import DeltaFiles
from tidelog.spark.pipeline.lake.iceberg_reading import IcebergFiles

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT: Final = "tidelog-table"
_TABLE: Final = "table"
_VERSION: Final = "version"
_FILES_PER_TASK: Final = 8


class TableFiles(Protocol):
    """The files of a table by version."""

    def schema(self) -> "pa.Schema":
        """The columns of the table."""

    def latest(self) -> int | None:
        """The last version; None if there is none yet."""

    def added(self, after: int | None, upto: int) -> Sequence[Any]:
        """What versions after `after` have added; without it, all files that version `upto` has."""

    def read(self, files: Sequence[Any], schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
        """The rows of files, with the columns of `schema`."""


def table_options(source: Delta | Iceberg) -> dict[str, str]:
    """The option by which the source knows its table."""
    # How a table is kept in order concerns those who write it.
    return {_TABLE: json.dumps({"kind": type(source).__name__, **asdict(replace(source, maintain=None))})}


def _files(options: Mapping[str, str]) -> TableFiles:
    described = json.loads(options[_TABLE])
    kind = described.pop("kind")
    settings: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in described.items()
    }
    return DeltaFiles(Delta(**settings)) if kind == Delta.__name__ else IcebergFiles(Iceberg(**settings))


class TableSource(DataSource):
    """The format of a pipeline whose source is a table."""

    @classmethod
    def name(cls) -> str:
        """The word in `.format(...)`."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of the table, as Spark has them."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(_files(self.options).schema())

    def streamReader(self, schema: StructType) -> "TableReader":  # noqa: N802 - Spark's name
        """For `spark.readStream`."""
        return TableReader(schema, dict(self.options))


class FilesPartition(InputPartition):
    """The files that one task reads."""

    def __init__(self, files: Sequence[Any]) -> None:
        super().__init__(None)
        self.files = files


class TableReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table as a stream."""

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self._schema = schema
        self._options = options
        self._end: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Before the first version."""
        return {_VERSION: None}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The last version there is, or was when an AvailableNow query began."""
        del start, limit
        return {_VERSION: self._end if self._end is not None else _files(self._options).latest()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read no further than the table is now."""
        self._end = _files(self._options).latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A few files for each task."""
        if end[_VERSION] is None or start == end:
            return []
        files = _files(self._options).added(start[_VERSION], end[_VERSION])
        return [FilesPartition(files[at : at + _FILES_PER_TASK]) for at in range(0, len(files), _FILES_PER_TASK)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The rows of some files."""
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, FilesPartition)
        yield from _files(self._options).read(partition.files, to_arrow_schema(self._schema, timezone="UTC"))
