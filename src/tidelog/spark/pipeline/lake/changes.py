"""Rows that are changes of a table's rows: the last change of each key, and which of its columns a table stores.

A change has the columns of its row, the operation and a column that orders the changes of a key. The table stores the
ordering column with the row, so that a change that arrives late does not replace a newer one.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidelog.spark.pipeline.definition.endpoints import Changes
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.lake.evolution import fitted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

DELETED: Final = "_deleted"
_RANK: Final = "_rank"


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
        return [name for name in names if name != DELETED]

    def stored(self, changes: "DataFrame") -> "DataFrame":
        """The rows that changes make of a table."""
        return changes.drop(DELETED)

    def fitted(self, changes: "pa.Table", columns: "pa.Schema") -> "pa.Table":
        """Changes with the columns of the table, and the one that is true for deletions."""
        if self.keep_deleted is not None:
            return fitted(changes, columns)
        return fitted(changes, columns.append(changes.schema.field(DELETED)))

    def check_keys(self, changes: "pa.Table") -> None:
        """A row without a key is equal to none. Raises PipelineError."""
        for name in (*self.key, self.order_by):
            if changes[name].null_count:
                raise PipelineError(
                    f"{changes[name].null_count} changes have no value in the column {name!r}: "
                    f"reject them in the steps, with fail_when('{name} is null', …)"
                )


def keyed(sink: Changes) -> KeyedChanges:
    """The keys and the order of a sink."""
    return KeyedChanges(sink.key, sink.order_by, sink.keep_deleted)


def last_changes(rows: "DataFrame", sink: Changes) -> "DataFrame":
    """The last change of each key: the columns of its row, and whether it is a deletion."""
    for name in (*sink.key, sink.order_by, sink.operation):
        if name not in rows.columns:
            raise PipelineError(f"{sink} needs the column {name!r}; the rows have {', '.join(rows.columns)}")
    newest_first = Window.partitionBy(*sink.key).orderBy(F.col(sink.order_by).desc())
    last = rows.withColumn(_RANK, F.row_number().over(newest_first)).where(F.col(_RANK) == 1)
    deleted = F.coalesce(F.col(sink.operation).isin(*sink.delete), F.lit(False))
    return last.withColumn(sink.keep_deleted or DELETED, deleted).drop(_RANK, sink.operation)
