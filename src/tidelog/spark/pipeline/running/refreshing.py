"""Tables that are read again on a schedule, and kept in memory between."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.client.durations import milliseconds
from tidelog.spark.pipeline.definition.endpoints import Refreshed
from tidelog.spark.pipeline.definition.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def has_refreshed(pipeline: Pipeline) -> bool:
    """Whether a table of the pipeline is read again on a schedule."""
    return any(isinstance(table, Refreshed) for table in pipeline.tables.values())


class RefreshedTables:
    """The tables of one query that are kept until they are due. Not shared between threads: batches run one by one."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._kept: dict[str, tuple[DataFrame, float]] = {}

    def get(self, name: str, table: Refreshed, open_table: "Callable[[], DataFrame]") -> "DataFrame":
        """The table, read now if it is due."""
        kept = self._kept.get(name)
        now_s = self._now_s()
        if kept is not None and now_s < kept[1]:
            return kept[0]
        if kept is not None:
            # First, because Spark takes a table at the same path for the one it has in memory.
            kept[0].unpersist(blocking=True)
        rows = open_table().persist()
        self._kept[name] = rows, now_s + milliseconds(table.every) / 1000
        return rows
