"""Rows that are changes of a table's rows: the last change of each key, and which of its columns a table stores.

A change has the columns of its row, the operation and a column that orders the changes of a key. The table stores the
ordering column with the row, so that a change that arrives late does not replace a newer one. A truncation is a change
of every key: it has none itself.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidelog.spark.pipeline.definition.endpoints import Changes
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.lake.evolution import fitted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

DELETED: Final = "_deleted"
TRUNCATES: Final = "_truncates"
_RANK: Final = "_rank"


class LastChanges(NamedTuple):
    """The changes of a batch, one for each key, and the order of its last truncation.

    Rows of the table that are older than the truncation are gone; the changes are all newer.
    """

    rows: "pa.Table"
    truncated: Any


@dataclass(frozen=True, slots=True)
class KeyedChanges:
    """How the changes of one key follow each other."""

    key: tuple[str, ...]
    order_by: str
    keep_deleted: str | None = None

    @property
    def deleted(self) -> str:
        """The column that is true where a change is a deletion."""
        return self.keep_deleted or DELETED

    def stored_names(self, names: list[str]) -> list[str]:
        """Of the columns of changes, those that the table has."""
        return [name for name in names if name not in (DELETED, TRUNCATES)]

    def stored(self, changes: "StructType") -> "StructType":
        """The columns that changes make of a table."""
        from pyspark.sql.types import StructType

        return StructType([changes[name] for name in self.stored_names(changes.fieldNames())])

    def last(self, changes: "pa.Table", columns: "pa.Schema") -> LastChanges:
        """Changes with the columns of the table, and the one that is true for deletions."""
        import pyarrow.compute as pc

        check_keys(changes, self.key, self.order_by)
        truncates = is_true(changes, TRUNCATES)
        truncated = pc.max(changes.filter(truncates)[self.order_by])
        changes = changes.filter(pc.invert(truncates))
        if truncated.is_valid:
            changes = changes.filter(pc.greater_equal(changes[self.order_by], truncated))
        if self.keep_deleted is None:
            columns = columns.append(changes.schema.field(DELETED))
        return LastChanges(fitted(changes, columns), truncated.as_py())


def check_keys(changes: "pa.Table", key: tuple[str, ...], order_by: str) -> None:
    """A row without a key is equal to none, and a truncation has none. Raises PipelineError."""
    import pyarrow.compute as pc

    with_keys = changes.filter(pc.invert(is_true(changes, TRUNCATES)))
    for name, rows in (*[(name, with_keys) for name in key], (order_by, changes)):
        if rows[name].null_count:
            raise PipelineError(
                f"{rows[name].null_count} changes have no value in the column {name!r}: "
                f"reject them in the steps, with fail_when('{name} is null', …)"
            )


def is_true(changes: "pa.Table", name: str) -> "pa.ChunkedArray":
    """A column of booleans; false where it is not there, or null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if name not in changes.column_names:
        return pa.chunked_array([pa.repeat(pa.scalar(False), changes.num_rows)])
    return pc.fill_null(changes[name], False)


def keyed(sink: Changes) -> KeyedChanges:
    """The keys and the order of a sink."""
    return KeyedChanges(sink.key, sink.order_by, sink.keep_deleted)


def last_changes(rows: "DataFrame", sink: Changes) -> "DataFrame":
    """The last change of each key, marked as by `marked_changes`; all truncations are one key."""
    marked = marked_changes(rows, sink, sink.keep_deleted or DELETED)
    newest_first = Window.partitionBy(TRUNCATES, *sink.key).orderBy(F.col(sink.order_by).desc())
    return marked.withColumn(_RANK, F.row_number().over(newest_first)).where(F.col(_RANK) == 1).drop(_RANK)


def marked_changes(rows: "DataFrame", sink: Changes, deleted: str = DELETED) -> "DataFrame":
    """Changes with the columns of their rows, whether they are deletions, and whether they are truncations."""
    for name in (*sink.key, sink.order_by, sink.operation):
        if name not in rows.columns:
            raise PipelineError(f"{sink} needs the column {name!r}; the rows have {', '.join(rows.columns)}")
    found = {deleted: sink.delete, TRUNCATES: sink.truncate}
    operation = F.col(sink.operation)
    marks = {name: F.coalesce(operation.isin(*names), F.lit(False)) for name, names in found.items()}
    return rows.withColumns(marks).drop(sink.operation)
