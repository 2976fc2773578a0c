"""The table that an endpoint of a pipeline describes, and what writes a batch into it."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from pyspark.errors import AnalysisException

from tidelog.client.durations import milliseconds
from tidelog.spark.pipeline.definition.endpoints import HISTORY, Changes, Delta, Iceberg, Maintenance, SqlTable
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.lake.batches import PLAN_DIGITS, Batch, Committed
from tidelog.spark.pipeline.lake.changes import KeyedChanges, keyed, last_changes, marked_changes
from tidelog.spark.pipeline.lake.delta import DeltaLake
from tidelog.spark.pipeline.lake.history import History
from tidelog.spark.pipeline.lake.iceberg import IcebergTable
from tidelog.spark.pipeline.lake.sql import SqlTarget
from tidelog.spark.sink.checkpoint import plan_in_jvm

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

LOG: Final = logging.getLogger("tidelog.pipeline")


class Target(Protocol):
    """A table, on the driver. `append`, `merge` and `keep` write a batch once, however often they are called."""

    name: str

    def append(self, rows: "DataFrame", batch: Batch) -> bool:
        """Append a batch; False if the table has it."""

    def merge(self, rows: "DataFrame", batch: Batch, changes: KeyedChanges) -> bool:
        """Merge a batch of changes, one for each key; False if the table has it."""

    def keep(self, rows: "DataFrame", batch: Batch, history: History) -> bool:
        """Merge a batch of changes into a table of all versions; False if the table has it."""

    def committed(self, application: str) -> Committed | None:
        """The last batch of a query that the table has."""


class LakeTable(Target, Protocol):
    """A table of a lakehouse."""

    def compact(self, target_bytes: int | None = None) -> dict[str, int]:
        """Join small files into larger ones; how many files were replaced by how many."""

    def expire(self, keep_ms: int, now_ms: int) -> int:
        """Forget versions that are older than `keep_ms`; how many there were."""

    def remove_orphans(self, after_ms: int, now_ms: int) -> int:
        """Delete files that no version of the table has once they are older than `after_ms`; how many there were."""

    def read(self) -> "pa.Table":
        """The rows of the table as it is now."""


def open_table(endpoint: Delta | Iceberg) -> LakeTable:
    """The table itself; nothing is opened before it is used."""
    return DeltaLake(endpoint) if isinstance(endpoint, Delta) else IcebergTable(endpoint)


def read_table(spark: "SparkSession", source: Delta | Iceberg) -> "DataFrame":
    """The table as it is now."""
    return spark.createDataFrame(open_table(source).read())


def open_target(endpoint: Delta | Iceberg | SqlTable) -> Target:
    """The table that a sink writes."""
    return SqlTarget(endpoint) if isinstance(endpoint, SqlTable) else open_table(endpoint)


def table_writer(
    sink: Delta | Iceberg | SqlTable | Changes, query_id: Callable[[], str]
) -> "Callable[[DataFrame, int], None]":
    """A function for `foreachBatch`."""
    endpoint = sink.table if isinstance(sink, Changes) else sink
    table = open_target(endpoint)
    upkeep = None if isinstance(endpoint, SqlTable) else upkeep_of(endpoint)

    def write(rows: "DataFrame", batch_id: int) -> None:
        plan = plan_in_jvm(rows, query_id(), batch_id)
        batch = Batch(f"tidelog-{query_id()}", batch_id, None if plan is None else plan[:PLAN_DIGITS])
        if isinstance(sink, Changes) and sink.scd == HISTORY:
            table.keep(marked_changes(_columns_of_changes(rows, sink), sink), batch, history_of(sink))
        elif isinstance(sink, Changes):
            table.merge(last_changes(_columns_of_changes(rows, sink), sink), batch, keyed(sink))
        else:
            table.append(selected(rows, endpoint.columns, sink), batch)
        if upkeep is not None:
            upkeep.start_if_due()

    return write


def _columns_of_changes(rows: "DataFrame", sink: Changes) -> "DataFrame":
    columns = sink.table.columns
    if not columns:
        return rows
    return selected(rows, tuple(dict.fromkeys([*sink.key, *columns, sink.order_by, sink.operation])), sink)


def history_of(sink: Changes) -> History:
    """How a sink keeps the versions of its rows."""
    deleted = sink.keep_deleted or "deleted"
    return History(sink.key, sink.order_by, sink.valid_from, sink.valid_to, deleted, sink.track)


def selected(rows: "DataFrame", columns: Sequence[str], sink: object) -> "DataFrame":
    """The columns that `sink` writes, by default all. Raises PipelineError if the rows do not have them."""
    try:
        return rows.select(*columns) if columns else rows
    except AnalysisException:
        there = ", ".join(rows.columns)
        raise PipelineError(f"{sink} writes the columns {', '.join(columns)}, but the rows have {there}") from None


def put_in_order(table: LakeTable, rule: Maintenance, now_ms: int) -> dict[str, int]:
    """What `rule` says; how many files were joined, how many they became, versions forgotten and files deleted."""
    done = {"removed": 0, "added": 0, "expired": 0, "orphans": 0}
    if rule.compact:
        done |= table.compact(None if rule.target_mb is None else rule.target_mb * 1024 * 1024)
    if rule.keep is not None:
        done["expired"] = table.expire(milliseconds(rule.keep), now_ms)
    if rule.orphans_after is not None:
        done["orphans"] = table.remove_orphans(milliseconds(rule.orphans_after), now_ms)
    return done


def upkeep_of(endpoint: Delta | Iceberg) -> "Upkeep | None":
    """What keeps a table in order beside a running query."""
    return None if endpoint.maintenance is None else Upkeep(open_table(endpoint), endpoint.maintenance)


class Upkeep:
    """Puts a table in order now and then, on its own thread: a batch neither waits for it nor fails because of it."""

    def __init__(self, table: LakeTable, rule: Maintenance) -> None:
        self._table = table
        self._rule = rule
        self._every_s = milliseconds(rule.every) / 1000
        self._due_s = time.monotonic() + self._every_s
        self._thread: threading.Thread | None = None

    def start_if_due(self) -> None:
        """Start if the last time is over and was long enough ago."""
        if time.monotonic() < self._due_s or (self._thread is not None and self._thread.is_alive()):
            return
        self._due_s = time.monotonic() + self._every_s
        self._thread = threading.Thread(target=self._run, name=f"upkeep of {self._table.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            done = put_in_order(self._table, self._rule, int(time.time() * 1000))
            LOG.info(
                "put %s in order: %d files became %d, %d versions were forgotten, %d files that none has were deleted",
                self._table.name,
                *done.values(),
            )
        except Exception:
            LOG.warning(
                "%s was not put in order; the next time is in %d s", self._table.name, self._every_s, exc_info=True
            )
