"""Delta Lake through the `deltalake` library: tables read, and batches appended exactly once. No jar.

A batch is appended together with its number, under the query's id (Delta's application transactions); a batch whose
number is there already was written before a crash and is passed over. The rows of a batch pass through the driver.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

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
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

        application = f"tidelog-{query_id()}"
        if DeltaTable.is_deltatable(sink.path):
            last = DeltaTable(sink.path).transaction_version(application)
            if last is not None and last >= batch_id:
                return
        write_deltalake(
            sink.path,
            rows.toArrow(),
            mode="append",
            partition_by=list(sink.partition_by) or None,
            commit_properties=CommitProperties(app_transactions=[Transaction(application, batch_id)]),
        )

    return write
