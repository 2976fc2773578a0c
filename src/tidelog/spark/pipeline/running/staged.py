"""Results of micro-batches that are kept beside the checkpoint until every sink has them.

A batch that is repeated after a crash must not be computed again once a sink has it, because a row may fare differently
the second time and would be lost or doubled between the sinks. So its rows are put beside the checkpoint first; every
sink takes them from there, and knows by the batch's number what it has.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.spark.internals import file_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class StagedRows:
    """The results of the last batches, in a directory of the checkpoint."""

    def __init__(self, checkpoint: str) -> None:
        self._directory = os.path.join(checkpoint, "staged")

    def rows(
        self, batch: "DataFrame", batch_id: int, compute: "Callable[[DataFrame], DataFrame]", *, must_run: bool = False
    ) -> "DataFrame":
        """The results of a batch, computed unless they are there. With `must_run`, its plan is run even then."""
        path = os.path.join(self._directory, str(batch_id))
        files, done = file_of(batch, os.path.join(path, "_SUCCESS"))
        if not files.exists(done):
            compute(batch).write.mode("overwrite").parquet(path)
        elif must_run:
            batch.write.format("noop").mode("append").save()
        self._forget(batch, batch_id - 2)
        return batch.sparkSession.read.parquet(path)

    def _forget(self, batch: "DataFrame", batch_id: int) -> None:
        """Spark has written down that the batch after it was done: it will not be asked for again."""
        if batch_id >= 0:
            files, place = file_of(batch, os.path.join(self._directory, str(batch_id)))
            files.delete(place, True)
