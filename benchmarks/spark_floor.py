"""What Spark itself takes to move rows between the JVM and Python: a source of ready batches, a sink that drops them.

As a stream, the source has one row in each micro-batch. Its workers exempt their modules from garbage collection, as
ours do (`tidelog.spark.worker`): without that a micro-batch takes twice as long. No connector that is written in Python
can be quicker than these. `spark_cases` holds ours against them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

FLOOR = "benchmark-floor"
ROWS_PER_BATCH = 10_000
TASKS = 4
VALUES = {
    "key": b"12345678",
    "value": b"v" * 100,
    "topic": "small",
    "partition": 0,
    "offset": 0,
    "timestamp": 0,
    "timestampType": 0,
}


def register(spark: SparkSession) -> None:
    """Make the format known; workers get these classes by value, for they may not find this package."""
    import sys

    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(FloorSource)


class FloorSource(DataSource):
    """The format: columns as ours has them, made once for each task."""

    @classmethod
    def name(cls) -> str:
        return FLOOR

    def schema(self) -> str:
        return (
            "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        return _ReadyBatches(schema, int(self.options["rows"]))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002 - Spark's names
        return _Dropping()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        _settle("plan")
        return _ReadyRows(schema, int(self.options["rows"]))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802, ARG002 - Spark's names
        _settle("plan")
        return _DroppingStream()


class _ReadyBatches(DataSourceReader):
    def __init__(self, schema: StructType, rows: int) -> None:
        self._schema = schema
        self._rows = rows

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - Spark's name
        batch = _ready(self._schema, ROWS_PER_BATCH)
        for start in range(0, self._rows // TASKS, ROWS_PER_BATCH):
            yield batch.slice(0, min(ROWS_PER_BATCH, self._rows // TASKS - start))


class _Dropping(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: list[Any]) -> None:
        """Nothing was written."""

    def abort(self, messages: list[Any]) -> None:
        """Nothing was written."""


class _ReadyRows(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, schema: StructType, rows: int) -> None:
        self._schema = schema
        self._rows = rows

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadMaxRows(1)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802, ARG002 - Spark's names
        return {"row": min(start["row"] + 1, self._rows)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Where this ends was said in the options."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:  # noqa: ARG002 - Spark's name
        return [InputPartition(end["row"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - Spark's name
        yield _ready(self._schema, 1)
        _settle("read")


class _DroppingStream(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        _settle("write")
        return WriterCommitMessage()

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing was written."""

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing was written."""


def _settle(work: str) -> None:
    from tidelog.spark.worker import settle

    settle(work)


def _ready(schema: StructType, rows: int) -> pa.RecordBatch:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted = to_arrow_schema(schema, timezone="UTC")
    columns = [pa.repeat(pa.scalar(VALUES[field.name], field.type), rows) for field in wanted]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)
