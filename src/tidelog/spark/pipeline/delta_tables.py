"""Delta Lake through the `deltalake` library: tables read, and batches appended exactly once. No jar.

A batch is appended together with its number, under the query's id (Delta's application transactions); a batch whose
number is there already was written before a crash and is passed over. `delta_append` tells how.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.spark.pipeline.delta_append import append_batch
from tidelog.spark.pipeline.endpoints import Delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
