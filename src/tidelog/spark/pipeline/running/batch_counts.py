"""What expectations found in batches that `BatchEngine` computed, until the report of their batch asks for it.

Spark reports what it counts in its own plan with the progress of a batch. What is computed inside of `foreachBatch` is
no part of that plan. Written in the thread of the query, read in that of the supervisor.
"""

from threading import Lock
from typing import Final

from tidelog.spark.pipeline.definition.expectations import Counts

_KEPT_MAX: Final = 1000


class BatchCounts:
    """The counts of the last batches of one pipeline, each of which is taken once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_batch: dict[int, Counts] = {}

    def note(self, batch_id: int, counts: Counts) -> None:
        """Keep the counts of a batch. A batch that is computed again replaces what it had."""
        with self._lock:
            self._by_batch.pop(batch_id, None)
            self._by_batch[batch_id] = counts
            while len(self._by_batch) > _KEPT_MAX:
                del self._by_batch[next(iter(self._by_batch))]

    def take(self, batch_id: int) -> Counts:
        """The counts of a batch, and forget them."""
        with self._lock:
            return self._by_batch.pop(batch_id, {})
